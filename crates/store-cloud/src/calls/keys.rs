//! The SQL of keys. Rows are locked in the order of account, then key.

use accounts::{AccountId, Fingerprint};
use deadpool_postgres::GenericClient;
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use router_core::{GenerationId, KeyClaim, KeyDigest, KeyStage, KeyTells, KnownKey};
use tokio_postgres::Row;
use uuid::Uuid;

use super::outcome::StoredOutcome;
use crate::DatabaseError;
use crate::columns::{from_micros, unreadable};
use crate::statements::{query, query_opt};
use crate::step::Commits;

/// So often a claim that others were faster than looks again.
const ROUNDS: usize = 16;

/// What a key stands for, as its rows tell it.
#[derive(Clone, Debug)]
pub(super) enum Claim {
    Fresh,
    /// Claimed for this one, which was not dispatched yet.
    InFlight(GenerationId),
    Running(GenerationId),
    Settled(GenerationId, StoredOutcome),
    Conflict,
}

/// A key as its rows tell it.
pub(super) struct Known {
    key: KnownKey,
    pub(super) generation: GenerationId,
    is_dispatched: bool,
    stored: Option<StoredOutcome>,
}

/// Keys change faster than they can be looked at.
#[derive(Debug, thiserror::Error)]
#[error("a key was taken and freed too often while it was claimed")]
struct Contended;

/// What is known of keys.
const KNOWN: &str = "SELECT place, k.fingerprint, k.generation, k.is_dispatched, k.claimed_until, k.expires_at, g.outcome, g.bucket,
        g.code, g.message, g.content_type, g.replay_bytes
     FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS asked (account, key, place)
     JOIN call_keys k USING (account, key) LEFT JOIN generations g ON g.id = k.generation AND k.is_dispatched";

impl Known {
    fn read(row: &Row) -> Result<Self, DatabaseError> {
        let is_dispatched = row.get("is_dispatched");
        let stored = StoredOutcome::read(row)?;
        let stage = match (is_dispatched, &stored) {
            (false, _) => KeyStage::Claimed {
                until: from_micros(row.get("claimed_until"))?,
            },
            (true, None) => KeyStage::Running,
            (true, Some(_)) => KeyStage::Ended,
        };
        let fingerprint = <[u8; 32]>::try_from(row.get::<_, &[u8]>("fingerprint"));
        Ok(Self {
            key: KnownKey {
                fingerprint: Fingerprint(fingerprint.map_err(unreadable)?),
                expires_at: from_micros(row.get("expires_at"))?,
                stage,
            },
            generation: GenerationId(row.get("generation")),
            is_dispatched,
            stored,
        })
    }

    pub(super) fn tells(&self, fingerprint: &Fingerprint, now: Timestamp) -> KeyTells {
        self.key.tells(fingerprint, now)
    }

    /// What it stands for, for the request that claimed it.
    fn claim(self) -> Claim {
        match (self.key.stage, self.stored) {
            (KeyStage::Ended, Some(stored)) => Claim::Settled(self.generation, stored),
            (KeyStage::Running | KeyStage::Ended, _) => Claim::Running(self.generation),
            (KeyStage::Claimed { .. }, _) => Claim::InFlight(self.generation),
        }
    }
}

/// What is known of one key.
pub(super) async fn known(
    rows: &impl GenericClient,
    account: &AccountId,
    KeyDigest(key): KeyDigest,
) -> Result<Option<Known>, DatabaseError> {
    let (accounts, keys) = (vec![account.as_str()], vec![key.as_slice()]);
    let row = query_opt(rows, KNOWN, &[&accounts, &keys]).await?;
    row.as_ref().map(Known::read).transpose()
}

/// Takes the keys that are free, or tells what they stand for.
pub(super) async fn claim(
    rows: &impl GenericClient,
    claims: &[(KeyClaim, Timestamp)],
    commits: Commits,
) -> Result<Vec<Claim>, DatabaseError> {
    let mut answers: Vec<Option<Claim>> = vec![None; claims.len()];
    for _ in 0..ROUNDS {
        let open: Vec<usize> = (0..claims.len())
            .filter(|place| answers[*place].is_none())
            .collect();
        let mut columns = Columns::of(open.iter().map(|place| &claims[*place]));
        let fresh = columns.insert(rows, commits).await?;
        for place in &open {
            if fresh.contains(&claims[*place].0.generation.0) {
                answers[*place] = Some(Claim::Fresh);
            }
        }
        let open: Vec<usize> = open
            .into_iter()
            .filter(|place| answers[*place].is_none())
            .collect();
        if open.is_empty() {
            break;
        }
        columns = Columns::of(open.iter().map(|place| &claims[*place]));
        let found = query(rows, KNOWN, &[&columns.accounts, &columns.keys]).await?;
        let mut free: HashMap<Uuid, (usize, bool)> = HashMap::default();
        let mut taken = Vec::new();
        for row in found {
            let position: i64 = row.get("place");
            let place = open[usize::try_from(position - 1).expect("it is a position")];
            let (claim, now) = &claims[place];
            let known = Known::read(&row)?;
            match known.tells(&claim.fingerprint, *now) {
                KeyTells::Same => answers[place] = Some(known.claim()),
                KeyTells::Conflict => answers[place] = Some(Claim::Conflict),
                // One of those that ask for it takes it; the others see its claim in the next round.
                KeyTells::Free => {
                    let before = (known.generation.0, known.is_dispatched);
                    if free.insert(before.0, (place, before.1)).is_none() {
                        taken.push(before);
                    }
                }
            }
        }
        if free.is_empty() {
            continue;
        }
        let places: Vec<usize> = taken.iter().map(|(id, _)| free[id].0).collect();
        columns = Columns::of(places.iter().map(|place| &claims[*place]));
        let fresh = columns.replace(rows, &taken, commits).await?;
        for place in places {
            if fresh.contains(&claims[place].0.generation.0) {
                answers[place] = Some(Claim::Fresh);
            }
        }
    }
    let answers = answers
        .into_iter()
        .map(|answer| answer.ok_or_else(|| unreadable(Contended)));
    answers.collect()
}

/// Columns of claims.
struct Columns<'a> {
    accounts: Vec<&'a str>,
    keys: Vec<&'a [u8]>,
    fingerprints: Vec<&'a [u8]>,
    generations: Vec<Uuid>,
    untils: Vec<i64>,
    expiries: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn of(claims: impl Iterator<Item = &'a (KeyClaim, Timestamp)> + Clone) -> Self {
        Self {
            accounts: claims
                .clone()
                .map(|(one, _)| one.account.as_str())
                .collect(),
            keys: claims
                .clone()
                .map(|(one, _)| one.key.0.as_slice())
                .collect(),
            fingerprints: claims
                .clone()
                .map(|(one, _)| one.fingerprint.0.as_slice())
                .collect(),
            generations: claims.clone().map(|(one, _)| one.generation.0).collect(),
            untils: claims
                .clone()
                .map(|(one, now)| one.stands_until(*now).as_microsecond())
                .collect(),
            expiries: claims
                .map(|(one, _)| one.expires_at.as_microsecond())
                .collect(),
        }
    }

    /// Takes keys that nothing is known of; the generations of those that were taken.
    async fn insert(
        &self,
        rows: &impl GenericClient,
        commits: Commits,
    ) -> Result<HashSet<Uuid>, DatabaseError> {
        let taken = query(
            rows,
            "WITH lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', $7, true))
             INSERT INTO call_keys (account, key, fingerprint, generation, claimed_until, expires_at)
             SELECT a.* FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[])
                AS a (account, key, fingerprint, generation, claimed_until, expires_at), lazily
             ORDER BY a.account, a.key ON CONFLICT DO NOTHING RETURNING generation",
            &[
                &self.accounts,
                &self.keys,
                &self.fingerprints,
                &self.generations,
                &self.untils,
                &self.expiries,
                &commits.setting(),
            ],
        ).await?;
        Ok(taken.iter().map(|row| row.get(0)).collect())
    }

    /// Takes keys from what they stood for, unless that changed meanwhile, and forgets what they answered; the generations of
    /// those that were taken.
    async fn replace(
        &self,
        rows: &impl GenericClient,
        before: &[(Uuid, bool)],
        commits: Commits,
    ) -> Result<HashSet<Uuid>, DatabaseError> {
        let (ids, dispatched): (Vec<Uuid>, Vec<bool>) = before.iter().copied().unzip();
        let taken = query(
            rows,
            "WITH asked AS (
                SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[], $7::uuid[],
                    $8::boolean[]) AS a (account, key, fingerprint, generation, claimed_until, expires_at, before, was_dispatched)),
             held AS (
                SELECT k.account, k.key FROM call_keys k JOIN asked a ON a.account = k.account AND a.key = k.key
                    AND a.before = k.generation AND a.was_dispatched = k.is_dispatched
                ORDER BY k.account, k.key FOR UPDATE OF k),
             lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', $9, true)),
             taken AS (
                UPDATE call_keys k SET fingerprint = a.fingerprint, generation = a.generation, is_dispatched = false,
                    claimed_until = a.claimed_until, expires_at = a.expires_at
                FROM held, asked a, lazily
                WHERE k.account = held.account AND k.key = held.key AND a.account = k.account AND a.key = k.key
                RETURNING k.generation, a.before),
             forgotten AS (DELETE FROM call_replays r USING taken t WHERE r.generation = t.before)
             SELECT generation FROM taken",
            &[
                &self.accounts,
                &self.keys,
                &self.fingerprints,
                &self.generations,
                &self.untils,
                &self.expiries,
                &ids,
                &dispatched,
                &commits.setting(),
            ],
        ).await?;
        Ok(taken.iter().map(|row| row.get(0)).collect())
    }
}

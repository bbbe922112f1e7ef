//! The SQL of idempotency keys.

use ::accounts::{AccountId, Fingerprint};
use jiff::Timestamp;
use router_core::{Generation, GenerationId, KeyClaim, KeyDigest, KeyStage, KeyTells, KnownKey};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::columns::StoredOutcome;
use super::event::{Ended, KeyColumns, Life};
use super::keyed::{KeyAnswer, Keyed};
use super::rows::{forget_replay, id};
use crate::columns::{Id, Micros};
use crate::database::{Insert, Transaction, Values};

/// Writes the key of a generation down, in place of one that expired.
const REPLACE: &str = "INSERT OR REPLACE INTO call_keys (account, key, fingerprint, generation, dispatched, expires_at)
     VALUES (?1, ?2, ?3, ?4, 1, ?5)";

/// What a key stands for.
#[derive(Debug)]
pub(super) enum Claim {
    Fresh {
        /// The generation of the key that expired before, if its result has a file of its own.
        expired: Option<GenerationId>,
    },
    /// It was claimed, and not dispatched yet.
    InFlight,
    Running(GenerationId),
    Settled(GenerationId, StoredOutcome),
    Conflict,
    /// The log tells, once it is in the rows.
    Behind,
}

/// Frees the keys that were claimed and never dispatched, as versions before wrote them.
pub(super) fn void_undispatched(rows: &Connection) -> rusqlite::Result<()> {
    rows.execute("DELETE FROM call_keys WHERE dispatched = 0", [])?;
    Ok(())
}

/// The generations that run and have a key, when it expires, and whether they were queued.
pub(super) fn unfinished(
    rows: &Connection,
) -> rusqlite::Result<Vec<(GenerationId, Timestamp, bool)>> {
    let mut statement = rows.prepare(
        "SELECT g.id, k.expires_at, EXISTS (SELECT 1 FROM queued_calls q WHERE q.id = g.id) AS is_queued
         FROM generations g JOIN call_keys k ON k.generation = g.id WHERE g.settled_at IS NULL",
    )?;
    let keyed = statement.query_map([], |row| {
        let Micros(expires_at) = row.get("expires_at")?;
        Ok((id(row, "id")?, expires_at, row.get("is_queued")?))
    })?;
    keyed.collect()
}

/// Takes a key if it is free, or tells what it stands for. What is taken is known in memory alone until it is dispatched.
pub(super) fn claim(
    rows: &mut Transaction<'_>,
    keyed: &Keyed,
    claim: &KeyClaim,
    now: Timestamp,
) -> rusqlite::Result<Claim> {
    let of = (claim.account.clone(), claim.key);
    match keyed.tells(&of, &claim.fingerprint, now) {
        Some((_, KeyAnswer::Claimed)) => return Ok(Claim::InFlight),
        Some((_, KeyAnswer::Conflict)) => return Ok(Claim::Conflict),
        Some((id, KeyAnswer::Running)) => return Ok(Claim::Running(id)),
        Some((_, KeyAnswer::Behind)) => return Ok(Claim::Behind),
        Some((_, KeyAnswer::Free)) | None => {}
    }
    let mut expired = None;
    if let Some((key, known)) = known(rows, &claim.account, claim.key)? {
        match (key.tells(&claim.fingerprint, now), known) {
            (KeyTells::Conflict, _) => return Ok(Claim::Conflict),
            (KeyTells::Same, Known::Running(id)) => return Ok(Claim::Running(id)),
            (KeyTells::Same, Known::Settled(id, stored)) => return Ok(Claim::Settled(id, stored)),
            (KeyTells::Free, Known::Settled(id, _)) => {
                expired = forget_replay(rows, id)?.then_some(id);
                free(rows, id)?;
            }
            (KeyTells::Free, Known::Running(_)) => {}
        }
    }
    // Last, since nothing can fail after it but the transaction. Others of the same transaction have to see it. If it fails, a claim
    // before that had lapsed stays lost.
    if !keyed.claim(claim, now) {
        // The one that had lapsed was dispatched after all.
        return Ok(Claim::Behind);
    }
    let (keyed, generation) = (keyed.clone(), claim.generation);
    rows.on_rollback(move || keyed.end(generation));
    Ok(Claim::Fresh { expired })
}

/// How far the generation of a key is that has a row.
#[derive(Debug)]
pub(super) enum Known {
    /// It runs, or waits in the queue.
    Running(GenerationId),
    Settled(GenerationId, StoredOutcome),
}

impl Known {
    pub(super) fn generation(&self) -> GenerationId {
        let (Self::Running(id) | Self::Settled(id, _)) = self;
        *id
    }
}

/// What the rows know of a key: of a queued request it counts as one that runs.
pub(super) fn known(
    rows: &Connection,
    account: &AccountId,
    KeyDigest(digest): KeyDigest,
) -> rusqlite::Result<Option<(KnownKey, Known)>> {
    rows.prepare_cached(
        "SELECT k.fingerprint, k.generation, k.expires_at, g.outcome, g.bucket, g.code, g.message,
            g.content_type, g.replay, g.replay_hour, g.replay_offset, g.replay_length, g.replay_hash
         FROM call_keys k LEFT JOIN generations g ON g.id = k.generation
         WHERE k.account = ?1 AND k.key = ?2",
    )?
    .query_row(params![account.as_str(), digest], key)
    .optional()
}

fn key(row: &Row<'_>) -> rusqlite::Result<(KnownKey, Known)> {
    let generation = id(row, "generation")?;
    let Micros(expires_at) = row.get("expires_at")?;
    let (stage, known) = match StoredOutcome::read(row)? {
        Some(stored) => (KeyStage::Ended, Known::Settled(generation, stored)),
        None => (KeyStage::Running, Known::Running(generation)),
    };
    let key = KnownKey {
        fingerprint: Fingerprint(row.get("fingerprint")?),
        expires_at,
        stage,
    };
    Ok((key, known))
}

/// Writes down the key of a generation that is dispatched: the one that was claimed for it, or that of a queued request; false if the
/// key is another one's.
pub(super) fn dispatch(
    rows: &Connection,
    generation: &Generation,
    KeyDigest(key): KeyDigest,
    claimed: Option<(Fingerprint, Timestamp)>,
) -> rusqlite::Result<bool> {
    let (account, id) = (generation.account.as_str(), Id(generation.id.0));
    let changed = match claimed {
        Some((Fingerprint(fingerprint), expires_at)) => rows
            .prepare_cached(REPLACE)?
            .execute(params![account, key, fingerprint, id, Micros(expires_at)])?,
        None => rows
            .prepare_cached(
                "UPDATE call_keys SET dispatched = 1 WHERE account = ?1 AND key = ?2 AND generation = ?3",
            )?
            .execute(params![account, key, id])?,
    };
    Ok(changed > 0)
}

/// Frees the key of a generation.
pub(super) fn free(rows: &Connection, id: GenerationId) -> rusqlite::Result<()> {
    rows.prepare_cached("DELETE FROM call_keys WHERE generation = ?1")?
        .execute([Id(id.0)])?;
    Ok(())
}

/// Writes down the keys of generations that have their rows just now, but for those that are free again.
pub(super) fn insert(rows: &Connection, lives: &[&Life<'_>]) -> rusqlite::Result<()> {
    static INSERT: Insert = Insert::new(
        "call_keys (account, key, fingerprint, generation, dispatched, expires_at)",
        6,
    );
    let is_released = |life: &Life<'_>| life.ended.as_ref().is_some_and(Ended::is_released);
    let keyed = lives.iter().filter(|life| !is_released(life));
    let keyed: Vec<_> = keyed
        .filter_map(|life| Some((life.begun.account, life.key?, life.begun.id)))
        .collect();
    let values = |(account, key, generation): &(&str, KeyColumns<'_>, Uuid),
                  values: &mut Values<'_, '_>| {
        values.put(account)?;
        values.put(key.key.0)?;
        values.put(key.fingerprint.0)?;
        values.put(Id(*generation))?;
        values.put(1)?;
        values.put(key.expires_at)
    };
    let mut written = 0;
    INSERT.all(rows, &keyed, values, |_| written += 1)?;
    if written == keyed.len() {
        return Ok(());
    }
    // Some are those of keys that expired: whose row it is now, is known for each.
    for (account, key, generation) in keyed {
        rows.prepare_cached(REPLACE)?.execute(params![
            account,
            key.key.0,
            key.fingerprint.0,
            Id(generation),
            key.expires_at
        ])?;
    }
    Ok(())
}

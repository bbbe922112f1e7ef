//! How generations end: their rows, their results and their bills in one transaction.

use std::time::Duration;

use accounts::{AccountId, LedgerRef};
use bytes::Bytes;
use deadpool_postgres::GenericClient;
use foldhash::{HashMap, HashSet};
use futures_util::future::try_join4;
use jiff::Timestamp;
use router_core::{Ending, GenerationId, OwnerId, REPLAY_CAP_BYTES, Settled};
use tokio_postgres::Row;
use uuid::Uuid;

use super::outcome::OutcomeColumns;
use super::pieces::Pieces;
use super::running::RUNNING;
use super::{facts, kept};
use crate::accounts::ledger::{self, LockedCredits};
use crate::quota::permits;
use crate::statements::{Values, execute, prepare, query, whole};
use crate::step::{Commits, Step};
use crate::{Database, DatabaseError};

/// Pauses between two questions whether a commit counted: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A generation that is to end.
pub(super) struct Settling {
    pub(super) generation: GenerationId,
    pub(super) owner: OwnerId,
    pub(super) account: AccountId,
    pub(super) ending: Ending,
    pub(super) task_id: Option<String>,
    /// Whether its permit goes with it, whatever became of it.
    pub(super) gives_room_back: bool,
    pub(super) now: Timestamp,
}

impl Settling {
    /// How much it has to write.
    pub(super) fn bytes(&self) -> usize {
        body_of(&self.ending).map_or(0, Bytes::len)
    }
}

/// Why a transaction did not end well.
pub(super) enum Failed {
    /// Nothing of it counts.
    Undone(DatabaseError),
    /// Whether it counts is not known.
    Unknown(DatabaseError),
}

impl<E: Into<DatabaseError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Undone(error.into())
    }
}

/// Ends generations, each once and for its owner, and bills them. Where it is not known whether a commit counted, this finds out
/// before it answers.
pub(super) async fn settle(
    database: &Database,
    all: &[Settling],
) -> Result<Vec<Settled>, DatabaseError> {
    let error = match settle_once(database, all, false).await {
        Ok(settled) => return Ok(settled),
        Err(Failed::Undone(error)) => return Err(error),
        Err(Failed::Unknown(error)) => error,
    };
    let mut pause = PAUSES.0;
    tracing::warn!(%error, "whether calls were settled is not known; the database is asked");
    loop {
        tokio::time::sleep(pause).await;
        pause = PAUSES.1.min(pause * 2);
        match settle_once(database, all, true).await {
            Ok(settled) => return Ok(settled),
            Err(Failed::Undone(error)) => return Err(error),
            Err(Failed::Unknown(_)) => {}
        }
    }
}

/// Settles in one transaction. `again` says that an earlier attempt may have been committed: a call that it ended is answered as
/// one that this attempt ended.
pub(super) async fn settle_once(
    database: &Database,
    all: &[Settling],
    again: bool,
) -> Result<Vec<Settled>, Failed> {
    // Until the rows tell, nothing is known of the one before.
    let untold = |error: DatabaseError| match again {
        true => Failed::Unknown(error),
        false => Failed::Undone(error),
    };
    let step = Step::on(database).await.map_err(untold)?;
    let rows = &*step;
    // This waits for a transaction before that is still under way.
    let (taken, credits) = take(&step, all).await.map_err(untold)?;
    let mut counted: HashMap<usize, Row> = HashMap::default();
    for row in taken {
        let (id, account): (Uuid, &str) = (row.get("id"), row.get("account"));
        let owner: Uuid = row.get("owner");
        let first = all.iter().position(|one| {
            one.generation.0 == id && one.owner.0 == owner && one.account.as_str() == account
        });
        counted.extend(first.map(|first| (first, row)));
    }
    let mut answers = vec![Settled::Before; all.len()];
    for place in counted.keys() {
        answers[*place] = Settled::Now;
    }
    if again && counted.is_empty() {
        for place in ended_before(rows, all).await.map_err(untold)? {
            answers[place] = Settled::Now;
        }
        if answers.contains(&Settled::Now) {
            step.undo().await.map_err(untold)?;
            return Ok(answers);
        }
    }
    tokio::try_join!(
        end(rows, all, &counted),
        facts::ended(rows, all, &counted),
        kept::begin(rows, all, &counted),
        give_room_back(rows, all)
    )?;
    let freed: Vec<Uuid> = all
        .iter()
        .zip(&answers)
        .filter(|(_, settled)| **settled == Settled::Before)
        .map(|(one, _)| one.generation.0)
        .collect();
    free_undispatched(rows, &freed).await?;
    let bills: Vec<_> = counted
        .keys()
        .map(|place| &all[*place])
        .filter(|one| matches!(one.ending, Ending::Kept { .. }))
        .map(|one| {
            let cause = LedgerRef::Generation(one.generation.0);
            let cents = one.ending.charge_cents();
            (one.account.clone(), cause, cents, one.now)
        })
        .collect();
    if !bills.is_empty() {
        ledger::bill_locked(rows, &bills, credits).await?;
    }
    step.commit().await.map_err(Failed::Unknown)?;
    Ok(answers)
}

/// Followed by the columns of what is taken. Ids are named besides the joins, so that no plan reads the whole index.
const TAKE: &str = "WITH held AS (
        SELECT r.id FROM generations_running r
        JOIN unnest($1::uuid[], $2::uuid[], $3::text[]) AS a (id, owner, account) USING (id, owner, account)
        WHERE r.id = ANY($1) ORDER BY r.id FOR UPDATE OF r)
     DELETE FROM generations_running r USING held WHERE r.id = ANY($1) AND r.id = held.id RETURNING ";

/// Begins a transaction and takes those out of what runs that their owners end. Locks the credits of those that may be charged, and
/// reads what stands there.
async fn take(step: &Step, all: &[Settling]) -> Result<(Vec<Row>, LockedCredits), DatabaseError> {
    let ids: Vec<Uuid> = all.iter().map(|one| one.generation.0).collect();
    let owners: Vec<Uuid> = all.iter().map(|one| one.owner.0).collect();
    let accounts: Vec<&str> = all.iter().map(|one| one.account.as_str()).collect();
    let charged = all.iter().filter(|one| one.ending.charge_cents() > 0);
    let charged = charged.map(|one| (&one.account, LedgerRef::Generation(one.generation.0)));
    let charged = ledger::Asked::of(charged);
    let take = [TAKE, RUNNING].concat();
    let [take, lock, entries] = prepare(&**step, [&take, ledger::LOCK, ledger::ENTRIES]).await?;
    let of_taken: Values<'_> = &[&ids, &owners, &accounts];
    let of_locked: Values<'_> = &[&charged.accounts];
    let of_entries: Values<'_> = &[&charged.of, &charged.whys, &charged.ids];
    // Sent at once, done one after the other: rows of calls are locked before credits.
    let (_, taken, locked, entries) = try_join4(
        step.begin(Commits::Durably),
        step.query(&take, of_taken),
        step.query(&lock, of_locked),
        step.query(&entries, of_entries),
    )
    .await?;
    Ok((taken, LockedCredits::read(&locked, &entries)?))
}

async fn give_room_back(rows: &impl GenericClient, all: &[Settling]) -> Result<(), DatabaseError> {
    let given = all.iter().filter(|one| one.gives_room_back);
    let given = given.map(|one| (&one.account, one.generation, one.owner));
    let given: Vec<_> = given.collect();
    if given.is_empty() {
        return Ok(());
    }
    let [release] = prepare(rows, [permits::RELEASE]).await?;
    permits::give_back(rows, &release, given.into_iter()).await
}

/// The places of those that a transaction of this very batch ended.
async fn ended_before(
    rows: &impl GenericClient,
    all: &[Settling],
) -> Result<Vec<usize>, DatabaseError> {
    let ids: Vec<Uuid> = all.iter().map(|one| one.generation.0).collect();
    let found = query(
        rows,
        "SELECT id, account, settled_by, settled_at FROM generations WHERE id = ANY($1)",
        &[&ids],
    )
    .await?;
    let places = found.into_iter().filter_map(|row| {
        let (id, by): (Uuid, Uuid) = (row.get("id"), row.get("settled_by"));
        let (account, at): (&str, i64) = (row.get("account"), row.get("settled_at"));
        all.iter().position(|one| {
            (one.generation.0, one.owner.0, one.now.as_microsecond()) == (id, by, at)
                && one.account.as_str() == account
        })
    });
    Ok(places.collect())
}

/// Writes the ends of the calls that this transaction settles (`counted`, by their place in `all`), with the answers to replay, and
/// frees the keys of calls that did not run.
async fn end(
    rows: &impl GenericClient,
    all: &[Settling],
    counted: &HashMap<usize, Row>,
) -> Result<(), DatabaseError> {
    if counted.is_empty() {
        return Ok(());
    }
    let queued = queued(rows, all).await?;
    let (mut ends, mut kept) = (Ends::default(), Vec::new());
    let (mut accounts, mut keys, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (place, row) in counted {
        let one = &all[*place];
        let key: Option<&[u8]> = row.get("key");
        let body = body_of(&one.ending);
        let is_kept = |body: &Bytes| {
            let fits = body.len() <= REPLAY_CAP_BYTES || queued.contains(&one.generation.0);
            key.is_some() && fits
        };
        let replay_bytes = match body {
            None => Some(0),
            Some(body) if is_kept(body) => {
                kept.push((one.generation, body));
                Some(whole(body.len()))
            }
            Some(_) => None,
        };
        ends.push(one, row, replay_bytes);
        if one.ending.frees_key(true, true)
            && let Some(key) = key
        {
            accounts.push(one.account.as_str());
            keys.push(key);
            ids.push(one.generation.0);
        }
    }
    ends.write(rows).await?;
    Pieces::Replays.write(rows, &kept).await?;
    if !ids.is_empty() {
        execute(
            rows,
            "WITH held AS (
                SELECT k.account, k.key FROM call_keys k
                JOIN unnest($1::text[], $2::bytea[], $3::uuid[]) AS a (account, key, generation)
                    USING (account, key, generation) ORDER BY k.account, k.key FOR UPDATE OF k)
             DELETE FROM call_keys k USING held WHERE k.account = held.account AND k.key = held.key",
            &[&accounts, &keys, &ids],
        )
        .await?;
    }
    Ok(())
}

/// Those among them that were queued, whose results are kept whatever their size; asked where it matters.
async fn queued(
    rows: &impl GenericClient,
    all: &[Settling],
) -> Result<HashSet<Uuid>, DatabaseError> {
    let large = all.iter().filter(|one| {
        let body = body_of(&one.ending);
        body.is_some_and(|body| body.len() > REPLAY_CAP_BYTES)
    });
    let large: Vec<Uuid> = large.map(|one| one.generation.0).collect();
    if large.is_empty() {
        return Ok(HashSet::default());
    }
    let found = query(
        rows,
        "SELECT id FROM queued_calls WHERE id = ANY($1)",
        &[&large],
    )
    .await?;
    Ok(found.iter().map(|row| row.get(0)).collect())
}

/// Frees the keys of generations that were claimed and never dispatched.
pub(super) async fn free_undispatched(
    rows: &impl GenericClient,
    ids: &[Uuid],
) -> Result<(), DatabaseError> {
    if ids.is_empty() {
        return Ok(());
    }
    execute(
        rows,
        "WITH held AS (
            SELECT account, key FROM call_keys WHERE generation = ANY($1) AND NOT is_dispatched
            ORDER BY account, key FOR UPDATE)
         DELETE FROM call_keys k USING held WHERE k.account = held.account AND k.key = held.key",
        &[&ids],
    )
    .await?;
    Ok(())
}

/// The bytes that an ending has to tell, if it has any.
fn body_of(ending: &Ending) -> Option<&Bytes> {
    let answer = match ending {
        Ending::Kept { outcome, .. } => outcome.answer()?,
        Ending::Released(_) => return None,
    };
    Some(&answer.body).filter(|body| !body.is_empty())
}

/// Columns of generations that end.
#[derive(Default)]
struct Ends<'a> {
    ids: Vec<Uuid>,
    accounts: Vec<&'a str>,
    models: Vec<&'a str>,
    keys: Vec<Option<&'a [u8]>>,
    holds: Vec<i64>,
    received: Vec<i64>,
    dispatched: Vec<i64>,
    accepted: Vec<Option<i64>>,
    tasks: Vec<Option<&'a [u8]>>,
    times: Vec<i64>,
    owners: Vec<Uuid>,
    charges: Vec<i64>,
    buckets: Vec<Option<&'a str>>,
    outcomes: Vec<&'a str>,
    codes: Vec<Option<&'a [u8]>>,
    messages: Vec<Option<&'a [u8]>>,
    content_types: Vec<Option<&'a str>>,
    replays: Vec<Option<i64>>,
    api_keys: Vec<Option<&'a str>>,
}

impl<'a> Ends<'a> {
    fn push(&mut self, one: &'a Settling, row: &'a Row, replay_bytes: Option<i64>) {
        let outcome = OutcomeColumns::of(&one.ending);
        let named = one.task_id.as_ref().map(String::as_bytes);
        self.ids.push(one.generation.0);
        self.accounts.push(one.account.as_str());
        self.models.push(row.get("model"));
        self.keys.push(row.get("key"));
        self.holds.push(row.get("hold_cents"));
        self.received.push(row.get("received_at"));
        self.dispatched.push(row.get("dispatched_at"));
        self.accepted.push(row.get("accepted_at"));
        self.tasks.push(named.or(row.get("task_id")));
        self.times.push(one.now.as_microsecond());
        self.owners.push(one.owner.0);
        self.charges.push(whole(one.ending.charge_cents()));
        self.buckets.push(outcome.bucket);
        self.outcomes.push(outcome.outcome);
        self.codes.push(outcome.code);
        self.messages.push(outcome.message);
        self.content_types.push(outcome.content_type);
        self.replays.push(replay_bytes);
        self.api_keys.push(row.get("api_key"));
    }

    async fn write(&self, rows: &impl GenericClient) -> Result<(), DatabaseError> {
        execute(
            rows,
            "INSERT INTO generations (id, account, model, key, hold_cents, received_at, dispatched_at, accepted_at, task_id,
                settled_at, settled_by, charge_cents, bucket, outcome, code, message, content_type, replay_bytes,
                api_key)
             SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[],
                $8::bigint[], $9::bytea[], $10::bigint[], $11::uuid[], $12::bigint[], $13::text[], $14::text[], $15::bytea[],
                $16::bytea[], $17::text[], $18::bigint[], $19::text[])",
            &[
                &self.ids,
                &self.accounts,
                &self.models,
                &self.keys,
                &self.holds,
                &self.received,
                &self.dispatched,
                &self.accepted,
                &self.tasks,
                &self.times,
                &self.owners,
                &self.charges,
                &self.buckets,
                &self.outcomes,
                &self.codes,
                &self.messages,
                &self.content_types,
                &self.replays,
                &self.api_keys,
            ],
        )
        .await?;
        Ok(())
    }
}

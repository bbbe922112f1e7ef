//! The SQL of keys and generations.

use std::time::Duration;

use ::accounts::{AccountId, LedgerRef};
use bytes::Bytes;
use foldhash::HashSet;
use jiff::Timestamp;
use router_core::{Acceptance, Ending, Generation, GenerationId, Handle, Settled, Unfinished};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Replay, StoredOutcome, api_key};
use super::event::{Accepted, Dispatched, Ended, Life, Recorded};
use super::replays::Kept;
use super::{kept_rows, key_rows, labels, queue_rows, servings};
use crate::accounts::{self, SharedAccounts};
use crate::columns::{Id, Micros, parse};
use crate::database::{Insert, Transaction, Values};

/// What a clean-up took away.
pub(super) struct Expired {
    pub(super) rows: usize,
    /// How many of them are keys.
    pub(super) keys: usize,
    /// Whose results have files of their own that nobody asks for any more.
    pub(super) generations: Vec<GenerationId>,
}

/// The generations that run.
pub(super) fn unfinished_ids(rows: &Connection) -> rusqlite::Result<Vec<GenerationId>> {
    let mut statement = rows.prepare("SELECT id FROM generations WHERE settled_at IS NULL")?;
    let found = statement.query_map([], |row| id(row, "id"))?;
    found.collect()
}

/// Writes down that a generation is about to be dispatched, in one statement.
pub(super) fn begin(rows: &Connection, generation: &Generation) -> rusqlite::Result<()> {
    let Dispatched { begun, received_at } = Dispatched::of(generation);
    rows.prepare_cached(
        "INSERT INTO generations (id, account, model, hold_cents, dispatched_at, received_at, api_key)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        Id(begun.id),
        begun.account,
        begun.model,
        begun.hold_cents,
        begun.at,
        received_at,
        generation.api_key.as_ref().map(|key| key.as_str()),
    ])?;
    Ok(())
}

/// Writes down all that is known of these generations; `inserted` is told of those that were not there.
pub(super) fn insert<'i>(
    rows: &Connection,
    lives: &'i [Life<'i>],
    inserted: impl FnMut(&'i Life<'i>),
) -> rusqlite::Result<()> {
    static INSERT: Insert = Insert::new(
        "generations (id, account, model, hold_cents, dispatched_at, handle, poll_after_ms, accepted_at,
            task_id, settled_at, charge_cents, bucket, outcome, code, message, content_type, replay, received_at,
            api_key)",
        19,
    );
    INSERT.all(rows, lives, put_life, inserted)
}

/// As [`insert`], with what is kept of their results.
pub(super) fn insert_kept<'i>(
    rows: &Connection,
    lives: &'i [(Life<'i>, Kept)],
    inserted: impl FnMut(&'i (Life<'i>, Kept)),
) -> rusqlite::Result<()> {
    static INSERT: Insert = Insert::new(
        "generations (id, account, model, hold_cents, dispatched_at, handle, poll_after_ms, accepted_at,
            task_id, settled_at, charge_cents, bucket, outcome, code, message, content_type, replay, received_at,
            api_key, replay_hour, replay_offset, replay_length, replay_hash)",
        23,
    );
    let put = |(life, kept): &(Life<'_>, Kept), values: &mut Values<'_, '_>| {
        put_life(life, values)?;
        values.put(kept.place.map(|place| place.hour))?;
        values.put(kept.place.map(|place| place.offset))?;
        values.put(kept.place.map(|place| place.length))?;
        values.put(kept.sum)
    };
    INSERT.all(rows, lives, put, inserted)
}

fn put_life(life: &Life<'_>, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let (begun, accepted, ended) = (&life.begun, life.accepted.as_ref(), life.ended.as_ref());
    let outcome = ended.map(|ended| &ended.outcome);
    let handle = accepted.filter(|_| ended.is_none());
    let task_id = ended.and_then(|ended| ended.task_id);
    values.put(Id(begun.id))?;
    values.put(begun.account)?;
    values.put(begun.model)?;
    values.put(begun.hold_cents)?;
    values.put(begun.at)?;
    values.put(handle.map(|accepted| accepted.handle))?;
    values.put(accepted.map(|accepted| accepted.poll_after_ms))?;
    values.put(accepted.map(|accepted| accepted.at))?;
    values.put(task_id.or(accepted.and_then(|accepted| accepted.task_id)))?;
    values.put(ended.map(|ended| ended.at))?;
    values.put(ended.map(|ended| ended.charge_cents))?;
    values.put(outcome.and_then(|outcome| outcome.bucket))?;
    values.put(outcome.map(|outcome| outcome.outcome))?;
    values.put(outcome.and_then(|outcome| outcome.code))?;
    values.put(outcome.and_then(|outcome| outcome.message))?;
    values.put(outcome.and_then(|outcome| outcome.content_type))?;
    values.put(ended.map_or(Replay::NoBody, |ended| ended.replay))?;
    values.put(life.received_at)?;
    values.put(life.api_key)
}

/// Writes down that the partner works on a generation.
pub(super) fn accept(rows: &Connection, accepted: &Accepted<'_>) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "UPDATE generations SET handle = ?2, poll_after_ms = ?3, task_id = ?4, accepted_at = ?5
         WHERE id = ?1 AND settled_at IS NULL",
    )?
    .execute(params![
        Id(accepted.id),
        accepted.handle,
        accepted.poll_after_ms,
        accepted.task_id,
        accepted.at,
    ])?;
    Ok(())
}

/// Writes down how a generation ends, and what is kept of its result; whether it had not ended before.
pub(super) fn end(rows: &Connection, ended: &Ended<'_>, kept: Kept) -> rusqlite::Result<bool> {
    let changed = rows
        .prepare_cached(
            "UPDATE generations SET settled_at = ?1, charge_cents = ?2, bucket = ?3, outcome = ?4, code = ?5, message = ?6,
                content_type = ?7, replay = ?8, task_id = coalesce(?9, task_id), handle = NULL, replay_hour = ?12,
                replay_offset = ?13, replay_length = ?14, replay_hash = ?15
             WHERE id = ?10 AND account = ?11 AND settled_at IS NULL",
        )?
        .execute(params![
            ended.at,
            ended.charge_cents,
            ended.outcome.bucket,
            ended.outcome.outcome,
            ended.outcome.code,
            ended.outcome.message,
            ended.outcome.content_type,
            ended.replay,
            ended.task_id,
            Id(ended.id),
            ended.account,
            kept.place.map(|place| place.hour),
            kept.place.map(|place| place.offset),
            kept.place.map(|place| place.length),
            kept.sum,
        ])?;
    Ok(changed > 0)
}

/// Ends a generation, once, and bills it with it.
pub(super) fn settle(
    rows: &mut Transaction<'_>,
    accounts: &SharedAccounts,
    (id, account): (GenerationId, &AccountId),
    ending: &Ending,
    (ended, kept): (&Ended<'_>, Kept),
    now: Timestamp,
) -> rusqlite::Result<Settled> {
    if !end(rows, ended, kept)? {
        free_undispatched(rows, id, ending)?;
        return Ok(Settled::Before);
    }
    if ending.frees_key(true, true) {
        key_rows::free(rows, id)?;
    }
    if let Ending::Kept { charge_cents, .. } = ending {
        kept_rows::begin(rows, id, account, ending.results(), now)?;
        let cause = LedgerRef::Generation(id.0);
        accounts::bill(rows, accounts, account, cause, *charge_cents, now)?;
    }
    Ok(Settled::Now)
}

/// Frees the key of a generation that an ending did not end, if it never was dispatched; whether it was so.
pub(super) fn free_undispatched(
    rows: &Connection,
    id: GenerationId,
    ending: &Ending,
) -> rusqlite::Result<bool> {
    let frees = ending.frees_key(is_dispatched(rows, id)?, false);
    if frees {
        key_rows::free(rows, id)?;
    }
    Ok(frees)
}

fn is_dispatched(rows: &Connection, id: GenerationId) -> rusqlite::Result<bool> {
    rows.prepare_cached("SELECT 1 FROM generations WHERE id = ?1")?
        .exists([Id(id.0)])
}

/// Writes HTTP requests down, but for those that are there.
pub(super) fn record(
    rows: &Connection,
    calls: &[(Recorded<'_>, Option<&str>)],
) -> rusqlite::Result<()> {
    static INSERT: Insert = Insert::new(
        "calls (received_at, request, account, model, key, generation, bucket, replayed, answered_at,
            delivered, api_key)",
        11,
    );
    let values = |(call, key): &(Recorded<'_>, Option<&str>), values: &mut Values<'_, '_>| {
        values.put(call.received_at)?;
        values.put(Id(call.request))?;
        values.put(call.account)?;
        values.put(call.model)?;
        values.put(call.key)?;
        values.put(call.generation.map(Id))?;
        values.put(call.bucket)?;
        values.put(call.replayed)?;
        values.put(call.answered_at)?;
        values.put(call.delivered)?;
        values.put(*key)
    };
    INSERT.all(rows, calls, values, |_| {})
}

/// What was dispatched and has not ended, oldest first.
pub(super) fn unfinished(rows: &Connection) -> rusqlite::Result<Vec<Unfinished>> {
    let mut statement = rows.prepare_cached(
        "SELECT id, account, model, hold_cents, coalesce(generations.received_at, dispatched_at) AS received_at,
            dispatched_at, handle, poll_after_ms, accepted_at, api_key, serving, labels
         FROM generations LEFT JOIN call_servings ON generation = id
            LEFT JOIN call_labels l ON l.received_at = generations.received_at AND l.request = id
         WHERE settled_at IS NULL ORDER BY dispatched_at, id",
    )?;
    let found = statement.query_map([], |row| {
        let Micros(received_at) = row.get("received_at")?;
        let Micros(dispatched_at) = row.get("dispatched_at")?;
        let handle: Option<Vec<u8>> = row.get("handle")?;
        let poll_after_ms: Option<i64> = row.get("poll_after_ms")?;
        let accepted_at: Option<Micros> = row.get("accepted_at")?;
        let accepted = handle.map(|handle| Acceptance {
            handle: Handle(Bytes::from(handle)),
            poll_after: Duration::from_millis(poll_after_ms.unwrap_or(0).unsigned_abs()),
            at: accepted_at.map_or(dispatched_at, |Micros(at)| at),
        });
        Ok(Unfinished {
            generation: Generation {
                id: id(row, "id")?,
                account: parse(&row.get::<_, String>("account")?)?,
                model: parse(&row.get::<_, String>("model")?)?,
                hold_cents: row.get::<_, i64>("hold_cents")?.unsigned_abs(),
                received_at,
                dispatched_at,
                api_key: api_key(row)?,
                labels: labels::read(row)?,
                serving: servings::read(row)?,
            },
            accepted,
        })
    })?;
    found.collect()
}

/// How a generation ended; `None` if it did not, or is unknown.
pub(super) fn outcome(
    rows: &Connection,
    id: GenerationId,
) -> rusqlite::Result<Option<StoredOutcome>> {
    let stored = rows
        .prepare_cached(
            "SELECT outcome, bucket, code, message, content_type, replay, replay_hour, replay_offset, replay_length, replay_hash
             FROM generations WHERE id = ?1",
        )?
        .query_row([Id(id.0)], StoredOutcome::read)
        .optional()?;
    Ok(stored.flatten())
}

/// Forgets what is over, at most `limit` of each kind.
pub(super) fn expire(
    rows: &Connection,
    now: Timestamp,
    keep_from: Timestamp,
    limit: usize,
) -> rusqlite::Result<Expired> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut keys = rows.prepare_cached(
        "DELETE FROM call_keys WHERE generation IN (
            SELECT k.generation FROM call_keys k LEFT JOIN generations g ON g.id = k.generation
            WHERE k.expires_at <= ?1 AND (g.id IS NULL OR g.settled_at IS NOT NULL)
            ORDER BY k.expires_at LIMIT ?2)
         RETURNING generation",
    )?;
    let generations = keys.query_map(params![Micros(now), limit], |row| id(row, "generation"))?;
    let generations = generations.collect::<rusqlite::Result<Vec<_>>>()?;
    let keys = generations.len();
    let mut with_files = Vec::new();
    for id in generations {
        if forget_replay(rows, id)? {
            with_files.push(id);
        }
    }
    let old_generations = rows
        .prepare_cached(
            // The oldest are looked at and no others: an index by time would cost every call, and few of them still run.
            "DELETE FROM generations WHERE id IN (SELECT id FROM generations ORDER BY id LIMIT ?2)
                AND settled_at < ?1 AND NOT EXISTS (SELECT 1 FROM call_keys WHERE generation = generations.id)",
        )?
        .execute(params![Micros(keep_from), limit])?;
    servings::expire(rows, limit)?;
    let old_queued = queue_rows::expire(rows, keep_from, limit)?;
    labels::expire(rows, Micros(keep_from), limit)?;
    let old_results = kept_rows::expire(rows, keep_from, limit)?;
    let old_calls = rows
        .prepare_cached(
            "DELETE FROM calls WHERE (received_at, request) IN (
                SELECT received_at, request FROM calls WHERE received_at < ?1
                ORDER BY received_at LIMIT ?2)",
        )?
        .execute(params![Micros(keep_from), limit])?;
    Ok(Expired {
        rows: keys + old_generations + old_queued + old_results + old_calls,
        keys,
        generations: with_files,
    })
}

/// Those among the names of files that no row has, for a result or for a body that waits.
pub(super) fn without_replay(
    rows: &Connection,
    mut generations: Vec<GenerationId>,
) -> rusqlite::Result<Vec<GenerationId>> {
    let mut named = rows.prepare_cached(
        "SELECT 1 FROM generations WHERE id = ?1 AND replay = 1
         UNION ALL SELECT 1 FROM queued_calls WHERE body_file = ?1",
    )?;
    let mut kept = HashSet::default();
    for id in &generations {
        if named.exists([Id(id.0)])? {
            kept.insert(*id);
        }
    }
    generations.retain(|id| !kept.contains(id));
    Ok(generations)
}

/// Forgets the file of a generation, if it has one of its own; whether it had.
pub(super) fn forget_replay(rows: &Connection, id: GenerationId) -> rusqlite::Result<bool> {
    let changed = rows
        .prepare_cached("UPDATE generations SET replay = 2 WHERE id = ?1 AND replay = 1")?
        .execute([Id(id.0)])?;
    Ok(changed > 0)
}

pub(super) fn id(row: &Row<'_>, column: &str) -> rusqlite::Result<GenerationId> {
    let Id(id) = row.get(column)?;
    Ok(GenerationId(id))
}

//! Forgets what is past its time, in bounded steps. What another process forgets at this moment is left to it.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::kept;
use super::pieces::Pieces;
use crate::statements::{execute, query, whole};
use crate::{Database, DatabaseError};

/// Forgets at most `limit` of each kind; how many rows went.
pub(super) async fn expire(
    database: Database,
    now: Timestamp,
    keep_from: Timestamp,
    limit: usize,
) -> Result<usize, DatabaseError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let (now, keep_from) = (now.as_microsecond(), keep_from.as_microsecond());
    let limit = whole(limit);
    let keys = keys(&rows, now, limit).await?;
    let generations = execute(
        &rows,
        "DELETE FROM generations WHERE id IN (
            SELECT g.id FROM generations g WHERE g.settled_at < $1 AND NOT EXISTS (
                SELECT FROM call_keys k WHERE k.account = g.account AND k.key = g.key AND k.generation = g.id)
            ORDER BY g.settled_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&keep_from, &limit],
    )
    .await?;
    execute(
        &rows,
        "DELETE FROM call_servings WHERE generation IN (
            SELECT s.generation FROM call_servings s
            WHERE s.received_at < $1 AND NOT EXISTS (SELECT FROM generations g WHERE g.id = s.generation)
                AND NOT EXISTS (SELECT FROM generations_running r WHERE r.id = s.generation)
            ORDER BY s.received_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&keep_from, &limit],
    )
    .await?;
    let queued = execute(
        &rows,
        "DELETE FROM queued_calls WHERE id IN (
            SELECT id FROM queued_calls WHERE expires_at < $1 AND state >= 2 ORDER BY expires_at LIMIT $2
            FOR UPDATE SKIP LOCKED)",
        &[&keep_from, &limit],
    )
    .await?;
    let calls = execute(
        &rows,
        "DELETE FROM calls WHERE (received_at, request) IN (
            SELECT received_at, request FROM calls WHERE received_at < $1 ORDER BY received_at, request LIMIT $2
            FOR UPDATE SKIP LOCKED)",
        &[&keep_from, &limit],
    )
    .await?;
    execute(
        &rows,
        "DELETE FROM call_labels WHERE (received_at, request) IN (
            SELECT l.received_at, l.request FROM call_labels l
            WHERE l.received_at < $1 AND NOT EXISTS (SELECT FROM generations g WHERE g.id = l.request)
                AND NOT EXISTS (SELECT FROM generations_running r WHERE r.id = l.request)
                AND NOT EXISTS (SELECT FROM queued_calls q WHERE q.id = l.request)
            ORDER BY l.received_at, l.request LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&keep_from, &limit],
    )
    .await?;
    let results = kept::expire(&rows, keep_from, limit).await?;
    // What a dead process held counts nowhere once its call does not run any more, and is no row of this port.
    execute(
        &rows,
        "DELETE FROM call_permits WHERE (account, generation) IN (
            SELECT p.account, p.generation FROM call_permits p
            WHERE p.until <= $1 AND NOT EXISTS (SELECT FROM generations_running r WHERE r.id = p.generation)
            LIMIT $2 FOR UPDATE OF p SKIP LOCKED)",
        &[&now, &limit],
    )
    .await?;
    rows.commit().await?;
    let gone = generations + queued + calls + results;
    Ok(keys + usize::try_from(gone).unwrap_or(usize::MAX))
}

/// Forgets keys that have expired, with what they replay.
async fn keys(rows: &Transaction<'_>, now: i64, limit: i64) -> Result<usize, DatabaseError> {
    let gone = query(
        rows,
        "WITH old AS (
            SELECT account, key FROM call_keys k WHERE expires_at <= $1
                AND (NOT is_dispatched OR EXISTS (SELECT FROM generations g WHERE g.id = k.generation))
            ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM call_keys k USING old WHERE k.account = old.account AND k.key = old.key RETURNING k.generation",
        &[&now, &limit],
    ).await?;
    let gone: Vec<Uuid> = gone.iter().map(|row| row.get(0)).collect();
    Pieces::Replays.forget(rows, &gone).await?;
    Ok(gone.len())
}

//! Reading what is new.
//!
//! Rows get their numbers before they are committed, so a row may appear below ones that were read. What is missing between rows
//! is therefore looked for again, until every transaction that was under way when it was missed has ended: then there is no such
//! row. The row of one job's later change always has a larger number and appears later, since its row is locked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;
use workflow_core::Change;

use super::{Shared, packed};
use crate::DatabaseError;
use crate::statements::query;

/// How long it takes at most until a replica looks, unless a notification comes.
const INTERVAL: Duration = Duration::from_millis(250);

/// How many rows are read at a time: each may tell of some twenty changes.
const TOGETHER: i64 = 500;

/// How many of the newest changes the table keeps. A replica that has not seen an older one begins anew.
const KEPT: i64 = 100_000;

/// How many old changes are deleted at a time.
const DELETED: i64 = 5_000;

/// Each so many deletes look at all old changes.
const ALL_EVERY: u32 = 64;

/// How far behind the newest number a replica that begins looks for rows that are not committed yet.
const UNCOMMITTED: i64 = 4_096;

/// The number of the advisory lock that the replica has which deletes old changes.
const DELETING: i64 = 0x6561_7365_6c03;

/// What a replica has seen.
#[derive(Default)]
struct Seen {
    /// The largest number.
    newest: i64,
    /// When the server started that gave it out: another one may give it out again, after a crash of this one.
    server: i64,
    /// Smaller numbers that did not appear yet, each with a transaction id that was not given out when it was missed.
    missing: BTreeMap<i64, i64>,
    /// The newest number up to which old changes were deleted.
    deleted: i64,
    /// The largest number that this replica deleted: the next ones are looked for behind it,
    gone: i64,
    /// but now and then from the beginning, for those that were committed late.
    deletes: u32,
}

/// What one look found.
struct Found {
    changes: Vec<Change>,
    is_full: bool,
    is_behind: bool,
}

/// Reads the changes of other replicas as they come.
pub(super) async fn follow(shared: Arc<Shared>) {
    let mut seen: Option<Seen> = None;
    loop {
        match shared
            .database
            .watched()
            .watch(look(&shared, &mut seen))
            .await
        {
            Ok(true) => continue,
            Ok(false) => *shared.caught_up() = Some(Instant::now()),
            Err(error) => {
                tracing::warn!(error = %error, "reading what other replicas changed failed; trying again");
                tokio::time::sleep(INTERVAL).await;
            }
        }
        let _ = tokio::time::timeout(INTERVAL, shared.look.notified()).await;
    }
}

/// Reads some of what is new; whether there may be more.
async fn look(shared: &Shared, seen: &mut Option<Seen>) -> Result<bool, DatabaseError> {
    let Some(known) = seen else {
        *seen = Some(begin(shared).await?);
        shared.kept.start_over();
        return Ok(true);
    };
    let found = read(shared, known).await?;
    if found.is_behind {
        *seen = None;
        return Ok(true);
    }
    if !found.changes.is_empty() {
        shared.kept.add(found.changes);
    }
    if known.newest - known.deleted > KEPT + DELETED {
        delete(shared, known).await?;
    }
    Ok(found.is_full)
}

/// Begins at the newest change: what is committed from now on comes.
async fn begin(shared: &Shared) -> Result<Seen, DatabaseError> {
    let connection = shared.database.connection().await?;
    let newest = query(
        &connection,
        "SELECT last_value, is_called, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
            FROM job_change_numbers",
        &[],
    )
    .await?;
    let server = newest[0].try_get(2)?;
    let newest: i64 = match newest[0].try_get(1)? {
        true => newest[0].try_get(0)?,
        false => 0,
    };
    let first = (newest - UNCOMMITTED).max(0);
    let sql = "SELECT number FROM job_changes WHERE number > $1 AND number <= $2";
    let visible = query(&connection, sql, &[&first, &newest]).await?;
    let mut seen = Seen {
        newest,
        server,
        deleted: (newest - KEPT).max(0),
        ..Seen::default()
    };
    let until = next_transaction(shared).await?;
    seen.missing = (first + 1..=newest).map(|number| (number, until)).collect();
    for row in &visible {
        seen.missing.remove(&row.try_get(0)?);
    }
    Ok(seen)
}

/// A transaction id that is larger than all that were given out.
async fn next_transaction(shared: &Shared) -> Result<i64, DatabaseError> {
    let connection = shared.database.connection().await?;
    let sql = "SELECT pg_current_xact_id()::text::bigint";
    Ok(query(&connection, sql, &[]).await?[0].try_get(0)?)
}

async fn read(shared: &Shared, seen: &mut Seen) -> Result<Found, DatabaseError> {
    // All of it as it was at one moment.
    let sql = "SELECT s.last_value, s.oldest, c.number, c.replica, c.job, c.account, c.revision, c.status, c.report, s.server
        FROM (
            SELECT last_value, pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest,
                (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS server
            FROM job_change_numbers
        ) AS s LEFT JOIN LATERAL (
            (SELECT * FROM job_changes WHERE number = ANY($2))
            UNION ALL
            (SELECT * FROM job_changes WHERE number > $1 ORDER BY number LIMIT $3)
        ) AS c ON true ORDER BY c.number";
    let missing: Vec<i64> = seen.missing.keys().copied().collect();
    let connection = shared.database.connection().await?;
    let rows = query(&connection, sql, &[&seen.newest, &missing, &TOGETHER]).await?;
    drop(connection);
    let (newest, oldest): (i64, i64) = (rows[0].try_get(0)?, rows[0].try_get(1)?);
    let unseen = missing.first().copied().unwrap_or(seen.newest + 1);
    // Numbers that a crash took back are given out again, and would pass for seen.
    let is_taken_back = newest < seen.newest || rows[0].try_get::<_, i64>(9)? != seen.server;
    if is_taken_back || unseen <= newest - KEPT {
        return Ok(Found {
            changes: Vec::new(),
            is_full: true,
            is_behind: true,
        });
    }
    let (mut changes, mut new, mut skipped) = (Vec::new(), 0, Vec::new());
    for row in &rows {
        let Some(number) = row.try_get::<_, Option<i64>>(2)? else {
            continue;
        };
        if seen.missing.remove(&number).is_none() {
            skipped.extend(seen.newest + 1..number);
            seen.newest = number;
            new += 1;
        }
        if row.try_get::<_, Uuid>(3)? != shared.replica {
            changes.extend(packed::read(row)?);
        }
    }
    seen.missing.retain(|_, until| *until >= oldest);
    if !skipped.is_empty() {
        let until = next_transaction(shared).await?;
        let skipped = skipped.into_iter().map(|number| (number, until));
        seen.missing.extend(skipped);
    }
    Ok(Found {
        changes,
        is_full: new == TOGETHER,
        is_behind: false,
    })
}

/// Deletes some of the old changes, unless another replica does.
async fn delete(shared: &Shared, seen: &mut Seen) -> Result<(), DatabaseError> {
    let mut connection = shared.database.connection().await?;
    let transaction = connection.transaction().await?;
    crate::jobs::may_be_lost(&transaction).await?;
    let lock = "SELECT pg_try_advisory_xact_lock($1)";
    let is_mine: bool = query(&transaction, lock, &[&DELETING]).await?[0].try_get(0)?;
    let until = seen.newest - KEPT;
    let (mut deleted, mut gone) = (until, seen.gone);
    if is_mine {
        seen.deletes = seen.deletes.wrapping_add(1);
        if seen.deletes.is_multiple_of(ALL_EVERY) {
            gone = 0;
        }
        // Behind those that are gone: while a transaction is open that could see them, the index has their places.
        let sql = "WITH gone AS (
                DELETE FROM job_changes WHERE number IN (
                    SELECT number FROM job_changes WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3)
                RETURNING number
            ) SELECT count(*), coalesce(max(number), $2) FROM gone";
        let found = query(&transaction, sql, &[&gone, &until, &DELETED]).await?;
        if found[0].try_get::<_, i64>(0)? == DELETED {
            deleted = seen.deleted;
        }
        gone = found[0].try_get(1)?;
    }
    transaction.commit().await?;
    (seen.deleted, seen.gone) = (deleted, gone);
    Ok(())
}

//! Sweeping: jobs past their time with all that lies beside them, and what no job needs any more.

use accounts::AccountId;
use asset_store::Hold;
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Shared, sets};
use crate::DatabaseError;
use crate::columns::parse;
use crate::records::rows::{add_stored, lock_accounts, release};
use crate::statements::{execute, query, whole};

/// How many accounts without jobs are forgotten at a time.
const ACCOUNTS: i64 = 1_000;

/// Deletes at most `limit` jobs past their time, and answers how many.
pub(super) async fn expire(
    store: &Shared,
    now: Timestamp,
    limit: usize,
) -> Result<usize, DatabaseError> {
    let mut connection = store.database.connection().await?;
    let transaction = connection.transaction().await?;
    let over = "DELETE FROM jobs_over WHERE id IN (
            SELECT id FROM jobs_over WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
        ) RETURNING id, account, body_bytes";
    let limit = whole(limit);
    let over = query(&transaction, over, &[&now.as_microsecond(), &limit]).await?;
    let (mut ids, mut bytes) = (Vec::<Uuid>::new(), Vec::new());
    for row in &over {
        ids.push(row.try_get(0)?);
        bytes.push((parse(row.try_get(1)?)?, -row.try_get::<_, i64>(2)?));
    }
    if !ids.is_empty() {
        let accounts: Vec<&AccountId> = bytes.iter().map(|(account, _)| account).collect();
        lock_accounts(&transaction, &accounts).await?;
        let holds = ids
            .iter()
            .flat_map(|id| [Hold::Input(*id), Hold::Output(*id)]);
        release(&transaction, &holds.collect::<Vec<_>>()).await?;
        let bytes = bytes.iter().map(|(account, bytes)| (account, *bytes));
        add_stored(&transaction, &bytes.collect::<Vec<_>>()).await?;
        delete_beside(&transaction, &ids).await?;
    }
    transaction.commit().await?;

    let transaction = connection.transaction().await?;
    sets::forget_unused(&transaction, now).await?;
    forget_idle(&transaction, now).await?;
    transaction.commit().await?;
    Ok(ids.len())
}

async fn delete_beside(transaction: &Transaction<'_>, ids: &[Uuid]) -> Result<(), DatabaseError> {
    for sql in [
        "DELETE FROM job_bodies WHERE job = ANY($1)",
        "DELETE FROM job_logs WHERE job = ANY($1)",
        "DELETE FROM job_outputs WHERE job = ANY($1)",
        "DELETE FROM job_labels WHERE job = ANY($1)",
        "DELETE FROM job_keys WHERE job = ANY($1)",
    ] {
        execute(transaction, sql, &[&ids]).await?;
    }
    Ok(())
}

/// Forgets accounts of which no job waits or runs: every later number is larger than that of their last claim. And workers that
/// are gone.
async fn forget_idle(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), DatabaseError> {
    let idle = "WITH idle AS MATERIALIZED (
            SELECT a.account FROM job_accounts AS a JOIN job_turns AS t USING (account)
            WHERE a.entered = t.departed AND NOT EXISTS (SELECT 1 FROM job_runs AS r WHERE r.account = a.account)
            LIMIT $1 FOR UPDATE OF a, t SKIP LOCKED
        ), turns AS (DELETE FROM job_turns AS t USING idle WHERE t.account = idle.account)
        DELETE FROM job_accounts AS a USING idle WHERE a.account = idle.account";
    execute(transaction, idle, &[&ACCOUNTS]).await?;
    // Of submissions that were all refused.
    let empty = "DELETE FROM job_accounts WHERE account IN (
            SELECT account FROM job_accounts AS a
            WHERE entered = 0 AND NOT EXISTS (SELECT 1 FROM job_turns AS t WHERE t.account = a.account)
            LIMIT $1 FOR UPDATE SKIP LOCKED)";
    execute(transaction, empty, &[&ACCOUNTS]).await?;
    let gone = "DELETE FROM job_workers WHERE worker IN (
            SELECT worker FROM job_workers WHERE until <= $1 FOR UPDATE SKIP LOCKED)";
    execute(transaction, gone, &[&now.as_microsecond()]).await?;
    Ok(())
}

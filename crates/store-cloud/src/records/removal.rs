//! Deleting records: those that an account asks for, and those past their time.
//!
//! A record is looked at for holds after its row is locked, by a statement of its own: what was held before is seen then, and
//! what is held after waits.

use accounts::AccountId;
use asset_store::{AssetId, Removal};
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::rows;
use crate::columns::{parse, unsigned};
use crate::newest::places;
use crate::statements::{execute, query, query_opt, whole};
use crate::{Database, DatabaseError};

/// Most keys past their time that one call forgets.
const KEYS: i64 = 10_000;

/// Deletes a record unless it is held.
pub(super) async fn remove(
    database: &Database,
    account: &AccountId,
    id: AssetId,
    now: Timestamp,
) -> Result<Removal, DatabaseError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    rows::lock_accounts(&rows, &[account]).await?;
    let live = query_opt(
        &rows,
        "SELECT 1 FROM assets WHERE id = $1 AND account = $2 AND (expires_at IS NULL OR expires_at > $3) FOR UPDATE",
        &[&id.0, &account.as_str(), &now.as_microsecond()],
    )
    .await?;
    if live.is_none() {
        return Ok(Removal::Absent);
    }
    let gone = delete(&rows, &[account], &[id.0]).await?;
    rows.commit().await?;
    Ok(match gone {
        0 => Removal::Held,
        _ => Removal::Removed,
    })
}

/// Deletes at most `limit` records that are expired and not held, and forgets expired keys; how many records went.
pub(super) async fn expire(
    database: &Database,
    now: Timestamp,
    limit: usize,
) -> Result<usize, DatabaseError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let now = now.as_microsecond();
    let over = query(
        &rows,
        "SELECT id, account FROM assets WHERE expires_at <= $1
            AND NOT EXISTS (SELECT FROM asset_holds WHERE asset = assets.id)
         ORDER BY expires_at LIMIT $2",
        &[&now, &whole(limit)],
    )
    .await?;
    let mut gone = 0;
    if !over.is_empty() {
        let ids: Vec<Uuid> = over.iter().map(|row| row.get(0)).collect();
        let accounts: Result<Vec<AccountId>, _> =
            over.iter().map(|row| parse(row.get(1))).collect();
        let accounts = accounts?;
        let accounts: Vec<&AccountId> = accounts.iter().collect();
        rows::lock_accounts(&rows, &accounts).await?;
        // Whoever has one of them locked holds it, and did not lock its account.
        let locked = query(
            &rows,
            "SELECT id FROM assets WHERE id = ANY($1) AND expires_at <= $2 ORDER BY id FOR UPDATE SKIP LOCKED",
            &[&ids, &now],
        )
        .await?;
        let ids: Vec<Uuid> = locked.iter().map(|row| row.get(0)).collect();
        gone = delete(&rows, &accounts, &ids).await?;
    }
    execute(
        &rows,
        "DELETE FROM asset_keys WHERE (account, digest) IN (
            SELECT account, digest FROM asset_keys WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&now, &KEYS],
    )
    .await?;
    rows.commit().await?;
    Ok(gone)
}

/// Deletes those of these records that are not held, with their keys; how many. They and their accounts are locked.
async fn delete(
    rows: &Transaction<'_>,
    accounts: &[&AccountId],
    ids: &[Uuid],
) -> Result<usize, DatabaseError> {
    let accounts: Vec<&str> = accounts.iter().map(|account| account.as_str()).collect();
    let sums =
        "(SELECT account, sum(size_bytes)::bigint AS bytes FROM gone GROUP BY account) AS asked";
    let sql = format!(
        "WITH gone AS (
            DELETE FROM assets WHERE id = ANY($2) AND NOT EXISTS (SELECT FROM asset_holds WHERE asset = assets.id)
            RETURNING id, account, hash, size_bytes
         ), keys AS (
            DELETE FROM asset_keys USING gone WHERE asset = gone.id
         ), released AS (
            INSERT INTO released_blobs (hash) SELECT DISTINCT hash FROM gone ORDER BY hash ON CONFLICT DO NOTHING
         ), counted AS (
            UPDATE stored_bytes SET bytes = stored_bytes.bytes - sums.bytes FROM ({}) AS sums
            WHERE stored_bytes.ctid = sums.place
         )
         SELECT count(*) FROM gone",
        places("stored_bytes", sums)
    );
    let row = query_opt(rows, &sql, &[&accounts, &ids]).await?;
    row.map_or(Ok(0), |row| unsigned(row.get(0)))
}

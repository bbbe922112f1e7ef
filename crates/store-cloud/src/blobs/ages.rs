//! The rows of blobs: when each was last put or touched.

use std::time::Duration;

use asset_store::{BlobError, BlobHash};
use deadpool_postgres::{GenericClient, Transaction};
use jiff::{SignedDuration, Timestamp};

use crate::columns::from_micros;
use crate::{Database, DatabaseError};

/// How long the row of a put that failed stays: far longer than any put takes.
const FAILED_PUTS_STAY: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How often a statement is tried while the database is away, and the pause between: a job need not fail because of its restart.
/// The statements that are tried again say the same when they are said twice.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);

const KEEP: &str = "INSERT INTO blob_ages (hash, touched_at, placed) VALUES ($1, $2, $3) \
    ON CONFLICT (hash) DO UPDATE SET \
    touched_at = greatest(blob_ages.touched_at, excluded.touched_at), \
    placed = blob_ages.placed OR excluded.placed \
    RETURNING placed";

impl Database {
    /// Keeps a blob that is about to be put from being deleted; whether it was whole in the bucket before.
    pub(super) async fn announce_blob(
        &self,
        hash: &BlobHash,
        now: Timestamp,
    ) -> Result<bool, BlobError> {
        self.keep_row(hash, now, false).await
    }

    /// Remembers a blob that is whole in the bucket.
    pub(super) async fn keep_blob(&self, hash: &BlobHash, now: Timestamp) -> Result<(), BlobError> {
        self.keep_row(hash, now, true).await.map(drop)
    }

    async fn keep_row(
        &self,
        hash: &BlobHash,
        now: Timestamp,
        placed: bool,
    ) -> Result<bool, BlobError> {
        let mut tries = 1..TRIES;
        loop {
            let kept = async {
                let connection = self.connection().await?;
                upsert(&connection, hash, now, placed).await
            };
            match kept.await {
                Err(error) if error.is_absence() && tries.next().is_some() => {}
                kept => return kept.map_err(failed),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Renews the age of a blob; whether it has a row.
    pub(super) async fn renew_blob(
        &self,
        hash: &BlobHash,
        now: Timestamp,
    ) -> Result<bool, BlobError> {
        const RENEW: &str =
            "UPDATE blob_ages SET touched_at = greatest(touched_at, $2) WHERE hash = $1";
        let (hash, now) = (hash.as_bytes().as_slice(), now.as_microsecond());
        let mut tries = 1..TRIES;
        loop {
            let renewed = async {
                let connection = self.connection().await?;
                let statement = connection.prepare_cached(RENEW).await?;
                let rows = connection.execute(&statement, &[&hash, &now]).await?;
                Ok::<_, DatabaseError>(rows > 0)
            };
            match renewed.await {
                Err(error) if error.is_absence() && tries.next().is_some() => {}
                renewed => return renewed.map_err(failed),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Forgets rows of puts that failed long ago.
    pub(super) async fn forget_failed_puts(&self, now: Timestamp) -> Result<(), BlobError> {
        const FORGET: &str = "DELETE FROM blob_ages WHERE NOT placed AND touched_at < $1";
        let before = now
            .saturating_sub(FAILED_PUTS_STAY)
            .unwrap_or(Timestamp::MIN);
        let connection = self.connection().await.map_err(failed)?;
        let forgotten = connection
            .execute(FORGET, &[&before.as_microsecond()])
            .await;
        forgotten.map(drop).map_err(failed)
    }
}

/// Remembers when a blob that has no row was put.
pub(super) async fn keep(
    rows: &impl GenericClient,
    hash: &BlobHash,
    put_at: Timestamp,
) -> Result<(), BlobError> {
    let kept = upsert(rows, hash, put_at, true).await;
    kept.map(drop).map_err(failed)
}

async fn upsert(
    rows: &impl GenericClient,
    hash: &BlobHash,
    now: Timestamp,
    placed: bool,
) -> Result<bool, DatabaseError> {
    let statement = rows.prepare_cached(KEEP).await?;
    let (hash, now) = (hash.as_bytes().as_slice(), now.as_microsecond());
    let row = rows.query_one(&statement, &[&hash, &now, &placed]).await?;
    Ok(row.get(0))
}

/// Locks the row of a blob until the transaction ends; when it was last put or touched.
pub(super) async fn lock(
    rows: &Transaction<'_>,
    hash: &BlobHash,
) -> Result<Option<Timestamp>, BlobError> {
    const LOCK: &str = "SELECT touched_at FROM blob_ages WHERE hash = $1 FOR UPDATE";
    let statement = rows.prepare_cached(LOCK).await.map_err(failed)?;
    let row = rows
        .query_opt(&statement, &[&hash.as_bytes().as_slice()])
        .await;
    let row = row.map_err(failed)?;
    row.map(|row| from_micros(row.get(0)).map_err(failed))
        .transpose()
}

/// Removes the row of a blob.
pub(super) async fn remove(rows: &Transaction<'_>, hash: &BlobHash) -> Result<(), BlobError> {
    const REMOVE: &str = "DELETE FROM blob_ages WHERE hash = $1";
    let statement = rows.prepare_cached(REMOVE).await.map_err(failed)?;
    let removed = rows
        .execute(&statement, &[&hash.as_bytes().as_slice()])
        .await;
    removed.map(drop).map_err(failed)
}

/// What a failure of the database means to a caller of the blobs.
pub(super) fn failed(error: impl Into<DatabaseError>) -> BlobError {
    BlobError::Io(error.into().into())
}

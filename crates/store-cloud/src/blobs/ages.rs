//! The rows of blobs: when each was last put or touched. Those of blobs that are put at the same time are written together.

use std::collections::HashMap;
use std::time::Duration;

use asset_store::{BlobError, BlobHash};
use deadpool_postgres::{GenericClient, Transaction};
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};

use crate::batch::Batches;
use crate::columns::{from_micros, hash as read_hash};
use crate::statements::{Values, prepare};
use crate::step::{Commits, Step};
use crate::{Database, DatabaseError};

/// How long the row of a put that failed stays: far longer than any put takes.
const FAILED_PUTS_STAY: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How often a statement is tried while the database is away, and the pause between: a job need not fail because of its restart.
/// The statements that are tried again say the same when they are said twice.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);

const KEEP: &str = "INSERT INTO blob_ages (hash, touched_at, placed) VALUES ($1, $2, true) \
    ON CONFLICT (hash) DO UPDATE SET touched_at = greatest(blob_ages.touched_at, excluded.touched_at), placed = true";

/// Keeps blobs that are put. A row that was there before tells so: no transaction has locked one that is new.
const KEEP_ALL: &str = "INSERT INTO blob_ages (hash, touched_at, placed) \
    SELECT hash, max(touched_at), bool_or(placed) FROM unnest($1::bytea[], $2::bigint[], $3::boolean[]) \
        AS n (hash, touched_at, placed) GROUP BY hash ORDER BY hash \
    ON CONFLICT (hash) DO UPDATE SET \
    touched_at = greatest(blob_ages.touched_at, excluded.touched_at), \
    placed = blob_ages.placed OR excluded.placed \
    RETURNING hash, placed, xmax <> 0";

/// How many rows are written together.
const TOGETHER: usize = 64;

/// A blob that is put.
#[derive(Clone, Copy)]
struct Put {
    hash: BlobHash,
    now: Timestamp,
    /// Whether it is about to be put; else it is in the bucket.
    is_ahead: bool,
    /// Whether its row says that it is whole in the bucket.
    placed: bool,
}

/// The rows of blobs that are put.
pub(super) struct Puts(Batches<Put, bool>);

impl Puts {
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(super) fn start(database: &Database) -> Self {
        let turnstile = database.turnstile().apart();
        let database = database.clone();
        Self(Batches::in_turn(
            &turnstile,
            TOGETHER,
            move |puts: Vec<Put>| {
                let database = database.clone();
                async move { put_rows(&database, &puts).await }.boxed()
            },
        ))
    }

    /// Keeps a blob that is about to be put from being deleted; whether its row says that it is whole in the bucket.
    ///
    /// One that is put in a moment is `trusted`: its row says so now, and need not be written again. If the put fails,
    /// [`Database::doubt_blob`] takes it back. What a crash leaves of it is a row without an object.
    pub(super) async fn announce(
        &self,
        hash: &BlobHash,
        now: Timestamp,
        is_trusted: bool,
    ) -> Result<bool, BlobError> {
        self.write(Put {
            hash: *hash,
            now,
            is_ahead: true,
            placed: is_trusted,
        })
        .await
    }

    /// Remembers that a blob that was announced is whole in the bucket.
    pub(super) async fn placed(&self, hash: &BlobHash, now: Timestamp) -> Result<(), BlobError> {
        let placed = self.write(Put {
            hash: *hash,
            now,
            is_ahead: false,
            placed: true,
        });
        placed.await.map(drop)
    }

    async fn write(&self, put: Put) -> Result<bool, BlobError> {
        let mut tries = 1..TRIES;
        loop {
            match self.0.write(put).await {
                Err(error) if error.is_absence() && tries.next().is_some() => {}
                kept => return kept.map_err(failed),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Writes rows of blobs that are put; of each, whether it is whole in the bucket.
///
/// A new row may be lost in a crash: the blob is then as old as its object, which is put after this. So may be that an object is
/// whole. What is known of a blob that had a row is on the disk before its object is put again, since that row may be old.
async fn put_rows(database: &Database, puts: &[Put]) -> Result<Vec<bool>, DatabaseError> {
    let hashes: Vec<&[u8]> = puts
        .iter()
        .map(|put| put.hash.as_bytes().as_slice())
        .collect();
    let times: Vec<i64> = puts.iter().map(|put| put.now.as_microsecond()).collect();
    let placed: Vec<bool> = puts.iter().map(|put| put.placed).collect();
    let step = Step::on(database).await?;
    let [keep] = prepare(&*step, [KEEP_ALL]).await?;
    let values: Values<'_> = &[&hashes, &times, &placed];
    let (begun, rows) = tokio::join!(step.begin(Commits::Lazily), step.query(&keep, values));
    begun?;
    let (mut whole, mut is_old) = (HashMap::new(), false);
    for row in &rows? {
        let hash = read_hash(row.try_get(0)?)?;
        let had_row: bool = row.try_get(2)?;
        let is_announced = || puts.iter().any(|put| put.hash == hash && put.is_ahead);
        is_old |= had_row && is_announced();
        whole.insert(hash, row.try_get(1)?);
    }
    match is_old {
        true => tokio::try_join!(step.durably(), step.commit()).map(drop)?,
        false => step.commit().await?,
    }
    let whole = puts.iter().map(|put| whole.get(&put.hash).copied());
    Ok(whole.map(|whole| whole.unwrap_or(false)).collect())
}

impl Database {
    /// Remembers a blob that is whole in the bucket.
    pub(super) async fn keep_blob(&self, hash: &BlobHash, now: Timestamp) -> Result<(), BlobError> {
        let mut tries = 1..TRIES;
        loop {
            let kept = async {
                let connection = self.connection().await?;
                upsert(&connection, hash, now).await
            };
            match kept.await {
                Err(error) if error.is_absence() && tries.next().is_some() => {}
                kept => return kept.map_err(failed),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Says that a blob may not be whole in the bucket: the put failed that it was announced for. If it is there all the same, its
    /// row is forgotten some day, and it is as old as its object then.
    pub(super) async fn doubt_blob(&self, hash: &BlobHash) -> Result<(), DatabaseError> {
        const DOUBT: &str = "UPDATE blob_ages SET placed = false WHERE hash = $1";
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(DOUBT).await?;
        let hash = hash.as_bytes().as_slice();
        connection.execute(&statement, &[&hash]).await?;
        Ok(())
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
    upsert(rows, hash, put_at).await.map_err(failed)
}

async fn upsert(
    rows: &impl GenericClient,
    hash: &BlobHash,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let statement = rows.prepare_cached(KEEP).await?;
    let (hash, now) = (hash.as_bytes().as_slice(), now.as_microsecond());
    rows.execute(&statement, &[&hash, &now]).await?;
    Ok(())
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

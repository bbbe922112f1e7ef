//! The rows of blobs: when each was last put or touched, and the bytes of small ones. Those of blobs that are put at the same time
//! are written together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use asset_store::{BlobError, BlobHash};
use bytes::Bytes;
use deadpool_postgres::{GenericClient, Transaction};
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};

use crate::batch::Batches;
use crate::columns::{from_micros, hash as read_hash, unreadable, unsigned};
use crate::statements::{Values, prepare, query_opt};
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

/// Keeps blobs that are put, each with its bytes if it is small and all replicas look there. One that is whole in the bucket stays
/// there; bytes that are those of the row are not written again. A row that was there before tells so: no transaction has locked one
/// that is new.
const KEEP_ALL: &str = "INSERT INTO blob_ages AS b (hash, touched_at, placed, bytes) \
    SELECT hash, touched_at, placed, CASE WHEN (SELECT in_rows FROM blob_form WHERE one) THEN bytes END \
    FROM unnest($1::bytea[], $2::bigint[], $3::boolean[], $4::bytea[]) AS n (hash, touched_at, placed, bytes) \
    ON CONFLICT (hash) DO UPDATE SET \
    touched_at = greatest(b.touched_at, excluded.touched_at), \
    placed = b.placed OR excluded.placed, \
    bytes = CASE WHEN excluded.bytes IS NULL OR b.bytes = excluded.bytes OR (b.bytes IS NULL AND b.placed) THEN b.bytes \
        ELSE excluded.bytes END \
    RETURNING hash, placed, xmax <> 0, bytes IS NOT NULL";

const FORGET_ALL: &str = "DELETE FROM blob_ages WHERE hash = ANY($1)";

/// How many rows are written together.
const TOGETHER: usize = 64;

/// A blob that is put.
#[derive(Clone)]
struct Put {
    hash: BlobHash,
    now: Timestamp,
    /// All of a small one.
    bytes: Option<Bytes>,
    /// Whether it is about to be put; else it is in the bucket.
    is_ahead: bool,
    /// Whether its row says that it is whole in the bucket.
    placed: bool,
}

/// What the row of a blob says that is put.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// It is whole in the bucket.
    pub(super) is_placed: bool,
    /// Its bytes are in its row, on the disk: nothing is to be put into the bucket.
    pub(super) has_bytes: bool,
}

/// What the renewal of an age met.
pub(super) enum Renewed {
    /// No row.
    Nothing,
    /// A row without bytes.
    Row,
    /// A row with so many bytes.
    Bytes(u64),
}

/// The rows of blobs that are put.
pub(super) struct Puts(Batches<Put, Result<Kept, DatabaseError>>);

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
                async move { put_each(&database, &puts).await }.boxed()
            },
        ))
    }

    /// Keeps a blob that is about to be put from being deleted, and its bytes if it is small.
    ///
    /// One that is put in a moment is `trusted`: its row says so now, and need not be written again. If the put fails,
    /// [`Database::doubt_blob`] takes it back. What a crash leaves of it is a row without an object.
    pub(super) async fn announce(
        &self,
        hash: &BlobHash,
        now: Timestamp,
        bytes: Option<Bytes>,
        is_trusted: bool,
    ) -> Result<Kept, BlobError> {
        self.write(Put {
            hash: *hash,
            now,
            bytes,
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
            bytes: None,
            is_ahead: false,
            placed: true,
        });
        placed.await.map(drop)
    }

    async fn write(&self, put: Put) -> Result<Kept, BlobError> {
        patiently(|| async { self.0.write(put.clone()).await? }).await
    }
}

/// Asks the database again while it is away.
pub(super) async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T, BlobError>
where
    F: Future<Output = Result<T, DatabaseError>>,
{
    let mut tries = 1..TRIES;
    loop {
        match ask().await {
            Err(error) if error.is_absence() && tries.next().is_some() => {}
            answered => return answered.map_err(failed),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Of puts of the same blob one, in the order of their hashes: that in which all replicas lock their rows.
fn merged(puts: &[Put]) -> BTreeMap<BlobHash, Put> {
    let mut merged = BTreeMap::new();
    for put in puts {
        match merged.entry(put.hash) {
            Entry::Vacant(vacant) => {
                vacant.insert(put.clone());
            }
            Entry::Occupied(mut one) => {
                let one = one.get_mut();
                one.now = one.now.max(put.now);
                one.is_ahead |= put.is_ahead;
                one.placed |= put.placed;
                one.bytes = one.bytes.take().or_else(|| put.bytes.clone());
            }
        }
    }
    merged
}

/// Writes rows of blobs that are put. If PostgreSQL refuses something in them, each is written alone, so that the others do not fail
/// with it.
async fn put_each(
    database: &Database,
    puts: &[Put],
) -> Result<Vec<Result<Kept, DatabaseError>>, DatabaseError> {
    let kept = match put_rows(database, puts, &[]).await {
        // It is rolled back for sure.
        Err(error) if error.state().is_some() && !error.is_absence() => {
            let mut kept = Vec::with_capacity(puts.len());
            for put in puts {
                kept.push(put_alone(database, put).await);
            }
            return Ok(kept);
        }
        kept => kept?,
    };
    Ok(kept.into_iter().map(Ok).collect())
}

/// Writes the row of a blob. One whose bytes PostgreSQL cannot read, and so not compare, is written anew.
async fn put_alone(database: &Database, put: &Put) -> Result<Kept, DatabaseError> {
    let one = std::slice::from_ref(put);
    let kept = match put_rows(database, one, &[]).await {
        Err(error) if error.is_damage() && put.bytes.is_some() => {
            put_rows(database, one, &[put.hash.as_bytes().as_slice()]).await
        }
        kept => kept,
    };
    kept.and_then(|mut kept| kept.pop().ok_or_else(|| unreadable(NoRow)))
}

/// Writes rows of blobs that are put, those that are `lost` after they are deleted; what each says then.
///
/// A new row without bytes may be lost in a crash: the blob is then as old as its object, which is put after this. So may be that an
/// object is whole. What is known of a blob that had a row is on the disk before its object is put again, since that row may be old.
/// Bytes are on the disk as those of an object are: a crash may take rows back that named them, and those are written again.
async fn put_rows(
    database: &Database,
    puts: &[Put],
    lost: &[&[u8]],
) -> Result<Vec<Kept>, DatabaseError> {
    let merged = merged(puts);
    let hashes: Vec<&[u8]> = merged
        .keys()
        .map(|hash| hash.as_bytes().as_slice())
        .collect();
    let rows = merged.values();
    let times: Vec<i64> = rows.clone().map(|put| put.now.as_microsecond()).collect();
    let placed: Vec<bool> = rows.clone().map(|put| put.placed).collect();
    let bytes: Vec<Option<&[u8]>> = rows.map(|put| put.bytes.as_deref()).collect();
    let step = Step::on(database).await?;
    let [keep] = prepare(&*step, [KEEP_ALL]).await?;
    let values: Values<'_> = &[&hashes, &times, &placed, &bytes];
    let begin = async {
        match lost.is_empty() {
            true => step.begin(Commits::Lazily).await,
            false => Ok(()),
        }
    };
    if !lost.is_empty() {
        let [forget] = prepare(&*step, [FORGET_ALL]).await?;
        step.begin(Commits::Lazily).await?;
        step.execute(&forget, &[&lost]).await?;
    }
    let (begun, rows) = tokio::join!(begin, step.query(&keep, values));
    begun?;
    let (mut kept, mut must_last) = (BTreeMap::new(), false);
    for row in &rows? {
        let hash = read_hash(row.try_get(0)?)?;
        let (had_row, has_bytes): (bool, bool) = (row.try_get(2)?, row.try_get(3)?);
        let is_ahead = merged.get(&hash).is_some_and(|put| put.is_ahead);
        must_last |= has_bytes || (had_row && is_ahead);
        let is_placed = row.try_get(1)?;
        kept.insert(
            hash,
            Kept {
                is_placed,
                has_bytes,
            },
        );
    }
    match must_last {
        true => tokio::try_join!(step.durably(), step.commit()).map(drop)?,
        false => step.commit().await?,
    }
    let kept = puts.iter().map(|put| kept.get(&put.hash).copied());
    kept.map(|kept| kept.ok_or_else(|| unreadable(NoRow)))
        .collect()
}

/// PostgreSQL answered fewer rows than it was to write.
#[derive(Debug, thiserror::Error)]
#[error("the row of a blob was not written")]
struct NoRow;

impl Database {
    /// Remembers a blob that is whole in the bucket.
    pub(super) async fn keep_blob(&self, hash: &BlobHash, now: Timestamp) -> Result<(), BlobError> {
        patiently(|| async {
            let connection = self.connection().await?;
            upsert(&connection, hash, now).await
        })
        .await
    }

    /// Says that a blob may not be whole in the bucket: the put failed that it was announced for. If it is there all the same, its
    /// row is forgotten some day, and it is as old as its object then.
    pub(super) async fn doubt_blob(&self, hash: &BlobHash) -> Result<(), DatabaseError> {
        const DOUBT: &str = "UPDATE blob_ages SET placed = false WHERE hash = $1 AND bytes IS NULL";
        let connection = self.connection().await?;
        let statement = connection.prepare_cached(DOUBT).await?;
        let hash = hash.as_bytes().as_slice();
        connection.execute(&statement, &[&hash]).await?;
        Ok(())
    }

    /// Renews the age of a blob.
    pub(super) async fn renew_blob(
        &self,
        hash: &BlobHash,
        now: Timestamp,
    ) -> Result<Renewed, BlobError> {
        const RENEW: &str = "UPDATE blob_ages SET touched_at = greatest(touched_at, $2) WHERE hash = $1 \
            RETURNING octet_length(bytes)";
        let (hash, now) = (hash.as_bytes().as_slice(), now.as_microsecond());
        patiently(|| async move {
            let connection = self.connection().await?;
            let row = query_opt(&connection, RENEW, &[&hash, &now]).await?;
            let Some(row) = row else {
                return Ok(Renewed::Nothing);
            };
            Ok(match row.try_get::<_, Option<i32>>(0)? {
                Some(length) => Renewed::Bytes(unsigned(length.into())?),
                None => Renewed::Row,
            })
        })
        .await
    }

    /// Forgets rows of puts that failed long ago.
    pub(super) async fn forget_failed_puts(&self, now: Timestamp) -> Result<(), BlobError> {
        const FORGET: &str =
            "DELETE FROM blob_ages WHERE NOT placed AND bytes IS NULL AND touched_at < $1";
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
    let error = error.into();
    match error.is_full() {
        true => BlobError::Full(error.into()),
        false => BlobError::Io(error.into()),
    }
}

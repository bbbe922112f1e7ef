//! Blobs as objects of a bucket, named by their hash, and their ages as rows. Those of small blobs have their bytes, too.
//!
//! A put hashes its bytes before anything goes to the bucket, and then writes the object under its name whatever lies there: an
//! object appears whole or not at all, and is only ever replaced by the same bytes. When a blob was put or touched is a row, which
//! puts, touches and deletes lock, so that a sweep never takes what another process names at this moment. What is given out was
//! compared with its hash: a whole blob while it is read, a part of one at most a day before.

mod ages;
mod compare;
mod small;
mod spool;
mod transfer;
mod writer;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use asset_store::{
    Blob, BlobError, BlobHash, BlobIntegrity, BlobReader, BlobStore, BlobWriter, DirectReads,
    Presented, SpaceClass,
};
use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bucket::{blob_error, is_absent, is_out_of_range};
use crate::{Bucket, Database, form};
use ages::{Puts, Renewed};
use small::SMALL;
use spool::Spool;
use transfer::Transfer;
use writer::Writer;

/// Parts, and blobs of at most a part, that are on their way to the bucket at once, each in memory; more wait for their turn, in order.
const UPLOADS: usize = 8;

/// How many blobs may be compared at once because a part of them is asked for. Those who ask for parts of the same blob wait for
/// one comparison.
const COMPARED_AT_ONCE: usize = 16;

/// How long a delete may take while it holds the row of its blob: less than the database lets a transaction idle, which would end
/// the lock before the delete.
const DELETES_WITHIN: Duration = Duration::from_secs(5);

/// No object is as large; what is beyond is asked for by mistake.
const LARGEST: u64 = 1 << 50;

/// How blobs are kept.
#[derive(Clone, Debug)]
pub struct BlobOptions {
    /// Where uploads wait for their hash: files without a name, which end with the process.
    pub spool: PathBuf,
    /// Most bytes of all of them together.
    pub spool_bytes: u64,
}

/// The blobs of a bucket. Clones share them.
#[derive(Clone)]
pub struct BucketBlobs {
    shared: Arc<Shared>,
}

struct Shared {
    bucket: Bucket,
    database: Database,
    puts: Puts,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    spool: Spool,
    uploads: Semaphore,
    integrity: Mutex<BlobIntegrity>,
    /// By the first byte of the hashes.
    comparing: [tokio::sync::Mutex<()>; COMPARED_AT_ONCE],
    /// Looks until bytes may be in rows.
    _watching: JoinSet<()>,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self {
            spool: std::env::temp_dir(),
            spool_bytes: 16 << 30,
        }
    }
}

impl BucketBlobs {
    /// The blobs of this bucket. The database has a row with the age of each; `clock` is the time that goes into it.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn new(
        bucket: Bucket,
        database: Database,
        options: &BlobOptions,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let mut watching = JoinSet::new();
        let watched = database.clone();
        watching.spawn(async move { form::is_written(&watched, form::BLOBS_IN_ROWS).await });
        Self {
            shared: Arc::new(Shared {
                bucket,
                puts: Puts::start(&database),
                database,
                clock: Box::new(clock),
                spool: Spool::new(options),
                uploads: Semaphore::new(UPLOADS),
                integrity: Mutex::default(),
                comparing: Default::default(),
                _watching: watching,
            }),
        }
    }

    /// A part of a blob that is known to have so many bytes, or all of one of which nothing is known; `None` if the object is
    /// another one than was expected.
    async fn read(
        &self,
        hash: &BlobHash,
        range: &Range<u64>,
        known: Option<u64>,
    ) -> Result<Option<BlobReader>, BlobError> {
        let size_bytes = known.unwrap_or(range.end);
        let got = self.shared.bucket.get(hash, Some(range.clone()), None);
        let got = match got.await {
            Err(error) if is_out_of_range(&error) => return Ok(None),
            got => got.map_err(blob_error)?,
        };
        if got.meta.size != size_bytes {
            return Ok(None);
        }
        let transfer = Transfer::new(self.shared.clone(), *hash, got);
        let bytes = match *range == (0..size_bytes) {
            true => self.compared(
                Blob {
                    hash: *hash,
                    size_bytes,
                },
                transfer,
            ),
            false => transfer.into_stream(),
        };
        Ok(Some(BlobReader { size_bytes, bytes }))
    }

    /// No bytes of a blob; `None` if it has to be compared first.
    async fn read_nothing(
        &self,
        hash: &BlobHash,
        at: u64,
    ) -> Result<Option<BlobReader>, BlobError> {
        let head = self.shared.bucket.head(hash).await.map_err(blob_error)?;
        let is_whole = head.size > 0 || *hash == BlobHash::of(b"");
        Ok((is_whole && at <= head.size).then(|| BlobReader {
            size_bytes: head.size,
            bytes: stream::empty().boxed(),
        }))
    }
}

impl Shared {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn integrity(&self) -> MutexGuard<'_, BlobIntegrity> {
        // Every change leaves it whole: what a panic lost is found again.
        self.integrity
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl DirectReads for BucketBlobs {
    async fn address(
        &self,
        blob: &Blob,
        presented: Presented<'_>,
        lasts: Duration,
    ) -> Result<Option<String>, BlobError> {
        if blob.size_bytes <= SMALL {
            return Ok(None);
        }
        // What is missing or damaged is refused here, in the words of this server.
        self.open(&blob.hash, blob.size_bytes..blob.size_bytes)
            .await?;
        let address = self.shared.bucket.address(&blob.hash, presented, lasts);
        Ok(Some(address.await.map_err(blob_error)?.into()))
    }
}

#[async_trait]
impl BlobStore for BucketBlobs {
    async fn begin(&self, _: SpaceClass) -> Result<Box<dyn BlobWriter>, BlobError> {
        // A bucket has no room to keep back.
        Ok(Box::new(Writer::new(self.clone())))
    }

    async fn open(&self, hash: &BlobHash, range: Range<u64>) -> Result<BlobReader, BlobError> {
        if range.start > range.end || range.end > LARGEST {
            return Err(BlobError::Absent);
        }
        let mut compared = None;
        loop {
            let known = {
                let integrity = self.shared.integrity();
                if integrity.is_damaged(hash) {
                    return Err(BlobError::Damaged(*hash));
                }
                integrity
                    .verified_size(hash, self.shared.now())
                    .or(compared)
            };
            if known.is_some_and(|size| range.end > size) {
                return Err(BlobError::Absent);
            }
            if known.unwrap_or(range.end) <= SMALL
                && let Some(reader) = self.open_small(hash, &range).await?
            {
                return Ok(reader);
            }
            let opened = match known {
                _ if range.is_empty() => self.read_nothing(hash, range.end).await,
                // Perhaps all of it, which is compared on its way.
                None if range.start > 0 => Ok(None),
                known => self.read(hash, &range, known).await,
            };
            let opened = opened.inspect_err(|error| {
                if matches!(error, BlobError::Absent) {
                    tracing::warn!(%hash, "a requested blob is not in the bucket");
                }
            });
            if let Some(reader) = opened? {
                return Ok(reader);
            }
            // An object that changes its size all the time is none of this store's.
            if compared.is_some() {
                return Err(BlobError::Absent);
            }
            compared = Some(self.compare_once(hash, known).await?);
        }
    }

    async fn verify(
        &self,
        hash: &BlobHash,
    ) -> Result<BoxStream<'static, Result<u64, BlobError>>, BlobError> {
        match self.verify_small(hash).await {
            Ok(None) => self.compare(hash).await,
            Ok(Some(size_bytes)) => Ok(stream::iter([Ok(size_bytes)]).boxed()),
            Err(damaged @ BlobError::Damaged(_)) => Ok(stream::iter([Err(damaged)]).boxed()),
            Err(error) => Err(error),
        }
    }

    fn damaged(&self) -> Vec<BlobHash> {
        self.shared.integrity().list_damaged()
    }

    async fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        if self.shared.integrity().is_damaged(hash) {
            return Ok(None);
        }
        let now = self.shared.now();
        let mut has_row = match self.shared.database.renew_blob(hash, now).await? {
            Renewed::Bytes(size_bytes) => return Ok(Some(size_bytes)),
            Renewed::Row => true,
            Renewed::Nothing => false,
        };
        loop {
            // After the row, so that it is not deleted in between.
            let head = match self.shared.bucket.head(hash).await {
                Err(error) if is_absent(&error) => return Ok(None),
                head => head.map_err(blob_error)?,
            };
            if has_row {
                return Ok(Some(head.size));
            }
            self.shared.database.keep_blob(hash, now).await?;
            has_row = true;
        }
    }

    async fn delete(&self, hash: &BlobHash, untouched_since: Timestamp) -> Result<bool, BlobError> {
        let database = &self.shared.database;
        let deleted = database.delete_small(hash, untouched_since).await?
            || self.delete_older(hash, untouched_since).await?;
        if deleted {
            self.shared.integrity().forget(hash);
        }
        Ok(deleted)
    }

    async fn list(&self, after: Option<BlobHash>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        if after.is_none() {
            self.shared
                .database
                .forget_failed_puts(self.shared.now())
                .await?;
        }
        let (mut blobs, mut mark) = (Vec::new(), None);
        while blobs.len() < limit {
            let page = self.shared.bucket.page(after, limit - blobs.len(), mark);
            let (page, next) = page.await.map_err(blob_error)?;
            blobs.extend(
                page.into_iter()
                    .map(|(hash, size_bytes)| Blob { hash, size_bytes }),
            );
            mark = next;
            if mark.is_none() {
                break;
            }
        }
        // Behind the last object there may be more of both.
        let last = mark.and(blobs.last().map(|blob| blob.hash));
        let small = self.shared.database.small_blobs(after, last, limit).await?;
        if !small.is_empty() {
            blobs.extend(small);
            blobs.sort_by_key(|blob| blob.hash);
            blobs.dedup_by_key(|blob| blob.hash);
        }
        blobs.truncate(limit);
        Ok(blobs)
    }
}

impl BucketBlobs {
    /// Deletes a blob that is older, while its row is locked; whether it is gone now.
    async fn delete_older(
        &self,
        hash: &BlobHash,
        untouched_since: Timestamp,
    ) -> Result<bool, BlobError> {
        let bucket = &self.shared.bucket;
        loop {
            let mut connection = self
                .shared
                .database
                .connection()
                .await
                .map_err(ages::failed)?;
            let rows = connection.transaction().await.map_err(ages::failed)?;
            if let Some(touched_at) = ages::lock(&rows, hash).await? {
                if touched_at >= untouched_since {
                    return Ok(false);
                }
                let deleted = timeout(DELETES_WITHIN, bucket.delete(hash)).await;
                deleted
                    .map_err(|elapsed| BlobError::Io(elapsed.into()))?
                    .map_err(blob_error)?;
                ages::remove(&rows, hash).await?;
                rows.commit().await.map_err(ages::failed)?;
                return Ok(true);
            }
            drop(rows);
            // What an older backup of the rows does not know is as old as its object.
            let modified = match bucket.head(hash).await {
                Err(error) if is_absent(&error) => return Ok(true),
                head => head.map_err(blob_error)?.last_modified,
            };
            let modified = Timestamp::from_microsecond(modified.timestamp_micros());
            let modified = modified.unwrap_or(Timestamp::MAX);
            if modified >= untouched_since {
                return Ok(false);
            }
            ages::keep(&connection, hash, modified).await?;
        }
    }

    /// All pieces of a comparison; how many bytes it read.
    async fn compare_all(&self, hash: &BlobHash) -> Result<u64, BlobError> {
        let pieces = self.compare(hash).await?;
        pieces.try_fold(0, async |sum, bytes| Ok(sum + bytes)).await
    }

    /// Compares a blob of which this much was `known`, unless another caller has just done so; answers its size.
    async fn compare_once(&self, hash: &BlobHash, known: Option<u64>) -> Result<u64, BlobError> {
        let turn = usize::from(hash.as_bytes()[0]) % COMPARED_AT_ONCE;
        let _turn = self.shared.comparing[turn].lock().await;
        let now_known = self
            .shared
            .integrity()
            .verified_size(hash, self.shared.now());
        match now_known {
            Some(size) if now_known != known => Ok(size),
            _ => self.compare_all(hash).await,
        }
    }
}

impl std::fmt::Debug for BucketBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BucketBlobs({})", self.shared.bucket.place())
    }
}

#[cfg(test)]
mod tests;

//! Blobs in a map.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;

use crate::{Blob, BlobError, BlobHash, BlobReader, BlobStore, BlobWriter, Room};

/// A blob store that forgets everything with the process. Clones share their blobs.
#[derive(Clone)]
pub struct MemoryBlobs {
    inner: Arc<Inner>,
}

struct Inner {
    /// When a blob was last put or touched is told by this clock, as a store of files reads it from its disk.
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    blobs: Mutex<BTreeMap<BlobHash, Held>>,
}

struct Held {
    bytes: Bytes,
    touched_at: Timestamp,
}

struct MemoryWriter {
    inner: Arc<Inner>,
    bytes: BytesMut,
}

impl MemoryBlobs {
    /// A store of no blobs that tells the time by `clock`.
    #[must_use]
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            inner: Arc::new(Inner {
                clock: Box::new(clock),
                blobs: Mutex::default(),
            }),
        }
    }
}

impl Inner {
    fn blobs(&self) -> MutexGuard<'_, BTreeMap<BlobHash, Held>> {
        // A panic while the map is held leaves it whole: every change is one insert or remove.
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn begin(&self, _room: Room) -> Result<Box<dyn BlobWriter>, BlobError> {
        Ok(Box::new(MemoryWriter {
            inner: Arc::clone(&self.inner),
            bytes: BytesMut::new(),
        }))
    }

    async fn open(&self, hash: &BlobHash, range: Range<u64>) -> Result<BlobReader, BlobError> {
        let blobs = self.inner.blobs();
        let held = blobs.get(hash).ok_or(BlobError::Absent)?;
        let start = usize::try_from(range.start).map_err(|_| BlobError::Absent)?;
        let end = usize::try_from(range.end).map_err(|_| BlobError::Absent)?;
        if start > end || end > held.bytes.len() {
            return Err(BlobError::Absent);
        }
        Ok(BlobReader {
            size_bytes: held.bytes.len() as u64,
            bytes: stream::iter([Ok(held.bytes.slice(start..end))]).boxed(),
        })
    }

    async fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let now = (self.inner.clock)();
        let mut blobs = self.inner.blobs();
        Ok(blobs.get_mut(hash).map(|held| {
            held.touched_at = held.touched_at.max(now);
            held.bytes.len() as u64
        }))
    }

    async fn delete(&self, hash: &BlobHash, untouched_since: Timestamp) -> Result<bool, BlobError> {
        let mut blobs = self.inner.blobs();
        let in_use = blobs
            .get(hash)
            .is_some_and(|held| held.touched_at >= untouched_since);
        if !in_use {
            blobs.remove(hash);
        }
        Ok(!in_use)
    }

    async fn list(&self, after: Option<BlobHash>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let blobs = self.inner.blobs();
        let listed = blobs.range((from, Bound::Unbounded)).take(limit);
        Ok(listed
            .map(|(hash, held)| Blob {
                hash: *hash,
                size_bytes: held.bytes.len() as u64,
            })
            .collect())
    }
}

#[async_trait]
impl BlobWriter for MemoryWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), BlobError> {
        self.bytes.extend_from_slice(&chunk);
        Ok(())
    }

    async fn finish(&mut self) -> Result<Blob, BlobError> {
        Ok(Blob {
            hash: BlobHash::of(&self.bytes),
            size_bytes: self.bytes.len() as u64,
        })
    }

    async fn commit_with_rows(self: Box<Self>) -> Result<Blob, BlobError> {
        self.commit().await
    }

    async fn commit(mut self: Box<Self>) -> Result<Blob, BlobError> {
        let blob = self.finish().await?;
        let touched_at = (self.inner.clock)();
        let bytes = self.bytes.freeze();
        self.inner
            .blobs()
            .insert(blob.hash, Held { bytes, touched_at });
        Ok(blob)
    }
}

impl std::fmt::Debug for MemoryBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryBlobs({} blobs)", self.inner.blobs().len())
    }
}

//! Blobs in a map.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;

use super::direct::AddressKey;
use crate::{
    Blob, BlobError, BlobHash, BlobIntegrity, BlobReader, BlobStore, BlobWriter, SpaceClass,
};

/// A blob store that forgets everything with the process. Clones share their blobs.
#[derive(Clone)]
pub struct MemoryBlobs {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    /// When a blob was last put or touched is told by this clock, as a store of files reads it from its disk.
    pub(super) clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    blobs: Mutex<BTreeMap<BlobHash, Held>>,
    /// Taken after the blobs where both are needed.
    integrity: Mutex<BlobIntegrity>,
    pub(super) address_key: AddressKey,
}

pub(super) struct Held {
    pub(super) bytes: Bytes,
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
                integrity: Mutex::default(),
                address_key: AddressKey::random(),
            }),
        }
    }

    /// Puts other bytes in the place of a blob's, as a failing disk does, for tests of what follows from it.
    pub fn damage(&self, hash: &BlobHash, bytes: Bytes) {
        if let Some(held) = self.inner.blobs().get_mut(hash) {
            held.bytes = bytes;
        }
    }
}

impl Inner {
    pub(super) fn blobs(&self) -> MutexGuard<'_, BTreeMap<BlobHash, Held>> {
        // A panic while the map is held leaves it whole: every change is one insert or remove.
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn integrity(&self) -> MutexGuard<'_, BlobIntegrity> {
        self.integrity
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a blob, compared with their hash: in memory that costs too little to be remembered.
    fn whole(&self, hash: &BlobHash) -> Result<Bytes, BlobError> {
        let blobs = self.blobs();
        let held = blobs.get(hash).ok_or(BlobError::Absent)?;
        let mut integrity = self.integrity();
        if BlobHash::of(&held.bytes) != *hash {
            integrity.damaged(*hash);
            return Err(BlobError::Damaged(*hash));
        }
        integrity.forget(hash);
        Ok(held.bytes.clone())
    }
}

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn begin(&self, _room: SpaceClass) -> Result<Box<dyn BlobWriter>, BlobError> {
        Ok(Box::new(MemoryWriter {
            inner: Arc::clone(&self.inner),
            bytes: BytesMut::new(),
        }))
    }

    async fn open(&self, hash: &BlobHash, range: Range<u64>) -> Result<BlobReader, BlobError> {
        if self.inner.integrity().is_damaged(hash) {
            return Err(BlobError::Damaged(*hash));
        }
        let bytes = self.inner.whole(hash)?;
        let start = usize::try_from(range.start).map_err(|_| BlobError::Absent)?;
        let end = usize::try_from(range.end).map_err(|_| BlobError::Absent)?;
        if start > end || end > bytes.len() {
            return Err(BlobError::Absent);
        }
        Ok(BlobReader {
            size_bytes: bytes.len() as u64,
            bytes: stream::iter([Ok(bytes.slice(start..end))]).boxed(),
        })
    }

    async fn verify(
        &self,
        hash: &BlobHash,
    ) -> Result<BoxStream<'static, Result<u64, BlobError>>, BlobError> {
        let read = match self.inner.whole(hash) {
            Err(BlobError::Absent) => return Err(BlobError::Absent),
            compared => compared.map(|bytes| bytes.len() as u64),
        };
        Ok(stream::iter([read]).boxed())
    }

    fn damaged(&self) -> Vec<BlobHash> {
        self.inner.integrity().list_damaged()
    }

    async fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let now = (self.inner.clock)();
        let mut blobs = self.inner.blobs();
        if self.inner.integrity().is_damaged(hash) {
            return Ok(None);
        }
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
            self.inner.integrity().forget(hash);
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
        let mut blobs = self.inner.blobs();
        // Whatever was there before, these are the right bytes.
        blobs.insert(blob.hash, Held { bytes, touched_at });
        self.inner.integrity().forget(&blob.hash);
        drop(blobs);
        Ok(blob)
    }
}

impl std::fmt::Debug for MemoryBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryBlobs({} blobs)", self.inner.blobs().len())
    }
}

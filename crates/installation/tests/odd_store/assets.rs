//! Blobs that come in odd pieces, and records whose operations overtake each other.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use asset_store::{
    Admission, Asset, AssetId, AssetQuery, AssetRecords, Blob, BlobError, BlobHash, BlobReader,
    BlobStore, BlobWriter, DirectReads, FileNames, Hold, InsertAsset, InsertOutcome, KeptAsset,
    Presented, RecordsError, ReleasedBlobs, Removal, ScrubState, ScrubStates, SpaceClass,
    SweepName, SweepStates,
};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use installation::AssetRows;
use jiff::{SignedDuration, Timestamp};

use crate::jitter::Jitter;

/// The largest piece of a blob: no size at which anything changes its ways.
const LARGEST_PIECE: usize = 70_001;

pub(crate) struct OddBlobs {
    pub(crate) inner: Arc<dyn BlobStore>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl BlobStore for OddBlobs {
    async fn begin(&self, room: SpaceClass) -> Result<Box<dyn BlobWriter>, BlobError> {
        self.jitter.around(self.inner.begin(room)).await
    }

    async fn open(&self, hash: &BlobHash, range: Range<u64>) -> Result<BlobReader, BlobError> {
        let reader = self.jitter.around(self.inner.open(hash, range)).await?;
        let jitter = self.jitter.clone();
        let pieces = reader.bytes.flat_map(move |chunk| {
            let mut pieces = Vec::new();
            match chunk {
                Ok(mut chunk) => {
                    while !chunk.is_empty() {
                        let size = 1 + jitter.roll(LARGEST_PIECE);
                        pieces.push(Ok(chunk.split_to(size.min(chunk.len()))));
                    }
                }
                Err(error) => pieces.push(Err(error)),
            }
            stream::iter(pieces)
        });
        Ok(BlobReader {
            size_bytes: reader.size_bytes,
            bytes: pieces.boxed(),
        })
    }

    async fn verify(
        &self,
        hash: &BlobHash,
    ) -> Result<BoxStream<'static, Result<u64, BlobError>>, BlobError> {
        self.jitter.around(self.inner.verify(hash)).await
    }

    fn damaged(&self) -> Vec<BlobHash> {
        self.inner.damaged()
    }

    async fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        self.jitter.around(self.inner.touch(hash)).await
    }

    async fn delete(&self, hash: &BlobHash, untouched_since: Timestamp) -> Result<bool, BlobError> {
        let deleted = self.inner.delete(hash, untouched_since);
        self.jitter.around(deleted).await
    }

    async fn list(&self, after: Option<BlobHash>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        self.jitter.around(self.inner.list(after, limit)).await
    }
}

pub(crate) struct OddDirectReads {
    pub(crate) inner: Arc<dyn DirectReads>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl DirectReads for OddDirectReads {
    async fn address(
        &self,
        blob: &Blob,
        presented: Presented<'_>,
        lasts: Duration,
    ) -> Result<Option<String>, BlobError> {
        let address = self.inner.address(blob, presented, lasts);
        self.jitter.around(address).await
    }
}

pub(crate) struct OddRecords {
    pub(crate) inner: AssetRows,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl AssetRecords for OddRecords {
    async fn insert(
        &self,
        insert: InsertAsset,
        now: Timestamp,
    ) -> Result<InsertOutcome, RecordsError> {
        let inserted = self.inner.records.insert(insert, now);
        self.jitter.around(inserted).await
    }

    async fn stored_bytes(&self, account: &AccountId) -> Result<u64, RecordsError> {
        let stored = self.inner.records.stored_bytes(account);
        self.jitter.around(stored).await
    }

    async fn get(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        let found = self.inner.records.get(account, id, now);
        self.jitter.around(found).await
    }

    async fn find(
        &self,
        account: &AccountId,
        query: &AssetQuery,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        let found = self.inner.records.find(account, query, now);
        self.jitter.around(found).await
    }

    async fn hold(&self, id: AssetId, hold: Hold, held: bool) -> Result<bool, RecordsError> {
        let held = self.inner.records.hold(id, hold, held);
        self.jitter.around(held).await
    }

    async fn kept(&self, id: AssetId, limit: usize) -> Result<Option<KeptAsset>, RecordsError> {
        let kept = self.inner.records.kept(id, limit);
        self.jitter.around(kept).await
    }

    async fn remove(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Removal, RecordsError> {
        let removed = self.inner.records.remove(account, id, now);
        self.jitter.around(removed).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, RecordsError> {
        let expired = self.inner.records.expire(now, limit);
        self.jitter.around(expired).await
    }

    async fn unreferenced(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        let free = self.inner.records.unreferenced(hashes);
        self.jitter.around(free).await
    }
}

#[async_trait]
impl FileNames for OddRecords {
    async fn named(
        &self,
        account: &AccountId,
        made_by_jobs: bool,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Asset>, RecordsError> {
        let names = &self.inner.file_names;
        let named = names.named(account, made_by_jobs, limit, now);
        self.jitter.around(named).await
    }
}

#[async_trait]
impl ReleasedBlobs for OddRecords {
    async fn among(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        let among = self.inner.released.among(hashes);
        self.jitter.around(among).await
    }

    async fn forget(&self, hashes: &[BlobHash]) -> Result<(), RecordsError> {
        let forgotten = self.inner.released.forget(hashes);
        self.jitter.around(forgotten).await
    }
}

#[async_trait]
impl SweepStates for OddRecords {
    async fn admit(
        &self,
        sweep: SweepName,
        now: Timestamp,
        running: SignedDuration,
    ) -> Result<Admission, RecordsError> {
        let admitted = self.inner.sweeps.admit(sweep, now, running);
        self.jitter.around(admitted).await
    }

    async fn confirm(&self) -> Result<(), RecordsError> {
        self.jitter.around(self.inner.sweeps.confirm()).await
    }
}

#[async_trait]
impl ScrubStates for OddRecords {
    async fn load_scrub(&self) -> Result<ScrubState, RecordsError> {
        self.jitter.around(self.inner.scrub.load_scrub()).await
    }

    async fn save_scrub(&self, state: &ScrubState) -> Result<(), RecordsError> {
        self.jitter.around(self.inner.scrub.save_scrub(state)).await
    }
}

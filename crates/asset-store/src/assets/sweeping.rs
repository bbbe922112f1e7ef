//! Deleting what is past its time, and the bytes that nothing refers to.

use jiff::Timestamp;

use super::{Assets, records_failed, store_failed};
use crate::{AssetsError, BlobHash, ReleasedBlobs};

/// How many rows or blobs one step of a sweep takes, so that it never holds the store for long.
const SWEEP_STEP: usize = 500;

/// Most blobs without any row that one pass deletes; the next pass takes the rest.
const UNNAMED_PER_PASS: usize = 100_000;

/// So few blobs without any row are what crashes leave, whatever their share is.
const FEW_UNNAMED: usize = 10;

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Expired records.
    pub records: usize,
    /// Blobs that nothing referred to.
    pub blobs: usize,
    /// Blobs that stay because no row ever released them and they are too many to be left-overs of crashes.
    pub held_back: usize,
}

impl Assets {
    /// Removes expired records, then blobs that nothing refers to and nobody touched for the grace period.
    ///
    /// A blob whose last record was deleted always goes. Blobs that no row names and none ever released are what a crash leaves,
    /// or all that is left of rows that were lost: if they are more than half of all blobs they stay and are counted, unless the
    /// operator `confirmed` the pass.
    ///
    /// # Errors
    /// If a port fails; what was removed until then stays removed, and the next sweep goes on.
    pub async fn sweep(
        &self,
        released: &dyn ReleasedBlobs,
        now: Timestamp,
        confirmed: bool,
    ) -> Result<SweepReport, AssetsError> {
        let mut report = SweepReport::default();
        loop {
            let removed = self
                .records
                .expire(now, SWEEP_STEP)
                .await
                .map_err(records_failed)?;
            report.records += removed;
            if removed < SWEEP_STEP {
                break;
            }
        }
        let untouched_since = now
            .saturating_sub(self.retention.grace)
            .unwrap_or(Timestamp::MIN);
        let (mut blobs_seen, mut unnamed_seen) = (0, 0);
        let mut unnamed = Vec::new();
        let mut after = None;
        loop {
            let blobs = self
                .blobs
                .list(after, SWEEP_STEP)
                .await
                .map_err(store_failed)?;
            blobs_seen += blobs.len();
            let hashes: Vec<BlobHash> = blobs.iter().map(|blob| blob.hash).collect();
            let free = self.unreferenced(&hashes).await?;
            let let_go = released.among(&free).await.map_err(records_failed)?;
            let gone = self.delete_blobs(&let_go, untouched_since).await?;
            report.blobs += gone.len();
            released.forget(&gone).await.map_err(records_failed)?;

            let never_named = free.into_iter().filter(|hash| !let_go.contains(hash));
            let never_named: Vec<BlobHash> = never_named.collect();
            unnamed_seen += never_named.len();
            let room = UNNAMED_PER_PASS - unnamed.len();
            unnamed.extend(never_named.into_iter().take(room));
            after = hashes.last().copied();
            if hashes.len() < SWEEP_STEP {
                break;
            }
        }
        let too_many = unnamed_seen > FEW_UNNAMED && unnamed_seen > blobs_seen / 2;
        if too_many && !confirmed {
            report.held_back = unnamed_seen;
            return Ok(report);
        }
        for step in unnamed.chunks(SWEEP_STEP) {
            // Some may have been named since they were listed.
            let free = self.unreferenced(step).await?;
            report.blobs += self.delete_blobs(&free, untouched_since).await?.len();
        }
        Ok(report)
    }

    async fn unreferenced(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, AssetsError> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let free = self.records.unreferenced(hashes).await;
        free.map_err(records_failed)
    }

    /// Deletes what nobody touched since then; answers what is gone.
    async fn delete_blobs(
        &self,
        hashes: &[BlobHash],
        untouched_since: Timestamp,
    ) -> Result<Vec<BlobHash>, AssetsError> {
        let mut gone = Vec::new();
        for hash in hashes {
            let deleted = self.blobs.delete(hash, untouched_since).await;
            if deleted.map_err(store_failed)? {
                gone.push(*hash);
            }
        }
        Ok(gone)
    }
}

//! Compares every blob with its hash, pass after pass.
//!
//! Readers refuse a damaged blob by themselves. The scrub finds damage before anybody reads, while the uploader or a backup
//! may still have the right bytes. It sleeps most of the time, holds one piece of one blob, and ends where it is when the
//! server stops: the next start goes on from there.

use std::sync::Arc;
use std::time::Duration;

use asset_store::{BlobError, BlobHash, BlobStore, ScrubNext, ScrubPace, ScrubState, ScrubStates};
use futures_util::TryStreamExt;
use jiff::SignedDuration;
use server_kit::scrub::BlobHealth;
use tokio_util::sync::CancellationToken;
use workflow_core::Timer;

/// Blobs that are listed at once.
const PAGE: usize = 500;

/// After how many bytes the position is saved within a page: what a crash costs at most.
const SAVE_AFTER: u64 = 1 << 30;

/// How often it is looked whether a pass is due, and whether readers found damage that is to be remembered.
const LOOK: Duration = Duration::from_secs(300);

/// The loop that compares.
pub(crate) struct Scrub {
    /// What is compared.
    pub(crate) blobs: Arc<dyn BlobStore>,
    /// Remembers how far it is.
    pub(crate) states: Arc<dyn ScrubStates>,
    /// Where it is shown.
    pub(crate) health: BlobHealth,
    /// Its clock.
    pub(crate) timer: Arc<dyn Timer>,
    /// The time in which a pass is to meet every blob, and after which the next one begins.
    pub(crate) interval: SignedDuration,
}

/// A pass that cannot go on now; the next try goes on from its position.
#[derive(Debug, thiserror::Error)]
#[error("the blobs cannot be listed")]
struct Interrupted(#[source] BlobError);

impl Scrub {
    /// Compares until `stop` fires, and saves how far it is.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut state = None;
        tokio::select! {
            () = self.keep_comparing(&mut state) => {}
            () = stop.cancelled() => {}
        }
        if let Some(mut state) = state {
            self.save(&mut state).await;
        }
    }

    async fn keep_comparing(&self, state: &mut Option<ScrubState>) {
        let loaded = self.load().await;
        if let Some(at) = loaded.completed_at {
            self.health.show_completed(at);
        }
        // What a process before found: it is refused and shown again, or was put right meanwhile. Nothing is saved before
        // all of it is known, or a stop would forget the rest.
        let mut pace = ScrubPace::over(u64::MAX);
        for hash in &loaded.damaged {
            self.compare(hash, &mut pace, &loaded).await;
        }
        let state = state.insert(loaded);
        loop {
            match state.next(self.timer.now(), self.interval) {
                ScrubNext::Wait(left) => {
                    let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
                    self.timer.sleep(left.min(LOOK)).await;
                    if state.damaged != self.blobs.damaged() {
                        self.save(state).await;
                    }
                }
                ScrubNext::Pass => {
                    if let Err(error) = self.pass(state).await {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "comparing blobs with their hashes is interrupted"
                        );
                        self.timer.sleep(LOOK).await;
                    }
                }
            }
        }
    }

    async fn load(&self) -> ScrubState {
        loop {
            match self.states.load_scrub().await {
                Ok(state) => return state,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the position of the scrub cannot be read; trying again"
                    );
                    self.timer.sleep(LOOK).await;
                }
            }
        }
    }

    /// Goes on with the pass under way, to its end.
    async fn pass(&self, state: &mut ScrubState) -> Result<(), Interrupted> {
        let mut pace = ScrubPace::over(self.left(state.position).await?);
        let (mut blobs, mut bytes) = (0_u64, 0_u64);
        let mut unsaved = 0;
        loop {
            let page = self.list(state.position).await?;
            for blob in &page {
                let read = self.compare(&blob.hash, &mut pace, state).await;
                state.position = Some(blob.hash);
                blobs += 1;
                bytes += read;
                unsaved += read;
                if unsaved >= SAVE_AFTER {
                    unsaved = 0;
                    self.save(state).await;
                }
            }
            if page.len() < PAGE {
                break;
            }
            self.save(state).await;
        }
        state.complete(self.timer.now());
        self.save(state).await;
        if let Some(at) = state.completed_at {
            self.health.show_completed(at);
        }
        // Of an empty installation there is nothing to say.
        if blobs > 0 {
            let damaged = state.damaged.len();
            tracing::info!(
                blobs,
                bytes,
                damaged,
                "compared all blobs with their hashes"
            );
        }
        Ok(())
    }

    /// What a pass still has to compare.
    async fn left(&self, mut after: Option<BlobHash>) -> Result<u64, Interrupted> {
        let mut left = 0_u64;
        loop {
            let page = self.list(after).await?;
            let costs = page.iter().map(ScrubPace::cost);
            left = costs.fold(left, u64::saturating_add);
            if page.len() < PAGE {
                return Ok(left);
            }
            after = page.last().map(|blob| blob.hash);
        }
    }

    async fn list(&self, after: Option<BlobHash>) -> Result<Vec<asset_store::Blob>, Interrupted> {
        self.blobs.list(after, PAGE).await.map_err(Interrupted)
    }

    /// Compares a blob, at the pace of the pass; answers how many bytes it read.
    async fn compare(&self, hash: &BlobHash, pace: &mut ScrubPace, state: &ScrubState) -> u64 {
        let mut read = 0;
        match self.read(hash, pace, state, &mut read).await {
            Ok(()) | Err(BlobError::Damaged(_)) => self.health.count_blob(),
            // Deleted since it was listed.
            Err(BlobError::Absent) => {}
            Err(error @ (BlobError::Full(_) | BlobError::Io(_))) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(%hash, error, "a blob could not be compared; the next pass tries again");
            }
        }
        read
    }

    async fn read(
        &self,
        hash: &BlobHash,
        pace: &mut ScrubPace,
        state: &ScrubState,
        read: &mut u64,
    ) -> Result<(), BlobError> {
        let mut pieces = self.blobs.verify(hash).await?;
        let time_left = || state.time_left(self.timer.now(), self.interval);
        self.pause(pace.opened(time_left())).await;
        while let Some(bytes) = pieces.try_next().await? {
            *read += bytes;
            self.health.count_bytes(bytes);
            self.pause(pace.read(bytes, time_left())).await;
        }
        Ok(())
    }

    async fn pause(&self, pause: Option<Duration>) {
        if let Some(pause) = pause {
            self.timer.sleep(pause).await;
        }
    }

    async fn save(&self, state: &mut ScrubState) {
        state.damaged = self.blobs.damaged();
        self.health.show_damaged(state.damaged.len());
        if let Err(error) = self.states.save_scrub(state).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the position of the scrub could not be saved");
        }
    }
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrub")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

//! Deletes what is past its time: jobs, records, then bytes that nothing refers to.
//!
//! What is past its time reads as gone before it is deleted, so nothing waits for a sweep, and a sweep that fails or is cut
//! off simply leaves more for the next one. A clock that jumps, or rows that were lost, must not cost anybody a file: each pass
//! asks [`Sweeps`] first.

use std::sync::Arc;
use std::time::Duration;

use asset_store::{Assets, ReleasedBlobs};
use jiff::Timestamp;
use server_kit::sweeps::{Passes, SweepName, Sweeps};
use tokio_util::sync::CancellationToken;
use workflow_core::{Jobs, Timer};

/// The loop that sweeps.
pub(crate) struct Maintenance {
    /// Jobs of all accounts.
    pub(crate) jobs: Jobs,
    /// Assets of all accounts.
    pub(crate) assets: Assets,
    /// Blobs that records let go.
    pub(crate) released: Arc<dyn ReleasedBlobs>,
    /// Whether a pass may delete.
    pub(crate) sweeps: Sweeps,
    /// Its clock.
    pub(crate) timer: Arc<dyn Timer>,
    /// The pause between two passes.
    pub(crate) interval: Duration,
}

impl Maintenance {
    /// Sweeps now and then until `stop` fires.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut passes = Passes::of(SweepName::Assets);
        loop {
            let now = self.timer.now();
            if let Some(confirmed) = self.sweeps.admit(&mut passes, now).await {
                self.pass(now, confirmed).await;
            }
            tokio::select! {
                () = self.timer.sleep(self.interval) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn pass(&self, now: Timestamp, confirmed: bool) {
        match self.jobs.sweep(now).await {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "deleted expired jobs"),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "deleting expired jobs failed; trying again at the next pass"
                );
            }
        }
        let (assets, released) = (&self.assets, &*self.released);
        self.sweeps
            .sweep_assets(assets, released, now, confirmed)
            .await;
    }
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintenance")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

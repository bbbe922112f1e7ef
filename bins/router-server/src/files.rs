//! Deletes the files of kept results that are past their time, where no other family of the installation does.

use std::sync::Arc;
use std::time::Duration;

use asset_store::{Assets, ReleasedBlobs};
use installation::{Turns, Work};
use router_core::Timer;
use server_kit::sweeps::{Passes, SweepName, Sweeps};
use server_kit::turns::in_turn;
use tokio_util::sync::CancellationToken;

/// The pause between two passes. What is past its time reads as gone before it is deleted.
const INTERVAL: Duration = Duration::from_secs(600);

/// The loop that deletes files.
pub(crate) struct FileSweep {
    pub(crate) assets: Assets,
    /// Blobs that records let go.
    pub(crate) released: Arc<dyn ReleasedBlobs>,
    /// Whether a pass may delete.
    pub(crate) sweeps: Sweeps,
    pub(crate) timer: Arc<dyn Timer>,
}

impl FileSweep {
    /// Sweeps now and then while no other process does, until `stop`.
    pub(crate) async fn run_in_turn(self, turns: Arc<dyn Turns>, stop: CancellationToken) {
        in_turn(&*turns, Work::Results, &stop, || self.run(&stop)).await;
    }

    async fn run(&self, stop: &CancellationToken) {
        let mut passes = Passes::of(SweepName::Assets);
        loop {
            let now = self.timer.now();
            if let Some(confirmed) = self.sweeps.admit(&mut passes, now).await {
                let (assets, released) = (&self.assets, &*self.released);
                self.sweeps
                    .sweep_assets(assets, released, now, confirmed)
                    .await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.timer.sleep(INTERVAL) => {}
            }
        }
    }
}

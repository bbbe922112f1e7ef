//! Dispatches queued requests as their accounts get room.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use router_core::{Router, Timer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The longest pause between two looks. Limits that an operator changes, and requests that wait too long, are seen this late.
const INTERVAL: Duration = Duration::from_secs(1);

/// Dispatches queued requests.
pub(crate) struct QueueKeeper {
    pub(crate) router: Router,
    /// Where dispatched requests run.
    pub(crate) executions: TaskTracker,
    pub(crate) timer: Arc<dyn Timer>,
}

impl QueueKeeper {
    /// Dispatches until `stop`: a request that is being dispatched then is dispatched.
    pub(crate) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // A panic in a store is a bug that must not end the dispatching.
            let started = AssertUnwindSafe(self.router.start_queued()).catch_unwind();
            match started.await {
                Ok(Ok(Some(execution))) => {
                    self.executions.spawn(execution);
                    continue;
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    complain(&error);
                    self.pause(&stop).await;
                }
                Err(_) => {
                    tracing::error!("dispatching queued requests panicked; trying again");
                    self.pause(&stop).await;
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.router.queue_rings() => {}
                () = self.timer.sleep(INTERVAL) => self.router.look_at_queue_again(),
            }
        }
    }

    async fn pause(&self, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.timer.sleep(INTERVAL) => {}
        }
    }
}

fn complain(error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(
        error,
        "queued requests could not be dispatched; trying again"
    );
}

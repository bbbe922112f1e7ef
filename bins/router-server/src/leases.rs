//! Keeps what runs here this process' own, and goes on with what a process left that died.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use router_core::{CallsError, RenewError, Router, RouterConfig, Timer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The pause between two renewals: two may fail, and the leases still hold.
const INTERVAL: Duration = RouterConfig::LEASE.checked_div(3).expect("not by 0");

/// Renews leases, and recovers calls whose leases lapsed.
pub(crate) struct LeaseKeeper {
    pub(crate) router: Router,
    /// Where recovered calls run.
    pub(crate) executions: TaskTracker,
    pub(crate) timer: Arc<dyn Timer>,
}

impl LeaseKeeper {
    /// Goes on with the calls whose owners are gone.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub(crate) async fn recover(&self) -> Result<(), CallsError> {
        let recovered = self.router.recover().await?;
        if !recovered.is_empty() {
            let calls = recovered.len();
            tracing::info!(calls, "calls that run at partners are recovered");
        }
        for execution in recovered {
            self.executions.spawn(execution);
        }
        Ok(())
    }

    /// Renews and recovers until `stop`. A server that drains recovers nothing more.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.timer.sleep(INTERVAL) => {}
            }
            // A panic in a store is a bug that must not end the renewals.
            let kept = AssertUnwindSafe(self.once()).catch_unwind();
            match kept.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "leases of calls could not be renewed; trying again");
                }
                Err(_) => tracing::error!("renewing the leases of calls panicked; trying again"),
            }
        }
    }

    async fn once(&self) -> Result<(), RenewError> {
        self.router.renew().await?;
        if self.executions.is_closed() {
            return Ok(());
        }
        Ok(self.recover().await?)
    }
}

//! The clock of requests and executions: the system's.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::Timer;

/// Wall clock of the system, and waiting that goes by its monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioTimer;

#[async_trait]
impl Timer for TokioTimer {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

//! The clock of the loops and of the requests: the system's.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use workflow_core::Timer;

/// Wall clock of the system, and waiting that goes by its monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer;

#[async_trait]
impl Timer for TokioTimer {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

//! The clock of requests and executions, and the threads for what takes long: the system's.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::{BlockingPool, Timer};
use server_kit::threads::LargeWork;

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

/// The runtime's threads for what blocks.
#[derive(Clone, Debug)]
pub(crate) struct TokioThreads(pub(crate) LargeWork);

impl BlockingPool for TokioThreads {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.run(work);
    }
}

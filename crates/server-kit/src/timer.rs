//! The clock and the threads that the domains of the families ask for, each behind the feature of its family: the system's.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::threads::LargeWork;

/// Wall clock of the system, and waiting that goes by its monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer;

#[cfg(feature = "router")]
#[async_trait]
impl router_core::Timer for TokioTimer {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(feature = "workflow")]
#[async_trait]
impl workflow_core::Timer for TokioTimer {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(feature = "router")]
impl router_core::BlockingPool for LargeWork {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        self.run_in_turn(work);
    }
}

#[cfg(feature = "workflow")]
impl workflow_core::BlockingPool for LargeWork {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        self.run_in_turn(work);
    }
}

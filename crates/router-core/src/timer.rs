//! Time for what waits: the only clock the domain ever sees.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

/// A clock and a way to wait. Requests carry their own `now`; only executions and their waiters hold a timer.
#[async_trait]
pub trait Timer: Send + Sync + 'static {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Completes after `duration`, whatever the wall clock does meanwhile.
    async fn sleep(&self, duration: Duration);
}

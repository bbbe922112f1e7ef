//! Deletes what is past its time: jobs, records, then bytes that nothing refers to.
//!
//! What is past its time reads as gone before it is deleted, so nothing waits for a sweep, and a sweep that fails or is cut
//! off simply leaves more for the next one. A clock that jumps must not cost anybody a file: a pass that finds the clock far
//! from where it was deletes nothing, and the next one believes it.

use std::sync::Arc;
use std::time::Duration;

use asset_store::Assets;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use workflow_core::{Jobs, Timer};

/// How far the clock may move between two passes without looking as if it jumped.
const PLAUSIBLE: SignedDuration = SignedDuration::from_hours(24);

/// The loop that sweeps.
pub(crate) struct Maintenance {
    /// Jobs of all accounts.
    pub(crate) jobs: Jobs,
    /// Assets of all accounts.
    pub(crate) assets: Assets,
    /// Its clock.
    pub(crate) timer: Arc<dyn Timer>,
    /// The pause between two passes.
    pub(crate) interval: Duration,
}

impl Maintenance {
    /// Sweeps now and then until `stop` fires.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut clock = ClockWatch::default();
        loop {
            let now = self.timer.now();
            if clock.is_plausible(now) {
                self.pass(now).await;
            } else {
                tracing::warn!(%now, "the clock jumped; deleting nothing before it is confirmed by the next pass");
            }
            tokio::select! {
                () = self.timer.sleep(self.interval) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn pass(&self, now: Timestamp) {
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
        match self.assets.sweep(now).await {
            Ok(report) if report.records + report.blobs == 0 => {}
            Ok(report) => tracing::info!(
                records = report.records,
                blobs = report.blobs,
                "deleted expired records and unused bytes"
            ),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "deleting expired files failed; trying again at the next pass"
                );
            }
        }
    }
}

/// Remembers where the clock was.
#[derive(Debug, Default)]
struct ClockWatch {
    last: Option<Timestamp>,
}

impl ClockWatch {
    /// Whether the clock is not far from where it was when this was last asked. Nothing is known at the first time.
    fn is_plausible(&mut self, now: Timestamp) -> bool {
        let last = self.last.replace(now);
        last.is_none_or(|last| now.duration_since(last).abs() <= PLAUSIBLE)
    }
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintenance")
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_is_believed_at_the_second_look() {
        let mut clock = ClockWatch::default();
        let start = Timestamp::from_second(1_000_000_000).expect("in range");
        let after = |hours| start + SignedDuration::from_hours(hours);
        assert!(clock.is_plausible(start));
        assert!(clock.is_plausible(after(24)));
        assert!(!clock.is_plausible(after(24 * 365)), "a year later");
        assert!(clock.is_plausible(after(24 * 365)), "confirmed");
        assert!(!clock.is_plausible(start), "back again");
    }
}

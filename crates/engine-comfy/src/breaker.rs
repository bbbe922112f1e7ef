//! Takes a worker out that fails again and again, and asks it again with growing pauses. Pure: `now` is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that take a worker out.
const FAILURES: u32 = 3;

/// The first pause and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What the breaker of a worker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Every job.
    Closed,
    /// One job, which tries whether the worker is well again.
    HalfOpen,
    /// No job.
    Open,
}

impl BreakerState {
    /// Its name, as commands and metrics show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// The breaker of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    in_row: u32,
    pause: Duration,
    open_until: Option<Instant>,
    why: String,
}

impl Breaker {
    /// The worker failed.
    pub(crate) fn failed(&mut self, why: &str, now: Instant) {
        self.in_row += 1;
        why.clone_into(&mut self.why);
        if self.in_row >= FAILURES {
            self.pause = (self.pause * 2).clamp(PAUSE.0, PAUSE.1);
            self.open_until = Some(now + self.pause);
        }
    }

    /// The worker did what it was asked to.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Why it gets no job now, if it gets none. Once the pause is over one job tries: its failure begins a longer pause.
    pub(crate) fn open(&self, now: Instant) -> Option<&str> {
        (self.state(now) == BreakerState::Open).then_some(self.why.as_str())
    }

    /// What it lets through.
    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        match self.open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Whether nothing speaks against the worker, now and later.
    pub(crate) fn is_closed(&self) -> bool {
        self.open_until.is_none()
    }

    /// Whether it is on probation: one job may try.
    pub(crate) fn is_probing(&self, now: Instant) -> bool {
        self.state(now) == BreakerState::HalfOpen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_out_after_three_failures_and_longer_each_time() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        breaker.failed("garbage", now);
        breaker.failed("garbage", now);
        assert_eq!(breaker.open(now), None);
        assert_eq!(breaker.state(now), BreakerState::Closed);
        breaker.failed("garbage", now);
        assert_eq!(breaker.open(now), Some("garbage"));
        let later = now + PAUSE.0;
        assert_eq!(breaker.open(later), None);
        assert_eq!(breaker.state(now), BreakerState::Open);
        assert_eq!(breaker.state(later), BreakerState::HalfOpen);
        assert!(breaker.is_probing(later));
        breaker.failed("garbage", later);
        assert_eq!(breaker.open(later + PAUSE.0), Some("garbage"));
        breaker.succeeded();
        assert_eq!(breaker.open(later), None);
    }

    #[test]
    fn the_pause_is_bounded() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..100 {
            breaker.failed("garbage", now);
        }
        assert_eq!(breaker.open(now + PAUSE.1), None);
    }
}

//! How fast jobs finish, measured: what `Retry-After` is made of.

use std::sync::Mutex;

use jiff::Timestamp;

/// Weight of the newest interval in the running mean.
const WEIGHT: f64 = 0.2;

/// Bounds of an answer in seconds: never "at once", never so long that a client gives up.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=60;

/// The running mean of the time between two jobs that end.
#[derive(Debug, Default)]
pub struct CompletionRate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Timestamp>,
    interval_s: Option<f64>,
}

impl CompletionRate {
    /// Notes that a job ended.
    pub fn finished(&self, now: Timestamp) {
        let mut state = self.lock();
        if let Some(last) = state.last.replace(now) {
            let interval = now.duration_since(last).as_secs_f64().max(0.0);
            let mean = state.interval_s.unwrap_or(interval);
            state.interval_s = Some(mean + WEIGHT * (interval - mean));
        }
    }

    /// Seconds after which a place in a full queue is likely to be free.
    #[must_use]
    pub fn retry_after_s(&self) -> u64 {
        let interval = self.lock().interval_s.unwrap_or(1.0);
        (interval.ceil() as u64).clamp(*SECONDS.start(), *SECONDS.end())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Two numbers: a panic elsewhere leaves at worst a wrong estimate.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_follows_the_measured_interval_within_bounds() {
        let at = |second| Timestamp::from_second(second).expect("in range");
        let pace = CompletionRate::default();
        assert_eq!(pace.retry_after_s(), 1);
        for tick in 0..40 {
            pace.finished(at(tick * 7));
        }
        assert_eq!(pace.retry_after_s(), 7);
        pace.finished(at(100_000));
        assert_eq!(pace.retry_after_s(), 60);
    }
}

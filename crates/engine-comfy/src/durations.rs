//! How long something took, counted for metrics. Pure.

use std::time::Duration;

/// Upper bounds of the buckets, in seconds: from the answer of a worker that has nothing to do to a job of half an hour.
const BOUNDS: [f64; 10] = [
    0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0,
];

/// How long something took since the server started, as a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many were up to each bound and above the one before; the last number is that of the longer ones.
    counts: [u64; BOUNDS.len() + 1],
    total: Duration,
    last: Option<Duration>,
}

impl Durations {
    /// Counts one.
    pub(crate) fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(BOUNDS.len())] += 1;
        self.total = self.total.saturating_add(took);
        self.last = Some(took);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they took together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.total
    }

    /// How long the last one took; `None` before the first.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        self.last
    }

    /// How long one took on average; `None` before the first.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| self.total.div_f64(count as f64))
    }

    /// The upper bound of each bucket in seconds, and how many are in it; the last bound has no end.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        BOUNDS.into_iter().chain([f64::INFINITY]).zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_in_the_bucket_that_it_fits_in() {
        let mut durations = Durations::default();
        assert_eq!(
            (durations.count(), durations.last(), durations.mean()),
            (0, None, None)
        );
        for millis in [1, 2, 5, 100, 3_600_000] {
            durations.observe(Duration::from_millis(millis));
        }
        let filled: Vec<(f64, u64)> = durations
            .buckets()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(
            filled,
            [(0.001, 1), (0.005, 2), (0.1, 1), (f64::INFINITY, 1)]
        );
        assert_eq!(durations.total(), Duration::from_millis(3_600_108));
        assert_eq!(durations.last(), Some(Duration::from_secs(3600)));
        assert_eq!(durations.mean(), Some(Duration::from_micros(720_021_600)));
    }
}

//! Measured times and what one says about them.

use std::time::Duration;

/// Times in microseconds, in no particular order.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    sorted_us: Vec<u64>,
}

impl Samples {
    /// Takes times in microseconds.
    #[must_use]
    pub fn new(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        Self {
            sorted_us: times_us,
        }
    }

    /// Takes durations.
    #[must_use]
    pub fn of(times: &[Duration]) -> Self {
        Self::new(times.iter().copied().map(micros).collect())
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sorted_us.len()
    }

    /// The smallest time in milliseconds that `percent` of a hundred samples do not exceed; `None` without samples.
    ///
    /// The nearest rank: always a time that was measured.
    #[must_use]
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let rank = (percent / 100.0 * self.sorted_us.len() as f64).ceil() as usize;
        let time = self.sorted_us.get(rank.max(1) - 1)?;
        Some(*time as f64 / 1e3)
    }

    /// The median in milliseconds; `None` without samples.
    #[must_use]
    pub fn median_ms(&self) -> Option<f64> {
        self.percentile_ms(50.0)
    }
}

/// A duration in microseconds.
#[must_use]
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The median of a few numbers; of an even count, the mean of the middle two. `None` of none.
#[must_use]
pub fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let samples = Samples::new((1..=100).rev().map(|ms| ms * 1000).collect());
        assert_eq!(samples.percentile_ms(50.0), Some(50.0));
        assert_eq!(samples.percentile_ms(99.0), Some(99.0));
        assert_eq!(samples.percentile_ms(100.0), Some(100.0));
        assert_eq!(samples.percentile_ms(0.0), Some(1.0));
    }

    #[test]
    fn few_samples_have_percentiles_too() {
        assert_eq!(Samples::new(vec![]).median_ms(), None);
        let one = Samples::of(&[Duration::from_micros(1500)]);
        assert_eq!(
            (one.median_ms(), one.percentile_ms(99.0)),
            (Some(1.5), Some(1.5))
        );
        assert_eq!(Samples::new(vec![1000, 9000]).median_ms(), Some(1.0));
    }

    #[test]
    fn the_median_of_numbers() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}

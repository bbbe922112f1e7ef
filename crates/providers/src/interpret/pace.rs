//! When to look at a task again.

use std::time::Duration;

use crate::definition::PollIntervals;

/// The longest that a partner may ask to be left alone.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The time until the next look at a task that was accepted `elapsed` ago.
///
/// Intervals grow with the time that has passed, not with a count of looks: so a restart begins where it left off, and a
/// handle needs no counter. `random` is from 0 to 1 and spreads looks by the pace's jitter; a partner's `Retry-After` is
/// the least.
#[must_use]
pub(crate) fn next_look(
    pace: &PollIntervals,
    elapsed: Duration,
    retry_after: Option<Duration>,
    random: f64,
) -> Duration {
    let grown = pace.interval.as_secs_f64() + elapsed.as_secs_f64() * (pace.backoff - 1.0);
    let bounded = grown.min(pace.max_interval.as_secs_f64());
    let spread = 1.0 + pace.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
    let interval = Duration::from_secs_f64(bounded * spread);
    match retry_after {
        Some(asked) => interval.max(asked.min(MAX_RETRY_AFTER)),
        None => interval,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: PollIntervals = PollIntervals {
        interval: Duration::from_secs(1),
        backoff: 1.5,
        max_interval: Duration::from_secs(10),
        jitter: 0.1,
    };

    #[test]
    fn looks_become_rarer_up_to_a_bound() {
        let after = |seconds| next_look(&PACE, Duration::from_secs(seconds), None, 0.5);
        assert_eq!(after(0), Duration::from_secs(1));
        assert_eq!(after(2), Duration::from_secs(2));
        assert_eq!(after(18), Duration::from_secs(10));
        assert_eq!(after(1_000_000), Duration::from_secs(10));
    }

    #[test]
    fn a_partner_that_asks_for_time_gets_it_within_reason() {
        let asked = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            next_look(&PACE, Duration::ZERO, retry_after, 0.5)
        };
        assert_eq!(asked(0), Duration::from_secs(1));
        assert_eq!(asked(7), Duration::from_secs(7));
        assert_eq!(asked(86_400), MAX_RETRY_AFTER);
    }

    proptest! {
        #[test]
        fn jitter_stays_within_its_part(seconds in 0_u64..100_000, random in 0.0..1.0_f64) {
            let elapsed = Duration::from_secs(seconds);
            let middle = next_look(&PACE, elapsed, None, 0.5).as_secs_f64();
            let spread = next_look(&PACE, elapsed, None, random).as_secs_f64();
            prop_assert!((spread - middle).abs() <= middle * 0.1 + 1e-6);
        }
    }
}

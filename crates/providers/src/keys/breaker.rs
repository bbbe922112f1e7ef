//! The circuit breaker of a key: a partner that only fails is left alone for a while.
//!
//! It counts what comes of submissions, not of looks at tasks. It opens when [`MOST_FAILURES`] submissions in a row have failed
//! over at least [`LEAST_TIME`]: a burst of bad calls says nothing of a partner. Then one submission tries whenever a pause is
//! over; if it fails, the next pause is twice as long. The first that works closes it, also one that went before it opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many submissions in a row fail before it opens.
const MOST_FAILURES: u32 = 20;

/// How long nothing but failures came before it opens.
const LEAST_TIME: Duration = Duration::from_secs(10);

/// The first pause.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a key pauses that is refused while there are others.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// What came of a submission, for the key that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The partner served it, also by rejecting its content.
    Served,
    /// No answer, or one that says that the partner failed.
    Failed,
    /// The partner takes no more with this key for now, and said perhaps for how long.
    Busy(Option<Duration>),
    /// The partner refuses the key, or the account behind it.
    Refused,
}

/// Lets a submission go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Whether it is the one that tries after a pause.
    is_trial: bool,
}

/// Why no submission goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// How long yet.
    pub(crate) rest: Duration,
    /// Whether the partner refuses the key.
    pub(crate) is_refused: bool,
}

/// The states of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Submissions go.
    Closed,
    /// A pause is over, and the next submission tries.
    HalfOpen,
    /// No submission goes.
    Open,
}

/// Counts failures of a key.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// Whether there is more in `counted` than nothing: most calls need not look.
    has_counted: AtomicBool,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    failures: u32,
    /// When the first of them was.
    since: Option<Instant>,
    is_refused: bool,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    pause: Duration,
}

impl Breaker {
    /// Lets a submission go, or says how long none goes.
    pub(crate) fn admit(&self, now: Instant) -> Result<Permit, Pause> {
        if !self.has_counted.load(Ordering::Acquire) {
            return Ok(Permit { is_trial: false });
        }
        let mut counted = self.counted();
        if let Some(pause) = counted.pause(now) {
            return Err(pause);
        }
        // The others wait for one more pause, or for what comes of this one.
        let trial = counted
            .open
            .as_mut()
            .map(|open| open.until = now + open.pause);
        Ok(Permit {
            is_trial: trial.is_some(),
        })
    }

    /// How long no submission goes; `None` if one may.
    pub(crate) fn pause(&self, now: Instant) -> Option<Pause> {
        if !self.has_counted.load(Ordering::Acquire) {
            return None;
        }
        self.counted().pause(now)
    }

    /// Takes back a permit whose submission was not sent.
    pub(crate) fn withdraw(&self, permit: Permit, now: Instant) {
        if permit.is_trial
            && let Some(open) = &mut self.counted().open
        {
            open.until = now;
        }
    }

    /// Counts what came of a submission. A key that is busy or refused pauses at once if there are `others`. Answers
    /// whether that opened it or closed it.
    pub(crate) fn record(
        &self,
        permit: Permit,
        outcome: Outcome,
        others: bool,
        now: Instant,
    ) -> Option<BreakerState> {
        if outcome == Outcome::Served {
            if !self.has_counted.load(Ordering::Acquire) {
                return None;
            }
            let mut counted = self.counted();
            self.has_counted.store(false, Ordering::Release);
            let was = std::mem::take(&mut *counted);
            return was.open.map(|_| BreakerState::Closed);
        }
        let mut counted = self.counted();
        self.has_counted.store(true, Ordering::Release);
        counted.failures = counted.failures.saturating_add(1);
        let since = *counted.since.get_or_insert(now);
        let asked = if let Outcome::Busy(Some(asked)) = outcome {
            asked
        } else {
            Duration::ZERO
        };
        let pause = match (&counted.open, outcome) {
            (Some(open), _) if permit.is_trial => asked.max(open.pause * 2),
            // It went before the breaker opened.
            (Some(_), _) => return None,
            (None, Outcome::Busy(Some(asked))) if others => asked,
            (None, Outcome::Busy(None)) if others => FIRST_PAUSE,
            (None, Outcome::Refused) if others => REFUSED_PAUSE,
            (None, _) => {
                let long = now.saturating_duration_since(since) >= LEAST_TIME;
                if counted.failures < MOST_FAILURES || !long {
                    return None;
                }
                asked.max(FIRST_PAUSE)
            }
        };
        counted.is_refused = outcome == Outcome::Refused;
        let pause = pause.clamp(Duration::from_secs(1), LONGEST_PAUSE);
        let until = now + pause;
        let was = counted.open.replace(Open { until, pause });
        was.is_none().then_some(BreakerState::Open)
    }

    /// How it stands.
    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        match &self.counted().open {
            None => BreakerState::Closed,
            Some(open) if now < open.until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn pause(&self, now: Instant) -> Option<Pause> {
        let until = self.open.as_ref()?.until;
        (now < until).then(|| Pause {
            rest: until - now,
            is_refused: self.is_refused,
        })
    }
}

impl BreakerState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Closed, Self::HalfOpen, Self::Open];

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A submission at `now` that comes to `outcome`.
    fn submission(breaker: &Breaker, outcome: Outcome, now: Instant) -> Option<BreakerState> {
        let permit = breaker.admit(now).expect("it may go");
        breaker.record(permit, outcome, false, now)
    }

    /// A breaker that has just opened.
    fn opened(begin: Instant) -> (Breaker, Instant) {
        let breaker = Breaker::default();
        for number in 0..MOST_FAILURES - 1 {
            let now = begin + SECOND * number;
            assert_eq!(submission(&breaker, Outcome::Failed, now), None);
        }
        let now = begin + SECOND * MOST_FAILURES;
        let opened = submission(&breaker, Outcome::Failed, now);
        assert_eq!(opened, Some(BreakerState::Open));
        (breaker, now)
    }

    #[test]
    fn a_burst_of_failures_does_not_open_it() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 * MOST_FAILURES {
            assert_eq!(submission(&breaker, Outcome::Failed, now), None);
        }
        assert_eq!(breaker.state(now), BreakerState::Closed);
        let later = submission(&breaker, Outcome::Failed, now + LEAST_TIME);
        assert_eq!(later, Some(BreakerState::Open));
    }

    #[test]
    fn one_that_is_served_begins_the_count_anew() {
        let (breaker, begin) = (Breaker::default(), Instant::now());
        for number in 0..10 * MOST_FAILURES {
            let outcome = match number % MOST_FAILURES {
                0 => Outcome::Served,
                _ => Outcome::Failed,
            };
            assert_eq!(submission(&breaker, outcome, begin + SECOND * number), None);
        }
    }

    #[test]
    fn one_submission_tries_after_each_pause_and_pauses_grow() {
        let (breaker, mut now) = opened(Instant::now());
        for pause in [5, 10, 20, 40, 60, 60] {
            let pause = Duration::from_secs(pause);
            let told = breaker.admit(now).expect_err("it is open");
            assert_eq!((told.rest, told.is_refused), (pause, false));
            assert_eq!(breaker.state(now), BreakerState::Open);
            now += pause;
            assert_eq!(breaker.state(now), BreakerState::HalfOpen);
            let permit = breaker.admit(now).expect("one tries");
            assert!(breaker.admit(now).is_err(), "and no other");
            assert_eq!(breaker.record(permit, Outcome::Failed, false, now), None);
        }
        now += LONGEST_PAUSE;
        let closed = submission(&breaker, Outcome::Served, now);
        assert_eq!(closed, Some(BreakerState::Closed));
        assert_eq!(breaker.state(now), BreakerState::Closed);
    }

    #[test]
    fn what_went_before_it_opened_does_not_make_the_pause_longer() {
        let begin = Instant::now();
        let early = Permit { is_trial: false };
        let (breaker, now) = opened(begin);
        for _ in 0..100 {
            assert_eq!(breaker.record(early, Outcome::Failed, false, now), None);
        }
        assert_eq!(breaker.admit(now).expect_err("open").rest, FIRST_PAUSE);
    }

    #[test]
    fn a_trial_that_was_not_sent_leaves_the_next_one_to_try() {
        let (breaker, now) = opened(Instant::now());
        let now = now + FIRST_PAUSE;
        let permit = breaker.admit(now).expect("one tries");
        assert!(breaker.admit(now).is_err());
        breaker.withdraw(permit, now);
        let closed = submission(&breaker, Outcome::Served, now);
        assert_eq!(closed, Some(BreakerState::Closed));
    }

    #[test]
    fn a_trial_that_finds_the_partner_busy_waits_as_it_is_asked_to() {
        let (breaker, now) = opened(Instant::now());
        let now = now + FIRST_PAUSE;
        let busy = Outcome::Busy(Some(SECOND * 45));
        assert_eq!(submission(&breaker, busy, now), None);
        assert_eq!(breaker.admit(now).expect_err("open").rest, SECOND * 45);
    }

    #[test]
    fn a_key_that_is_busy_or_refused_pauses_at_once_where_there_are_others() {
        let now = Instant::now();
        for (outcome, pause, is_refused) in [
            (Outcome::Busy(None), FIRST_PAUSE, false),
            (Outcome::Busy(Some(SECOND * 7)), SECOND * 7, false),
            (Outcome::Busy(Some(Duration::ZERO)), SECOND, false),
            (Outcome::Busy(Some(SECOND * 7000)), LONGEST_PAUSE, false),
            (Outcome::Refused, REFUSED_PAUSE, true),
        ] {
            let breaker = Breaker::default();
            let permit = breaker.admit(now).expect("it may go");
            assert_eq!(
                breaker.record(permit, outcome, true, now),
                Some(BreakerState::Open)
            );
            let told = breaker.admit(now).expect_err("it is open");
            assert_eq!((told.rest, told.is_refused), (pause, is_refused));
            let alone = Breaker::default();
            assert_eq!(submission(&alone, outcome, now), None);
        }
    }
}

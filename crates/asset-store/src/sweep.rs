//! What protects an installation from its own sweeps: a clock that jumped, and rows that were lost.
//!
//! A sweep trusts the clock and the rows. Both can be wrong for a while, and what a sweep deleted does not come back. So each
//! pass asks [`SweepState::admit`] first, and blobs that no row ever released go only while they are few (see
//! [`crate::Assets::sweep`]). The operator can confirm either.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::{BlobHash, RecordsError};

/// How far the clock may be from where the last pass left it, the time that the process ran since then aside.
pub const PLAUSIBLE_JUMP: SignedDuration = SignedDuration::from_hours(24);

/// How long a process has to run after a jump before anything is deleted: time for an operator to see it and set the clock.
pub const HOLD: SignedDuration = SignedDuration::from_hours(24);

/// Which loop sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SweepName {
    /// Jobs, records and blobs.
    Assets,
    /// Idempotency keys, results and records of calls.
    Calls,
}

/// What is remembered of the passes of one sweep, over restarts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepState {
    /// What the clock showed at the last pass, held or not.
    pub last_at: Option<Timestamp>,
    /// How long the process still has to run before a pass deletes anything; zero when nothing holds it.
    pub hold_left: SignedDuration,
    /// Whether the operator said that the next pass is right, whatever it finds.
    pub confirmed: bool,
}

/// Whether a pass may delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Admitted {
        /// Whether the operator confirmed it, which covers blobs that no row released.
        confirmed: bool,
    },
    /// The clock jumped: nothing may be deleted.
    Held {
        /// Until the process has run for this much longer, or the operator confirms.
        left: SignedDuration,
    },
}

impl SweepName {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Assets, Self::Calls];

    /// Its name in rows, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assets => "assets",
            Self::Calls => "calls",
        }
    }
}

impl SweepState {
    /// Judges a pass at `now` in a process that ran for `running` since it last asked; zero at its first pass. Uses up a
    /// confirmation.
    pub fn admit(&mut self, now: Timestamp, running: SignedDuration) -> Admission {
        let confirmed = std::mem::take(&mut self.confirmed);
        let jumped = self.last_at.is_some_and(|last| {
            let moved = now.duration_since(last).saturating_sub(running);
            // Not `abs`, which cannot represent the least duration.
            moved > PLAUSIBLE_JUMP || moved < -PLAUSIBLE_JUMP
        });
        self.hold_left = match (confirmed, jumped) {
            (true, _) => SignedDuration::ZERO,
            (false, true) => HOLD,
            (false, false) => self
                .hold_left
                .saturating_sub(running)
                .max(SignedDuration::ZERO),
        };
        self.last_at = Some(now);
        if self.hold_left.is_zero() {
            Admission::Admitted { confirmed }
        } else {
            Admission::Held {
                left: self.hold_left,
            }
        }
    }
}

/// Remembers [`SweepState`]s.
///
/// **Contract.** Every method is one transaction and durable when it returns; what is decided is [`SweepState::admit`]'s
/// answer. A confirmation admits exactly one pass of each sweep. It is never lost to a pass under way: it counts for that one
/// or for the next.
#[async_trait]
pub trait SweepStates: Send + Sync + 'static {
    /// Judges a pass, and remembers what follows from it.
    async fn admit(
        &self,
        sweep: SweepName,
        now: Timestamp,
        running: SignedDuration,
    ) -> Result<Admission, RecordsError>;

    /// Confirms the next pass of every sweep.
    async fn confirm(&self) -> Result<(), RecordsError>;
}

/// Remembers which blobs lost a record, so that they are told from blobs whose rows are missing.
///
/// **Contract.** A blob is released in the transaction that deletes a record over it, whatever deletes it, and stays so until
/// it is forgotten here. Whether another record still refers to it is not asked.
#[async_trait]
pub trait ReleasedBlobs: Send + Sync + 'static {
    /// Those of `hashes` that a record once named and let go.
    async fn among(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError>;

    /// Forgets blobs that are gone.
    async fn forget(&self, hashes: &[BlobHash]) -> Result<(), RecordsError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTES: SignedDuration = SignedDuration::from_mins(5);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).expect("in range")
    }

    fn swept_at(now: Timestamp) -> SweepState {
        SweepState {
            last_at: Some(now),
            ..SweepState::default()
        }
    }

    const ADMITTED: Admission = Admission::Admitted { confirmed: false };
    const HELD: Admission = Admission::Held { left: HOLD };

    #[test]
    fn a_first_pass_and_ordinary_ones_are_admitted() {
        let mut state = SweepState::default();
        assert_eq!(state.admit(at(0), SignedDuration::ZERO), ADMITTED);
        assert_eq!(state.admit(at(0) + MINUTES, MINUTES), ADMITTED);
        // A server that was down for a night.
        assert_eq!(state.admit(at(12), SignedDuration::ZERO), ADMITTED);
    }

    #[test]
    fn a_start_with_a_wrong_clock_deletes_nothing_either_way() {
        for days in [400, 2, -2, -400] {
            let mut state = swept_at(at(0));
            let now = at(days * 24);
            assert_eq!(state.admit(now, SignedDuration::ZERO), HELD, "{days} days");
        }
        let mut state = swept_at(Timestamp::MIN);
        assert_eq!(state.admit(Timestamp::MAX, SignedDuration::ZERO), HELD);
        let mut state = swept_at(Timestamp::MAX);
        assert_eq!(state.admit(Timestamp::MIN, SignedDuration::ZERO), HELD);
    }

    #[test]
    fn a_process_that_slept_between_two_passes_did_not_jump() {
        let mut state = swept_at(at(0));
        let long = SignedDuration::from_hours(30);
        assert_eq!(state.admit(at(30), long), ADMITTED);
        // The clock stood still while the process ran.
        assert_eq!(state.admit(at(30), long), HELD);
    }

    #[test]
    fn a_day_of_running_ends_the_hold_and_restarts_do_not() {
        let mut state = swept_at(at(0));
        assert_eq!(state.admit(at(9600), SignedDuration::ZERO), HELD);
        for restart in 0..5 {
            let admission = state.admit(at(9600 + restart), SignedDuration::ZERO);
            assert_eq!(admission, HELD, "restart {restart}");
        }
        let hour = SignedDuration::from_hours(1);
        for ran in 1..24 {
            let left = SignedDuration::from_hours(24 - ran);
            assert_eq!(state.admit(at(9604 + ran), hour), Admission::Held { left });
        }
        assert_eq!(state.admit(at(9628), hour), ADMITTED);
    }

    #[test]
    fn a_confirmation_admits_one_pass_and_ends_the_hold() {
        let mut state = swept_at(at(0));
        assert_eq!(state.admit(at(9600), SignedDuration::ZERO), HELD);
        state.confirmed = true;
        let confirmed = Admission::Admitted { confirmed: true };
        assert_eq!(state.admit(at(9600) + MINUTES, MINUTES), confirmed);
        assert_eq!(state.admit(at(9600) + MINUTES * 2, MINUTES), ADMITTED);
    }
}

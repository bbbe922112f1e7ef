//! Whether the claim of a run counts, as far as its worker knows.

use std::sync::{Mutex, PoisonError};

/// What a worker knows of the claim that one of its runs has.
#[derive(Debug, Default)]
pub(super) struct ClaimState(Mutex<Known>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// How often the claim was made again after a database had lost it.
    again: u32,
    /// Whether it counts no more. It never counts again.
    is_lost: bool,
}

impl ClaimState {
    /// Whether nothing of the run is to be saved or told any more.
    pub(super) fn is_lost(&self) -> bool {
        self.known().is_lost
    }

    /// How often the claim was made again: for [`ClaimState::lose_unless_made_again`].
    pub(super) fn again(&self) -> u32 {
        self.known().again
    }

    /// Takes down that the claim was made again. If it is lost already, it stays so, and the answer is `false`.
    pub(super) fn make_again(&self) -> bool {
        let mut known = self.known();
        if !known.is_lost {
            known.again += 1;
        }
        !known.is_lost
    }

    pub(super) fn lose(&self) {
        self.known().is_lost = true;
    }

    /// The claim was lost when it had been made again so often. Whether it is lost now.
    pub(super) fn lose_unless_made_again(&self, again: u32) -> bool {
        let mut known = self.known();
        known.is_lost |= known.again == again;
        known.is_lost
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Every change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_before_a_claim_was_made_again_does_not_end_it() {
        let claim = ClaimState::default();
        let heard = claim.again();
        assert!(claim.make_again());
        assert!(!claim.lose_unless_made_again(heard));
        assert!(claim.lose_unless_made_again(claim.again()));
        assert!(!claim.make_again() && claim.is_lost());
    }
}

//! A run's place among those that compute at the same time, given back while the run merely waits for another service.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use crate::{Share, Taken};

/// The place of a run. Clones are the same one; dropping the last gives it back. The default is that of a run which takes
/// nobody's place.
#[derive(Clone, Debug, Default)]
pub struct ComputePermit(Option<Arc<PermitState>>);

#[derive(Debug)]
struct PermitState {
    share: Share,
    held: Mutex<Held>,
}

/// What is given back when the run leaves its permit.
#[derive(Debug, Default)]
struct Held {
    permit: Option<Taken>,
    /// Whether the run computes in another process, where it needs no permit.
    elsewhere: bool,
    /// What keeps the claimer of the run from claiming another one. It is given back once and never taken again.
    _claimer: Option<OwnedSemaphorePermit>,
}

impl ComputePermit {
    /// The permit that was kept for a run, unless others of its account took all of its share meanwhile: then the run has left
    /// it already. Leaving it for the first time gives the claimer back besides.
    pub(crate) fn new(
        share: Share,
        permit: OwnedSemaphorePermit,
        claimer: OwnedSemaphorePermit,
    ) -> Self {
        let held = match share.give(permit) {
            Some(permit) => Held {
                permit: Some(permit),
                elsewhere: false,
                _claimer: Some(claimer),
            },
            None => Held::default(),
        };
        let held = Mutex::new(held);
        Self(Some(Arc::new(PermitState { share, held })))
    }

    /// Gives the permit back: another run may have it. Nothing may be computed before [`ComputePermit::take`] has completed.
    pub fn leave(&self) {
        if let Some(place) = &self.0 {
            drop(std::mem::take(&mut *place.held()));
        }
    }

    /// Gives the permit back for a run that computes in another process: another run may have it. Unlike one that merely waits,
    /// the run goes on to take its account's room.
    pub fn move_out(&self) {
        if let Some(place) = &self.0 {
            let held = Held {
                elsewhere: true,
                ..Held::default()
            };
            drop(std::mem::replace(&mut *place.held(), held));
        }
    }

    /// Whether it was left for a wait, and not taken since.
    pub(crate) fn is_left(&self) -> bool {
        let place = self.0.as_ref();
        place.is_some_and(|place| {
            let held = place.held();
            held.permit.is_none() && !held.elsewhere
        })
    }

    /// Whether it is taken, so that its run may compute.
    pub(crate) fn is_taken(&self) -> bool {
        let place = self.0.as_ref();
        place.is_some_and(|place| place.held().permit.is_some())
    }

    /// Waits for a permit, in the order in which the runs of its account ask. Completes at once for a run that has one.
    /// Cancel-safe.
    pub async fn take(&self) {
        let Some(place) = &self.0 else { return };
        if place.held().permit.is_some() {
            return;
        }
        let permit = place.share.take().await;
        let mut held = place.held();
        held.permit = Some(permit);
        held.elsewhere = false;
    }
}

impl PermitState {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Every change replaces the whole value: a panic elsewhere cannot have left it half-changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::Shares;

    fn permit(permits: &Shares, account: &str, claimers: &Arc<Semaphore>) -> ComputePermit {
        let permit = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().expect("it is free");
        let share = permits.of(&account.parse().expect("a valid name"));
        ComputePermit::new(share, permit(permits.all()), permit(claimers))
    }

    #[test]
    fn what_is_left_is_free_and_is_taken_again() {
        let (permits, claimers) = (Shares::new(1, 1), Arc::new(Semaphore::new(2)));
        let first = permit(&permits, "a", &claimers);
        assert!(first.take().now_or_never().is_some(), "it has one");
        first.leave();
        assert!(first.is_left());
        let second = permit(&permits, "b", &claimers);
        assert!(first.take().now_or_never().is_none(), "it is taken");
        drop(second);
        assert!(first.take().now_or_never().is_some());
        assert!(!first.is_left());
        assert_eq!(permits.all().available_permits(), 0);
        drop(first);
        assert_eq!(permits.all().available_permits(), 1);
        assert_eq!(claimers.available_permits(), 2);
    }

    #[test]
    fn runs_that_come_back_leave_a_seat_to_other_accounts() {
        let (permits, claimers) = (Shares::new(2, 1), Arc::new(Semaphore::new(9)));
        let waiting = permit(&permits, "a", &claimers);
        waiting.leave();
        let computing = permit(&permits, "a", &claimers);
        let late = permit(&permits, "a", &claimers);
        assert!(late.is_left(), "its account has its share");
        assert!(waiting.take().now_or_never().is_none());
        let other = permit(&permits, "b", &claimers);
        assert!(!other.is_left());
        drop((other, computing));
        assert!(waiting.take().now_or_never().is_some());
        drop((waiting, late));
        assert_eq!(permits.all().available_permits(), 2);
        assert_eq!(claimers.available_permits(), 9);
    }

    #[test]
    fn a_run_that_moves_out_frees_its_seat_and_does_not_merely_wait() {
        let (permits, claimers) = (Shares::new(1, 1), Arc::new(Semaphore::new(2)));
        let moved = permit(&permits, "a", &claimers);
        moved.move_out();
        assert!(!moved.is_left() && !moved.is_taken());
        assert_eq!(claimers.available_permits(), 2);
        let other = permit(&permits, "b", &claimers);
        drop(other);
        moved.leave();
        assert!(moved.is_left(), "now it waits");
    }

    #[test]
    fn a_run_without_a_seat_never_waits_for_one() {
        let permit = ComputePermit::default();
        permit.leave();
        assert!(permit.take().now_or_never().is_some());
    }
}

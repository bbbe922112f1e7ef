//! A run's place among those that run at the same time, given back while the run merely waits for somebody else.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The place of a run. Clones are the same one; dropping the last gives it back. The default is that of a run which takes
/// nobody's place.
#[derive(Clone, Debug, Default)]
pub struct Seat(Option<Arc<Place>>);

#[derive(Debug)]
struct Place {
    seats: Arc<Semaphore>,
    held: Mutex<Held>,
}

/// What is given back when the run leaves its seat.
#[derive(Debug, Default)]
struct Held {
    seat: Option<OwnedSemaphorePermit>,
    /// What keeps whoever claimed the run from claiming another one. It is given back once and never taken again.
    _claimer: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// One of `seats`, with what its first leaving gives back besides.
    pub(crate) fn new(
        seats: &Arc<Semaphore>,
        seat: OwnedSemaphorePermit,
        claimer: OwnedSemaphorePermit,
    ) -> Self {
        Self(Some(Arc::new(Place {
            seats: Arc::clone(seats),
            held: Mutex::new(Held {
                seat: Some(seat),
                _claimer: Some(claimer),
            }),
        })))
    }

    /// Gives the seat back: another run may have it. Nothing may be computed before [`Seat::take`] has completed.
    pub fn leave(&self) {
        if let Some(place) = &self.0 {
            drop(std::mem::take(&mut *place.held()));
        }
    }

    /// Whether it was left, and not taken since.
    pub(crate) fn is_left(&self) -> bool {
        let place = self.0.as_ref();
        place.is_some_and(|place| place.held().seat.is_none())
    }

    /// Waits for a seat, in the order in which runs ask. Completes at once for a run that has one. Cancel-safe.
    pub async fn take(&self) {
        let Some(place) = &self.0 else { return };
        if place.held().seat.is_some() {
            return;
        }
        // Nobody ever closes the seats.
        if let Ok(seat) = Arc::clone(&place.seats).acquire_owned().await {
            place.held().seat = Some(seat);
        }
    }
}

impl Place {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        // Every change replaces the whole value: a panic elsewhere cannot have left it half-changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn seat(seats: &Arc<Semaphore>, claimers: &Arc<Semaphore>) -> Seat {
        let permit = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().expect("it is free");
        Seat::new(seats, permit(seats), permit(claimers))
    }

    #[test]
    fn what_is_left_is_free_and_is_taken_again() {
        let (seats, claimers) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(2)));
        let first = seat(&seats, &claimers);
        assert!(first.take().now_or_never().is_some(), "it has one");
        first.leave();
        assert!(first.is_left());
        let second = seat(&seats, &claimers);
        assert!(first.take().now_or_never().is_none(), "it is taken");
        drop(second);
        assert!(first.take().now_or_never().is_some());
        assert!(!first.is_left());
        assert_eq!(seats.available_permits(), 0);
        drop(first);
        assert_eq!(seats.available_permits(), 1);
        assert_eq!(claimers.available_permits(), 2);
    }

    #[test]
    fn a_run_without_a_seat_never_waits_for_one() {
        let seat = Seat::default();
        seat.leave();
        assert!(seat.take().now_or_never().is_some());
    }
}

//! What every asset store must answer, written once and run on each.
//!
//! A store's tests call [`blob_store`], [`asset_records`] and the others; each runs every rule on a fresh store, so that no
//! store can leave one out. A broken rule panics at the assertion that states it.

mod blobs;
mod damage;
mod direct;
mod records;
mod replicas;
mod sweeps;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

pub use blobs::blob_store;
pub use damage::{Damage, damaged_blobs, scrub_states};
pub use direct::{DirectReader, DirectStore, direct_reads};
pub use records::{asset_records, file_names};
pub use replicas::{Replica, replicas};
pub use sweeps::sweeps;

/// A clock that stands still until it is moved. Clones are one clock.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<Mutex<Timestamp>>);

impl TestClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// The time it shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves it, backwards too, and answers the time it then shows.
    ///
    /// # Panics
    /// If that is past the end of time.
    pub fn advance(&self, by: SignedDuration) -> Timestamp {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now
            .checked_add(by)
            .expect("the suites stay within the range of timestamps");
        *now
    }
}

/// The moment at which the suites begin.
fn start() -> Timestamp {
    Timestamp::from_second(1_790_000_000).expect("in range")
}

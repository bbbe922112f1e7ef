//! Where an adapter gets the time that no caller hands it: the ages of blob files, and the moment of opening.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A wall clock. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    #[must_use]
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The clock of the system.
    #[must_use]
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

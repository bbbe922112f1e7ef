//! Delays, by a seed.

use std::sync::{Arc, Mutex, PoisonError};

use accounts::contract::Dice;

/// Decides by a seed how long an operation is delayed, so that those that begin together happen in any order. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(Arc<Mutex<Dice>>);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Dice::new(seed))))
    }

    /// A number below `sides`.
    pub(crate) fn roll(&self, sides: usize) -> usize {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        dice.roll(sides)
    }

    /// Lets others go first, or not.
    pub(crate) async fn pause(&self) {
        for _ in 0..self.roll(4) {
            tokio::task::yield_now().await;
        }
    }

    /// Does something, delayed before and after: others come in between, and answers overtake each other.
    pub(crate) async fn around<T>(&self, operation: impl Future<Output = T>) -> T {
        self.pause().await;
        let answer = operation.await;
        self.pause().await;
        answer
    }

    /// Puts things into another order.
    pub(crate) fn shuffle<T>(&self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.roll(last + 1));
        }
    }
}

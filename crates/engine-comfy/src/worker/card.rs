//! What a choice reads of a worker without its lock: a thousand locks would take longer than the choice.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Reach, Shared};

/// A worker in two numbers. They are written while its lock is held, so that they are as new as what is known of it.
#[derive(Debug, Default)]
pub(super) struct Card {
    summary: AtomicU64,
    used: AtomicU64,
}

/// A worker that takes jobs, with nothing against it that changes with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// The number of its definitions.
    pub(super) definitions: u32,
    /// The bits of the model files that are loaded by then.
    pub(super) bits: u32,
    /// When model files were last used there.
    pub(super) used: u64,
}

/// Set if the worker takes jobs.
const IS_PLAIN: u64 = 1 << 63;

impl Card {
    /// The worker, if nothing speaks against it; else its lock tells what does.
    pub(super) fn plain(&self) -> Option<Plain> {
        let summary = self.summary.load(Ordering::Acquire);
        (summary & IS_PLAIN != 0).then(|| Plain {
            definitions: ((summary & !IS_PLAIN) >> 32) as u32,
            bits: summary as u32,
            used: self.used.load(Ordering::Relaxed),
        })
    }

    fn write(&self, shared: &Shared) {
        let definitions = shared.definitions.as_ref().map(|known| known.number);
        let is_up = shared.reach == Reach::Up && !shared.draining && shared.breaker.is_closed();
        let summary = match definitions.filter(|number| is_up && *number < 1 << 31) {
            Some(number) => {
                IS_PLAIN | u64::from(number) << 32 | u64::from(shared.files.coming_bits())
            }
            None => 0,
        };
        self.used.store(shared.files.used, Ordering::Relaxed);
        self.summary.store(summary, Ordering::Release);
    }
}

/// What is known of a worker, locked. Its card is written anew when it is let go.
pub(crate) struct Known<'a> {
    shared: MutexGuard<'a, Shared>,
    card: &'a Card,
}

impl<'a> Known<'a> {
    pub(super) fn new(shared: MutexGuard<'a, Shared>, card: &'a Card) -> Self {
        Self { shared, card }
    }
}

impl Deref for Known<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl DerefMut for Known<'_> {
    fn deref_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        self.card.write(&self.shared);
    }
}

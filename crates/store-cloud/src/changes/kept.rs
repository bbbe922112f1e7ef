//! The changes of other replicas that a replica has read: the newest ones, for its hub.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use workflow_core::{Change, ChangeNumber, ChangesSince};

/// How many changes are kept for a hub that is slow. One that falls out of them reads rows again.
const MOST: usize = 16_384;

/// How many changes are handed out at a time.
const TOGETHER: usize = 2_048;

#[derive(Debug, Default)]
pub(super) struct Kept {
    changes: Mutex<Numbered>,
    /// The number of the newest change; `None` while it is not known what is new.
    newest: watch::Sender<Option<u64>>,
}

#[derive(Debug, Default)]
struct Numbered {
    /// The number of the newest change; those before are consecutive.
    newest: u64,
    changes: VecDeque<Change>,
}

impl Kept {
    /// Adds what other replicas changed.
    pub(super) fn add(&self, changes: Vec<Change>) {
        let newest = {
            let mut kept = self.lock();
            kept.newest += changes.len() as u64;
            kept.changes.extend(changes);
            let excess = kept.changes.len().saturating_sub(MOST);
            kept.changes.drain(..excess);
            kept.newest
        };
        self.newest.send_replace(Some(newest));
    }

    /// Begins anew: changes were missed, or nothing was read before.
    pub(super) fn start_over(&self) {
        let newest = {
            let mut kept = self.lock();
            kept.changes.clear();
            // A position before this one is behind now.
            kept.newest += 1;
            kept.newest
        };
        self.newest.send_replace(Some(newest));
    }

    /// What is behind a position; waits until there is something.
    pub(super) async fn since(&self, after: Option<ChangeNumber>) -> ChangesSince {
        let mut newest = self.newest.subscribe();
        loop {
            let is_reading = newest.borrow_and_update().is_some();
            if let Some(since) = is_reading.then(|| self.lock().since(after)).flatten() {
                return since;
            }
            if newest.changed().await.is_err() {
                // The sender lives as long as this.
                std::future::pending::<()>().await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Numbered> {
        // Nothing panics in the middle of a change.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbered {
    fn since(&self, after: Option<ChangeNumber>) -> Option<ChangesSince> {
        let first = self.newest - self.changes.len() as u64;
        let seen = after
            .and_then(|after| after.0.checked_sub(first))
            .and_then(|seen| usize::try_from(seen).ok())
            .filter(|seen| *seen <= self.changes.len());
        let Some(seen) = seen else {
            return Some(ChangesSince::Missed(ChangeNumber(self.newest)));
        };
        let new: Vec<Change> = self
            .changes
            .iter()
            .skip(seen)
            .take(TOGETHER)
            .cloned()
            .collect();
        let next = ChangeNumber(first + (seen + new.len()) as u64);
        (!new.is_empty()).then_some(ChangesSince::Changes(new, next))
    }
}

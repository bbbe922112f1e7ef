//! The port that tells which process does what only one of them should do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::InstallationError;

/// Work that one process does for a whole installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Deletes jobs, records and bytes that are past their time.
    Assets,
    /// Forgets calls that are past their time.
    Calls,
    /// Compares bytes with their hashes.
    Scrub,
    /// Starts and stops the workers of deployments.
    Deployments,
    /// Sends events to webhooks.
    Webhooks,
    /// Deletes files of kept results that are past their time.
    Results,
}

/// Whose turn it is to do a work. A handle is a process: an opening of the installation.
///
/// **Contract.** At most one handle has a turn at any instant before the end that it asked for, as long as their clocks agree. A
/// turn saves work, and makes nothing safe: a process that was stopped may go on with its work after its turn was over.
#[async_trait]
pub trait Turns: Send + Sync + 'static {
    /// Takes the turn, or keeps it, until `until`; whether it is this handle's now. It is another one's if that one took it,
    /// did not give it back, and its end is after `now`.
    async fn take(
        &self,
        work: Work,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, InstallationError>;

    /// Ends a turn of this handle early; without one, nothing happens.
    async fn give_back(&self, work: Work) -> Result<(), InstallationError>;
}

impl Work {
    /// Its name in rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assets => "assets",
            Self::Calls => "calls",
            Self::Scrub => "scrub",
            Self::Deployments => "deployments",
            Self::Webhooks => "webhooks",
            Self::Results => "results",
        }
    }
}

/// Turns of the handles in one process: all there are, where one process has an installation alone.
#[derive(Debug, Default)]
pub struct MemoryTurns {
    taken: Arc<Mutex<Taken>>,
    handle: u64,
}

#[derive(Debug, Default)]
struct Taken {
    by_work: HashMap<Work, (u64, Timestamp)>,
    handles: u64,
}

impl MemoryTurns {
    /// Another handle on the same turns.
    #[must_use]
    pub fn of_another_replica(&self) -> Self {
        let mut taken = locked(&self.taken);
        taken.handles += 1;
        Self {
            taken: Arc::clone(&self.taken),
            handle: taken.handles,
        }
    }
}

#[async_trait]
impl Turns for MemoryTurns {
    async fn take(
        &self,
        work: Work,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, InstallationError> {
        let mut taken = locked(&self.taken);
        let other = taken.by_work.get(&work);
        let is_free = other.is_none_or(|(handle, end)| *handle == self.handle || *end <= now);
        if is_free {
            taken.by_work.insert(work, (self.handle, until));
        }
        Ok(is_free)
    }

    async fn give_back(&self, work: Work) -> Result<(), InstallationError> {
        let mut taken = locked(&self.taken);
        if taken.by_work.get(&work).map(|(handle, _)| *handle) == Some(self.handle) {
            taken.by_work.remove(&work);
        }
        Ok(())
    }
}

fn locked(taken: &Mutex<Taken>) -> std::sync::MutexGuard<'_, Taken> {
    // Every change is one call: a panic elsewhere cannot have left it half-made.
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_in_memory_keep_the_contract() {
        let one = MemoryTurns::default();
        crate::contract::turns(&one, &one.of_another_replica()).await;
    }
}

//! What is known in memory of the keys of generations under way.
//!
//! One process has the directory, so claims that were not dispatched end with it, and need no time in their rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use jiff::Timestamp;
use router_core::{GenerationId, KeyClaim};

/// The generations under way that have a key, and whose results are therefore to be kept until it expires. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed(Arc<Mutex<HashMap<GenerationId, Entry>>>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    expires_at: Timestamp,
    /// Until when the claim stands if the generation is not dispatched.
    until: Timestamp,
    /// Whether it was submitted to the queue: then its result is kept whatever its size.
    is_queued: bool,
}

impl Keyed {
    /// Those that the process before dispatched, with when their keys expire and whether they were queued.
    pub(super) fn of(
        dispatched: impl IntoIterator<Item = (GenerationId, Timestamp, bool)>,
    ) -> Self {
        let entry = |(id, expires_at, is_queued)| {
            let entry = Entry {
                expires_at,
                until: Timestamp::MIN,
                is_queued,
            };
            (id, entry)
        };
        let entries = dispatched.into_iter().map(entry).collect();
        Self(Arc::new(Mutex::new(entries)))
    }

    /// A key was claimed, and what was claimed before for it and not dispatched has lost it.
    pub(super) fn claimed(&self, claim: &KeyClaim, now: Timestamp, before: Option<GenerationId>) {
        let entry = Entry {
            expires_at: claim.expires_at,
            until: claim.stands_until(now),
            is_queued: false,
        };
        let mut entries = self.entries();
        if let Some(before) = before {
            entries.remove(&before);
        }
        entries.insert(claim.generation, entry);
    }

    /// A queued request is about to be dispatched.
    pub(super) fn queued(&self, generation: GenerationId, expires_at: Timestamp) {
        let entry = Entry {
            expires_at,
            until: Timestamp::MAX,
            is_queued: true,
        };
        self.entries().insert(generation, entry);
    }

    /// Whether a generation under way was queued.
    pub(super) fn is_queued(&self, generation: GenerationId) -> bool {
        let entries = self.entries();
        let entry = entries.get(&generation);
        entry.is_some_and(|entry| entry.is_queued)
    }

    /// A generation does not run any more, or never will.
    pub(super) fn end(&self, generation: GenerationId) {
        self.entries().remove(&generation);
    }

    /// When the key of a generation expires, if it has one.
    pub(super) fn expires_at(&self, generation: GenerationId) -> Option<Timestamp> {
        self.entries()
            .get(&generation)
            .map(|entry| entry.expires_at)
    }

    /// Until when the claim of a generation stands that was not dispatched. One whose claim is being written is not known yet.
    pub(super) fn claimed_until(&self, generation: GenerationId) -> Timestamp {
        let entries = self.entries();
        let entry = entries.get(&generation);
        entry.map_or(Timestamp::MAX, |entry| entry.until)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<GenerationId, Entry>> {
        // Every change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

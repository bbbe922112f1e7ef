//! What is known in memory of the keys of generations under way.
//!
//! One process has the directory, so claims that were not dispatched end with it, and need no rows: the row of a key comes with the
//! dispatch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::{AccountId, Fingerprint};
use foldhash::HashMap;
use jiff::Timestamp;
use router_core::{GenerationId, KeyClaim, KeyDigest, KeyStage, KeyTells, KnownKey};

/// The generations under way that have a key, and whose results are therefore to be kept until it expires. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    generations: HashMap<GenerationId, Entry>,
    /// Whose the keys are that were claimed and not dispatched.
    claims: HashMap<(AccountId, KeyDigest), GenerationId>,
}

#[derive(Debug)]
struct Entry {
    expires_at: Timestamp,
    /// Whether it was submitted to the queue: then its result is kept whatever its size.
    is_queued: bool,
    /// Its claim, until it is dispatched.
    claim: Option<Claim>,
}

#[derive(Debug)]
struct Claim {
    of: (AccountId, KeyDigest),
    fingerprint: Fingerprint,
    /// Until when it stands.
    until: Timestamp,
}

impl Keyed {
    /// Those that the process before dispatched, with when their keys expire and whether they were queued.
    pub(super) fn of(
        dispatched: impl IntoIterator<Item = (GenerationId, Timestamp, bool)>,
    ) -> Self {
        let entry = |(id, expires_at, is_queued)| {
            let entry = Entry {
                expires_at,
                is_queued,
                claim: None,
            };
            (id, entry)
        };
        let entries = Entries {
            generations: dispatched.into_iter().map(entry).collect(),
            claims: HashMap::default(),
        };
        Self(Arc::new(Mutex::new(entries)))
    }

    /// What a claim that was not dispatched tells a request with its key, and whose it is. Of others the rows tell.
    pub(super) fn tells(
        &self,
        of: &(AccountId, KeyDigest),
        fingerprint: &Fingerprint,
        now: Timestamp,
    ) -> Option<(GenerationId, KeyTells)> {
        let entries = self.entries();
        let generation = *entries.claims.get(of)?;
        let entry = entries.generations.get(&generation)?;
        let claim = entry.claim.as_ref()?;
        let known = KnownKey {
            fingerprint: claim.fingerprint,
            expires_at: entry.expires_at,
            stage: KeyStage::Claimed { until: claim.until },
        };
        Some((generation, known.tells(fingerprint, now)))
    }

    /// A key is claimed. Who had claimed it before has lost it.
    pub(super) fn claim(&self, claim: &KeyClaim, now: Timestamp) {
        let of = (claim.account.clone(), claim.key);
        let entry = Entry {
            expires_at: claim.expires_at,
            is_queued: false,
            claim: Some(Claim {
                of: of.clone(),
                fingerprint: claim.fingerprint,
                until: claim.stands_until(now),
            }),
        };
        let mut entries = self.entries();
        entries.lose(&of);
        entries.claims.insert(of, claim.generation);
        entries.generations.insert(claim.generation, entry);
    }

    /// Another request takes the key, if it was claimed and not dispatched.
    pub(super) fn lose(&self, of: &(AccountId, KeyDigest)) {
        self.entries().lose(of);
    }

    /// What the row of a claimed key says, if its claim was not dispatched and not lost: its request, and when it expires.
    pub(super) fn claimed(&self, generation: GenerationId) -> Option<(Fingerprint, Timestamp)> {
        let entries = self.entries();
        let entry = entries.generations.get(&generation)?;
        let claim = entry.claim.as_ref()?;
        Some((claim.fingerprint, entry.expires_at))
    }

    /// The key of a generation has its row.
    pub(super) fn dispatched(&self, generation: GenerationId) {
        let mut entries = self.entries();
        let entry = entries.generations.get_mut(&generation);
        if let Some(claim) = entry.and_then(|entry| entry.claim.take()) {
            entries.claims.remove(&claim.of);
        }
    }

    /// A queued request is about to be dispatched.
    pub(super) fn queued(&self, generation: GenerationId, expires_at: Timestamp) {
        let entry = Entry {
            expires_at,
            is_queued: true,
            claim: None,
        };
        self.entries().generations.insert(generation, entry);
    }

    /// Whether a generation under way was queued.
    pub(super) fn is_queued(&self, generation: GenerationId) -> bool {
        let entries = self.entries();
        let entry = entries.generations.get(&generation);
        entry.is_some_and(|entry| entry.is_queued)
    }

    /// A generation does not run any more, or never will.
    pub(super) fn end(&self, generation: GenerationId) {
        self.entries().end(generation);
    }

    /// Forgets at most `limit` claims of keys that expired, which nobody dispatched or gave back; how many.
    pub(super) fn expire(&self, now: Timestamp, limit: usize) -> usize {
        let mut entries = self.entries();
        let is_over = |entry: &Entry| entry.claim.is_some() && entry.expires_at <= now;
        let over = entries
            .generations
            .iter()
            .filter(|(_, entry)| is_over(entry));
        let over: Vec<GenerationId> = over.map(|(id, _)| *id).take(limit).collect();
        for generation in &over {
            entries.end(*generation);
        }
        over.len()
    }

    /// When the key of a generation expires, if it has one.
    pub(super) fn expires_at(&self, generation: GenerationId) -> Option<Timestamp> {
        let entries = self.entries();
        let entry = entries.generations.get(&generation);
        entry.map(|entry| entry.expires_at)
    }

    /// How many generations are known, and how many claims.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let entries = self.entries();
        (entries.generations.len(), entries.claims.len())
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing panics between the changes of one method.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn lose(&mut self, of: &(AccountId, KeyDigest)) {
        if let Some(generation) = self.claims.remove(of) {
            self.generations.remove(&generation);
        }
    }

    fn end(&mut self, generation: GenerationId) {
        let entry = self.generations.remove(&generation);
        if let Some(claim) = entry.and_then(|entry| entry.claim) {
            self.claims.remove(&claim.of);
        }
    }
}

//! What is known in memory of the keys of generations under way.
//!
//! One process has the directory, so claims that were not dispatched end with it, and need no rows: the key comes with the dispatch.
//! While that is in the log and not in the rows, what the key stands for is here.

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
    /// Whose the keys are that were claimed and are in no row.
    claims: HashMap<(AccountId, KeyDigest), GenerationId>,
    /// Those that ended in the log, whose ends may not be on the disk after a failure, with when their keys expire. Their owners
    /// end them again, unless they gave up.
    in_doubt: HashMap<GenerationId, Timestamp>,
}

#[derive(Debug)]
struct Entry {
    expires_at: Timestamp,
    /// Whether it was submitted to the queue: then its result is kept whatever its size.
    is_queued: bool,
    /// Its claim, until the rows have its key.
    claim: Option<Claim>,
}

#[derive(Debug)]
struct Claim {
    of: (AccountId, KeyDigest),
    fingerprint: Fingerprint,
    stage: Stage,
}

/// How far the generation of a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It was not dispatched; the claim stands until then.
    Claimed(Timestamp),
    /// It was dispatched through the log, and runs.
    Running,
    /// It ended in the log, which the rows do not know yet.
    Ended,
}

/// What a claim answers a request with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAnswer {
    /// It lapsed, or expired.
    Free,
    /// It is another request's.
    Conflict,
    /// It is the same request's, which was not dispatched yet.
    Claimed,
    /// It is the same request's, which runs.
    Running,
    /// Its generation has ended: the rows tell, once the log is brought in.
    Behind,
}

impl Keyed {
    /// Takes in those that the process before dispatched, with when their keys expire and whether they were queued.
    pub(super) fn recover(
        &self,
        dispatched: impl IntoIterator<Item = (GenerationId, Timestamp, bool)>,
    ) {
        let entry = |(id, expires_at, is_queued)| {
            let entry = Entry {
                expires_at,
                is_queued,
                claim: None,
            };
            (id, entry)
        };
        self.entries()
            .generations
            .extend(dispatched.into_iter().map(entry));
    }

    /// What a claim that is in no row tells a request with its key, and whose it is. Of others the rows tell.
    pub(super) fn tells(
        &self,
        of: &(AccountId, KeyDigest),
        fingerprint: &Fingerprint,
        now: Timestamp,
    ) -> Option<(GenerationId, KeyAnswer)> {
        let entries = self.entries();
        let generation = *entries.claims.get(of)?;
        let entry = entries.generations.get(&generation)?;
        let claim = entry.claim.as_ref()?;
        let stage = match claim.stage {
            Stage::Claimed(until) => KeyStage::Claimed { until },
            Stage::Running => KeyStage::Running,
            Stage::Ended => return Some((generation, KeyAnswer::Behind)),
        };
        let known = KnownKey {
            fingerprint: claim.fingerprint,
            expires_at: entry.expires_at,
            stage,
        };
        let answer = match known.tells(fingerprint, now) {
            KeyTells::Free => KeyAnswer::Free,
            KeyTells::Conflict => KeyAnswer::Conflict,
            KeyTells::Same if stage == KeyStage::Running => KeyAnswer::Running,
            KeyTells::Same => KeyAnswer::Claimed,
        };
        Some((generation, answer))
    }

    /// A key is claimed; false if another claim of it was dispatched. One that was not has lost it.
    #[must_use]
    pub(super) fn claim(&self, claim: &KeyClaim, now: Timestamp) -> bool {
        let of = (claim.account.clone(), claim.key);
        let entry = Entry {
            expires_at: claim.expires_at,
            is_queued: false,
            claim: Some(Claim {
                of: of.clone(),
                fingerprint: claim.fingerprint,
                stage: Stage::Claimed(claim.stands_until(now)),
            }),
        };
        let mut entries = self.entries();
        if !entries.lose(&of) {
            return false;
        }
        entries.claims.insert(of, claim.generation);
        entries.generations.insert(claim.generation, entry);
        true
    }

    /// Another request takes the key, if it was claimed and not dispatched; false if it was dispatched.
    #[must_use]
    pub(super) fn lose(&self, of: &(AccountId, KeyDigest)) -> bool {
        self.entries().lose(of)
    }

    /// What the row of a claimed key says, if its claim was not dispatched and not lost: its request, and when it expires.
    pub(super) fn claimed(&self, generation: GenerationId) -> Option<(Fingerprint, Timestamp)> {
        let entries = self.entries();
        let entry = entries.generations.get(&generation)?;
        let claim = entry.claim.as_ref()?;
        let is_claimed = matches!(claim.stage, Stage::Claimed(_));
        is_claimed.then_some((claim.fingerprint, entry.expires_at))
    }

    /// The key of a generation has its row.
    pub(super) fn dispatched(&self, generation: GenerationId) {
        let mut entries = self.entries();
        let entry = entries.generations.get_mut(&generation);
        if let Some(claim) = entry.and_then(|entry| entry.claim.take()) {
            entries.claims.remove(&claim.of);
        }
    }

    /// Dispatches a generation through the log, which `note` does, given what the row of its key will say. `None` if its claim
    /// was dispatched or lost.
    pub(super) fn dispatch_in_log<T, E>(
        &self,
        (account, key): (&AccountId, KeyDigest),
        generation: GenerationId,
        note: impl FnOnce(Fingerprint, Timestamp) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let mut entries = self.entries();
        let Some(entry) = entries.generations.get_mut(&generation) else {
            return Ok(None);
        };
        let expires_at = entry.expires_at;
        let claim = entry.claim.as_mut().filter(|claim| {
            matches!(claim.stage, Stage::Claimed(_)) && claim.of.0 == *account && claim.of.1 == key
        });
        let Some(claim) = claim else {
            return Ok(None);
        };
        // Locked meanwhile, so that nobody takes the key of what is dispatched.
        let noted = note(claim.fingerprint, expires_at)?;
        claim.stage = Stage::Running;
        Ok(Some(noted))
    }

    /// Whether a generation was dispatched through the log, and the rows may not have all of it.
    pub(super) fn is_in_log(&self, generation: GenerationId) -> bool {
        let entries = self.entries();
        let entry = entries.generations.get(&generation);
        let claim = entry.and_then(|entry| entry.claim.as_ref());
        claim.is_some_and(|claim| !matches!(claim.stage, Stage::Claimed(_)))
    }

    /// A generation ended in the log.
    pub(super) fn ended_in_log(&self, generation: GenerationId) {
        let mut entries = self.entries();
        let entry = entries.generations.get_mut(&generation);
        if let Some(claim) = entry.and_then(|entry| entry.claim.as_mut()) {
            claim.stage = Stage::Ended;
        }
    }

    /// The end of a generation in the log may not be on the disk.
    pub(super) fn doubt(&self, generation: GenerationId, expires_at: Timestamp) {
        self.entries().in_doubt.insert(generation, expires_at);
    }

    /// When the key of a generation expires whose end is in doubt; it is not from now on.
    pub(super) fn take_doubt(&self, generation: GenerationId) -> Option<Timestamp> {
        let mut entries = self.entries();
        // Nearly always there are none, and each end asks.
        match entries.in_doubt.is_empty() {
            true => None,
            false => entries.in_doubt.remove(&generation),
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

    /// Forgets at most `limit` claims of keys that expired, which nobody dispatched or gave back; how many. Doubts of such keys go
    /// as well.
    pub(super) fn expire(&self, now: Timestamp, limit: usize) -> usize {
        let mut entries = self.entries();
        entries.in_doubt.retain(|_, expires_at| *expires_at > now);
        let is_claimed = |claim: &Claim| matches!(claim.stage, Stage::Claimed(_));
        let is_over =
            |entry: &Entry| entry.expires_at <= now && entry.claim.as_ref().is_some_and(is_claimed);
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
    /// Takes a key from a claim that was not dispatched; false if there is one that was.
    fn lose(&mut self, of: &(AccountId, KeyDigest)) -> bool {
        let Some(generation) = self.claims.get(of).copied() else {
            return true;
        };
        let entry = self.generations.get(&generation);
        let claim = entry.and_then(|entry| entry.claim.as_ref());
        if claim.is_some_and(|claim| !matches!(claim.stage, Stage::Claimed(_))) {
            return false;
        }
        self.claims.remove(of);
        self.generations.remove(&generation);
        true
    }

    fn end(&mut self, generation: GenerationId) {
        let entry = self.generations.remove(&generation);
        if let Some(claim) = entry.and_then(|entry| entry.claim) {
            self.claims.remove(&claim.of);
        }
    }
}

//! Tokens that were verified a moment ago, so that most requests cost no signature.
//!
//! An entry is found by a keyed digest of the whole token, so no token is kept and the time of a miss tells nothing of
//! one. It says what the token says; whether the account still counts is asked at every request. Two generations bound
//! the cache: when the younger is full, the older is forgotten, and an entry that is still asked for moves along.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::sync::{Mutex, PoisonError};

use super::Claimed;

/// Most tokens of one generation. Both together take some 2 MB.
const GENERATION: usize = 8_192;

/// The cache of one set of keys: it goes when they go.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Two independent keys make a digest of 128 bits.
    keys: [RandomState; 2],
    generations: Mutex<Generations>,
}

/// A keyed digest of a token.
type Digest = [u64; 2];

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Digest, Claimed>,
    old: HashMap<Digest, Claimed>,
}

impl Cache {
    /// What a token was found to say, if it was asked for lately.
    pub(super) fn get(&self, token: &str) -> Option<Claimed> {
        let digest = self.digest(token);
        let mut generations = self.generations();
        if let Some(claimed) = generations.young.get(&digest) {
            return Some(claimed.clone());
        }
        let claimed = generations.old.remove(&digest)?;
        generations.insert(digest, claimed.clone());
        Some(claimed)
    }

    /// Remembers what a verified token says.
    pub(super) fn put(&self, token: &str, claimed: Claimed) {
        let digest = self.digest(token);
        self.generations().insert(digest, claimed);
    }

    fn digest(&self, token: &str) -> Digest {
        self.keys.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            hasher.write(token.as_bytes());
            hasher.finish()
        })
    }

    fn generations(&self) -> std::sync::MutexGuard<'_, Generations> {
        // A panic while they are held leaves them whole.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, digest: Digest, claimed: Claimed) {
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(digest, claimed);
    }
}

#[cfg(test)]
mod tests {
    use accounts::{AccountId, Scopes};
    use jiff::Timestamp;

    use super::*;

    fn claimed() -> Claimed {
        Claimed {
            account: AccountId::local(),
            scopes: Scopes::all(),
            from: Timestamp::MIN,
            until: Timestamp::MAX,
        }
    }

    #[test]
    fn a_token_is_found_and_another_is_not() {
        let cache = Cache::default();
        cache.put("a.b.c", claimed());
        assert_eq!(cache.get("a.b.c"), Some(claimed()));
        assert_eq!(cache.get("a.b.d"), None);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_asked_for() {
        let cache = Cache::default();
        cache.put("kept", claimed());
        for n in 0..4 * GENERATION {
            cache.put(&n.to_string(), claimed());
            assert!(cache.get("kept").is_some(), "forgotten after {n}");
        }
        let generations = cache.generations();
        let held = generations.young.len() + generations.old.len();
        assert!(held <= 2 * GENERATION, "{held} tokens are held");
        drop(generations);
        assert_eq!(cache.get("0"), None);
    }
}

//! Which blobs were compared with their hashes, and which were found damaged: what a store needs to know before it gives out
//! a part of one.
//!
//! Both are bounded, and forgetting is safe: a blob that was forgotten is compared once more, and a damaged one beyond the bound
//! is found again when it is read.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::{Blob, BlobHash, MOST_DAMAGED, VERIFIED_FOR};

/// Comparisons that are remembered at least; twice as many at most.
const REMEMBERED: usize = 50_000;

/// What one process knows of the bytes of its blobs.
#[derive(Debug, Default)]
pub struct BlobIntegrity {
    recent: HashMap<BlobHash, Verified>,
    /// Those that were recent before: dropped all at once when as many new ones have come, which costs no look at each.
    older: HashMap<BlobHash, Verified>,
    damaged: BTreeSet<BlobHash>,
}

#[derive(Clone, Copy, Debug)]
struct Verified {
    size_bytes: u64,
    at: Timestamp,
}

impl BlobIntegrity {
    /// Remembers that a blob was whole at `at`, unless it is known to be damaged: a reader may have begun before the damage.
    pub fn verified(&mut self, blob: &Blob, at: Timestamp) {
        if self.damaged.contains(&blob.hash) {
            return;
        }
        if self.recent.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.recent);
        }
        let size_bytes = blob.size_bytes;
        self.recent.insert(blob.hash, Verified { size_bytes, at });
    }

    /// Remembers that a blob is damaged no more; answers whether it was known to be.
    pub fn healed(&mut self, hash: &BlobHash) -> bool {
        self.damaged.remove(hash)
    }

    /// Remembers that a blob is damaged; answers whether that is new. Beyond [`MOST_DAMAGED`] nothing is remembered.
    pub fn damaged(&mut self, hash: BlobHash) -> bool {
        self.recent.remove(&hash);
        self.older.remove(&hash);
        self.damaged.len() < MOST_DAMAGED && self.damaged.insert(hash)
    }

    /// Forgets a blob that is gone.
    pub fn forget(&mut self, hash: &BlobHash) {
        self.recent.remove(hash);
        self.older.remove(hash);
        self.damaged.remove(hash);
    }

    /// Whether a blob is known to be damaged.
    #[must_use]
    pub fn is_damaged(&self, hash: &BlobHash) -> bool {
        self.damaged.contains(hash)
    }

    /// The size that a blob had when it was compared, if that is at most [`VERIFIED_FOR`] ago. A clock that was set back says
    /// nothing about how long ago it was.
    #[must_use]
    pub fn verified_size(&self, hash: &BlobHash, now: Timestamp) -> Option<u64> {
        let verified = self.recent.get(hash).or_else(|| self.older.get(hash))?;
        let age = now.duration_since(verified.at);
        let is_fresh = !age.is_negative() && age <= VERIFIED_FOR;
        is_fresh.then_some(verified.size_bytes)
    }

    /// The blobs that are known to be damaged, in the order of their hashes.
    #[must_use]
    pub fn list_damaged(&self) -> Vec<BlobHash> {
        self.damaged.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).expect("in range")
    }

    fn blob(number: usize) -> Blob {
        Blob {
            hash: BlobHash::of(&number.to_be_bytes()),
            size_bytes: 8,
        }
    }

    #[test]
    fn a_comparison_counts_for_a_day_and_not_before_it_was_made() {
        let mut integrity = BlobIntegrity::default();
        let blob = blob(1);
        assert_eq!(integrity.verified_size(&blob.hash, at(0)), None);
        integrity.verified(&blob, at(0));
        assert_eq!(integrity.verified_size(&blob.hash, at(24)), Some(8));
        let later = at(24) + SignedDuration::from_secs(1);
        assert_eq!(integrity.verified_size(&blob.hash, later), None);
        assert_eq!(integrity.verified_size(&blob.hash, at(-1)), None);
        integrity.forget(&blob.hash);
        assert_eq!(integrity.verified_size(&blob.hash, at(0)), None);
    }

    #[test]
    fn damage_outlasts_readers_that_began_before_it_and_ends_with_a_put() {
        let mut integrity = BlobIntegrity::default();
        let blob = blob(1);
        integrity.verified(&blob, at(0));
        assert!(integrity.damaged(blob.hash));
        assert!(!integrity.damaged(blob.hash), "it is known");
        integrity.verified(&blob, at(1));
        assert!(integrity.is_damaged(&blob.hash));
        assert_eq!(integrity.verified_size(&blob.hash, at(1)), None);
        assert_eq!(integrity.list_damaged(), [blob.hash]);
        assert!(integrity.healed(&blob.hash));
        assert!(!integrity.healed(&blob.hash));
        assert_eq!(integrity.list_damaged(), []);
        integrity.verified(&blob, at(2));
        assert_eq!(integrity.verified_size(&blob.hash, at(2)), Some(8));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let mut integrity = BlobIntegrity::default();
        for number in 0..5 * REMEMBERED / 2 {
            integrity.verified(&blob(number), at(0));
            assert!(integrity.recent.len() + integrity.older.len() <= 2 * REMEMBERED);
        }
        let remembered = |number| integrity.verified_size(&blob(number).hash, at(0));
        assert_eq!(remembered(5 * REMEMBERED / 2 - REMEMBERED), Some(8));
        assert_eq!(remembered(0), None);
        for number in 0..MOST_DAMAGED + 10 {
            let is_new = integrity.damaged(blob(number).hash);
            assert_eq!(is_new, number < MOST_DAMAGED);
        }
        assert_eq!(integrity.list_damaged().len(), MOST_DAMAGED);
    }
}

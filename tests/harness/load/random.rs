//! Numbers that look random and follow from several seeds, so that one lane and cycle of a campaign can be replayed.

use crate::random::split_mix;

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence that belongs to these numbers, such as a seed, a lane and a cycle.
    #[must_use]
    pub fn of(parts: &[u64]) -> Self {
        let mut random = Self { state: 0 };
        for part in parts {
            random.state ^= *part;
            random.state = random.next();
        }
        random
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "a sequence without an end is no iterator to collect from"
    )]
    pub fn next(&mut self) -> u64 {
        split_mix(&mut self.state)
    }

    /// The next number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of a remainder is far below what a campaign could notice.
        self.next() % end
    }

    /// One of these, or `None` of an empty list.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() {
            return None;
        }
        let index = self.below(items.len() as u64);
        items.get(usize::try_from(index).ok()?)
    }

    /// Bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_numbers_give_the_same_sequence_and_others_another() {
        let first = |parts: &[u64]| Random::of(parts).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        assert_ne!(first(&[1, 2]), first(&[2, 1]));
        assert_ne!(first(&[1, 2]), first(&[1, 3]));
    }

    #[test]
    fn picks_reach_everything_and_nothing_else() {
        let mut random = Random::of(&[7]);
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[usize::try_from(random.below(5)).expect("small")] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(random.pick::<u8>(&[]), None);
        assert_eq!(random.pick(&[3]), Some(&3));
    }

    #[test]
    fn bytes_have_the_asked_length() {
        let mut random = Random::of(&[7]);
        assert_eq!(random.bytes(13).len(), 13);
        assert_eq!(random.bytes(0), Vec::<u8>::new());
    }
}

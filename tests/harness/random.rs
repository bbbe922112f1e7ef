//! Numbers that look random and follow from a seed, so that a campaign can be made again.
//!
//! SplitMix64: a counter and a mixing function. Not for secrets.

/// A sequence of numbers; a clone goes on with the same ones.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The sequence that belongs to these numbers, such as a seed, a lane and a cycle.
    #[must_use]
    pub fn of_all(parts: &[u64]) -> Self {
        let mut random = Self::of(0);
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
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of a remainder is far below what a campaign could notice.
        self.next() % end
    }

    /// The next place in a list of `length` things, which is above 0.
    ///
    /// # Panics
    /// If it is 0.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a usize")
    }

    /// One of these, or `None` of an empty list.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.index(items.len())])
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
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
        let first = |parts: &[u64]| Random::of_all(parts).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        assert_ne!(first(&[1, 2]), first(&[2, 1]));
        assert_ne!(first(&[1, 2]), first(&[1, 3]));
    }

    #[test]
    fn picks_reach_everything_and_nothing_else() {
        let mut random = Random::of(7);
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
        let mut random = Random::of(7);
        assert_eq!(random.bytes(13).len(), 13);
        assert_eq!(random.bytes(0), Vec::<u8>::new());
    }
}

//! Numbers that look random and follow from a seed, so that a campaign can be made again.

/// A sequence of numbers; a clone goes on with the same ones.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// The next number of SplitMix64: a counter, mixed. Not for secrets.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "a sequence without an end is no iterator to collect from"
    )]
    pub fn next(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    /// The next number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// One of these.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

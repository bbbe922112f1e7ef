//! The numbers that numpy's older generator (`numpy.random.seed`, `RandomState`) draws for a seed, so that a graph shuffles and
//! cuts here as it does there.

use crate::{NodeContext, NodeError};

/// Numbers of its state: the Mersenne Twister MT19937.
const LENGTH: usize = 624;

/// A generator.
pub(crate) struct NumpyRandom {
    state: [u32; LENGTH],
    at: usize,
}

impl NumpyRandom {
    /// As `RandomState(seed % (2**32 - 1))`, which is how ComfyUI's nodes make a seed fit: one below 0 counts from the end.
    pub(crate) fn new(seed: i128) -> Self {
        let mut state = [seed.rem_euclid(i128::from(u32::MAX)) as u32; LENGTH];
        for at in 1..LENGTH {
            let before = state[at - 1];
            let mixed = before ^ (before >> 30);
            state[at] = mixed.wrapping_mul(1_812_433_253).wrapping_add(at as u32);
        }
        Self { state, at: LENGTH }
    }

    fn next(&mut self) -> u32 {
        if self.at == LENGTH {
            self.renew();
        }
        let mut number = self.state[self.at];
        self.at += 1;
        number ^= number >> 11;
        number ^= (number << 7) & 0x9d2c_5680;
        number ^= (number << 15) & 0xefc6_0000;
        number ^ (number >> 18)
    }

    fn renew(&mut self) {
        const DISTANCE: usize = 397;
        for at in 0..LENGTH {
            let high = self.state[at] & 0x8000_0000;
            let joined = high | (self.state[(at + 1) % LENGTH] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[at] = self.state[(at + DISTANCE) % LENGTH] ^ (joined >> 1) ^ odd;
        }
        self.at = 0;
    }

    /// `randint(0, most + 1)`: numbers of as many bits are drawn until one is not beyond `most`.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        if most == 0 {
            return 0;
        }
        let mask = u32::MAX >> most.leading_zeros();
        loop {
            let number = self.next() & mask;
            if number <= most {
                return number;
            }
        }
    }

    /// `permutation(count)`.
    ///
    /// # Errors
    /// If a job may not hold so many numbers, or the run is to stop.
    pub(crate) fn permutation(
        &mut self,
        count: u32,
        context: &NodeContext,
    ) -> Result<Vec<usize>, NodeError> {
        context.reserve(u64::from(count) * size_of::<usize>() as u64)?;
        let mut numbers: Vec<usize> = (0..count as usize).collect();
        for last in (1..count).rev() {
            if last.is_multiple_of(4096) {
                context.check()?;
            }
            numbers.swap(last as usize, self.up_to(last) as usize);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.random.seed(seed)`, then `permutation(10)`, `randint(0, 1000)` and `randint(0, 2**31)`, by numpy 2.4.
    const RECORDED: [(i128, [usize; 10], u32, u32); 5] = [
        (0, [2, 8, 4, 9, 1, 6, 7, 3, 0, 5], 804, 1277901399),
        (42, [8, 1, 5, 0, 7, 2, 9, 4, 3, 6], 466, 429389014),
        (
            u64::MAX as i128,
            [2, 8, 4, 9, 1, 6, 7, 3, 0, 5],
            804,
            1277901399,
        ),
        (-7, [5, 7, 9, 1, 3, 4, 6, 2, 8, 0], 585, 1878830742),
        (
            -i64::MAX as i128,
            [7, 0, 2, 6, 9, 8, 5, 3, 1, 4],
            318,
            1307482841,
        ),
    ];

    #[test]
    fn the_numbers_are_numpy_s() {
        let context = NodeContext::detached();
        for (seed, permutation, below, large) in RECORDED {
            let mut random = NumpyRandom::new(seed);
            let found = random.permutation(10, &context).expect("there is room");
            assert_eq!(found, permutation, "seed {seed}");
            assert_eq!(random.up_to(999), below, "seed {seed}");
            assert_eq!(random.up_to(u32::MAX >> 1), large, "seed {seed}");
        }
    }

    #[test]
    fn many_numbers_are_drawn_beyond_the_first_state() {
        let mut random = NumpyRandom::new(7);
        let sum: u64 = (0..5000)
            .map(|_| u64::from(random.up_to(u32::MAX >> 1)))
            .sum();
        assert_eq!(sum, 5_356_166_557_338);
        assert_eq!(random.up_to(0), 0);
    }
}

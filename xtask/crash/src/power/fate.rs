//! What a power cut does to what was not synced: how much of it survives, in which order and in which pieces.
//!
//! One [`Fate`] decides one cut. Cuts differ in how much they spare, since a disk that loses everything finds other faults than
//! one that loses a single sector.

use it::random::Random;

/// Bytes that a disk writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

/// The decisions of one cut.
#[derive(Debug)]
pub(super) struct Fate {
    random: Random,
    /// How many of a hundred unsynced things survive.
    spared: u64,
    /// How many of a hundred pages that change are torn between two sectors.
    torn: u64,
    /// Whether directories keep the order of their changes, as a file system with a journal does.
    is_ordered: bool,
    /// Whether a file that grew without its bytes holds rubbish there instead of zeros.
    has_rubbish: bool,
}

impl Fate {
    /// Decides what kind of cut it is.
    pub(super) fn of(mut random: Random) -> Self {
        let spared = *random.pick(&[0, 10, 50, 90, 100]).unwrap_or(&0);
        let torn = *random.pick(&[0, 0, 30, 100]).unwrap_or(&0);
        let is_ordered = random.below(2) == 0;
        let has_rubbish = random.below(4) == 0;
        Self {
            random,
            spared,
            torn,
            is_ordered,
            has_rubbish,
        }
    }

    /// The cut that loses everything that was not synced.
    #[cfg(test)]
    pub(super) fn sparing_nothing() -> Self {
        Self {
            random: Random::of_all(&[]),
            spared: 0,
            torn: 0,
            is_ordered: false,
            has_rubbish: false,
        }
    }

    /// In a few words, for the log of a disk.
    pub(super) fn describe(&self) -> String {
        let Self {
            spared,
            torn,
            is_ordered,
            has_rubbish,
            random: _,
        } = self;
        format!("spared={spared}% torn={torn}% ordered={is_ordered} rubbish={has_rubbish}")
    }

    /// Whether one unsynced thing survives.
    pub(super) fn spares(&mut self) -> bool {
        self.random.below(100) < self.spared
    }

    /// Whether a page that changed is made of sectors with fates of their own.
    pub(super) fn tears(&mut self) -> bool {
        self.random.below(100) < self.torn
    }

    /// Which of the states of a thing is found: 0 is the durable one, `newest` the last.
    pub(super) fn state(&mut self, newest: usize) -> usize {
        if newest == 0 || !self.spares() {
            return 0;
        }
        // The newest is the likeliest: a page goes to the disk as it is at that moment, and most go late.
        if self.random.below(2) == 0 {
            return newest;
        }
        1 + usize::try_from(self.random.below(newest as u64)).unwrap_or(0)
    }

    /// How many of so many changes survive, where those that survive are the first ones; `None` if any of them may.
    pub(super) fn ordered(&mut self, changes: usize) -> Option<usize> {
        if !self.is_ordered {
            return None;
        }
        let whole = changes as u64;
        let survive = match self.spared {
            0 => 0,
            100 => whole,
            _ => self.random.below(whole + 1),
        };
        Some(usize::try_from(survive).unwrap_or(changes))
    }

    /// What lies in a sector that a file grew over and that was never written to the disk.
    pub(super) fn unwritten(&mut self) -> [u8; SECTOR_BYTES] {
        let mut sector = [0; SECTOR_BYTES];
        if self.has_rubbish {
            sector.copy_from_slice(&self.random.bytes(SECTOR_BYTES));
        }
        sector
    }
}

//! Which splits of a program were tried at which positions of a text: one bit each, cleared at the price of what was set.

/// Bits set inside bodies that are noted one by one; beyond it a body that matches clears all bits. 4 MiB.
const MAX_NOTED: usize = 1 << 20;

/// The bits.
pub(super) struct Visited {
    bits: Vec<u64>,
    /// Positions of a row.
    columns: usize,
    /// Words of `bits` that are not 0.
    touched: Vec<u32>,
    /// Bits set by the bodies under way.
    noted: Vec<u32>,
    /// How many bodies are under way.
    depth: usize,
    /// Whether not all bits of the bodies under way are noted.
    is_incomplete: bool,
    is_paused: bool,
}

impl Visited {
    /// No rows: nothing is ever counted as tried.
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            bits: vec![0; (rows * columns).div_ceil(64)],
            columns,
            touched: Vec::new(),
            noted: Vec::new(),
            depth: 0,
            is_incomplete: false,
            is_paused: false,
        }
    }

    /// While it is paused, nothing counts as tried.
    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Sets a bit; answers whether it was not set before.
    pub(super) fn insert(&mut self, row: usize, column: usize) -> bool {
        if self.bits.is_empty() || self.is_paused {
            return true;
        }
        let index = row * self.columns + column;
        let word = &mut self.bits[index / 64];
        let bit = 1 << (index % 64);
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.touched.push((index / 64) as u32);
        }
        *word |= bit;
        if self.depth > 0 {
            match self.noted.len() {
                MAX_NOTED => self.is_incomplete = true,
                _ => self.noted.push(index as u32),
            }
        }
        true
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        for word in self.touched.drain(..) {
            self.bits[word as usize] = 0;
        }
    }

    /// A body begins: a part of the program that a match of the whole goes through more than once.
    pub(super) fn begin_body(&mut self) -> usize {
        self.depth += 1;
        self.noted.len()
    }

    /// The body that began at `mark` ended. Where it matched, it does so again: what it tried is forgotten. Where it did not,
    /// nothing in it ever will.
    pub(super) fn end_body(&mut self, mark: usize, has_matched: bool) {
        self.depth -= 1;
        if has_matched && self.is_incomplete {
            self.clear();
        }
        let noted = self.noted.drain(mark..);
        if has_matched {
            for index in noted {
                let word = &mut self.bits[index as usize / 64];
                *word &= !(1 << (index % 64));
            }
        }
        if self.depth == 0 {
            self.is_incomplete = false;
        }
    }
}

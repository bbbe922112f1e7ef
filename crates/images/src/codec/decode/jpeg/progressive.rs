//! The four kinds of progressive scans: first values and refinements, of the direct current and of a band.

use super::frame::BLOCK;
use super::huffman::{BitReader, HuffmanTable};
use super::reader::ZIGZAG;

/// One scan's place in the progression.
pub(super) struct Pass {
    first: usize,
    last: usize,
    refines: bool,
    low: u32,
    /// Blocks still to come whose band has ended.
    ended: u32,
}

impl Pass {
    pub(super) fn new(first: usize, last: usize, high: u32, low: u32) -> Self {
        Self {
            first,
            last,
            refines: high != 0,
            low,
            ended: 0,
        }
    }

    pub(super) fn restart(&mut self) {
        self.ended = 0;
    }

    /// Adds what the scan brings to one block.
    pub(super) fn block(
        &mut self,
        block: &mut [i16; BLOCK],
        bits: &mut BitReader<'_>,
        direct: Option<&HuffmanTable>,
        alternating: Option<&HuffmanTable>,
        predicted: &mut i32,
    ) {
        match (self.first, self.refines, direct, alternating) {
            (0, false, Some(direct), _) => {
                let size = u32::from(bits.symbol(direct));
                *predicted = predicted.wrapping_add(bits.signed(size));
                block[0] = (*predicted << self.low) as i16;
            }
            (0, true, ..) => block[0] |= (bits.bits(1) << self.low) as i16,
            (_, false, _, Some(alternating)) => self.band(block, bits, alternating),
            (_, true, _, Some(alternating)) => self.refine_band(block, bits, alternating),
            _ => {}
        }
    }

    fn band(&mut self, block: &mut [i16; BLOCK], bits: &mut BitReader<'_>, table: &HuffmanTable) {
        if self.ended > 0 {
            self.ended -= 1;
            return;
        }
        let mut at = self.first;
        while at <= self.last {
            let symbol = bits.symbol(table);
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size != 0 {
                at += run;
                block[usize::from(ZIGZAG[at])] = (bits.signed(size) << self.low) as i16;
                at += 1;
            } else if run == 15 {
                at += 16;
            } else {
                self.ended = (1 << run) + bits.bits(run as u32) as u32 - 1;
                return;
            }
        }
    }

    fn refine_band(
        &mut self,
        block: &mut [i16; BLOCK],
        bits: &mut BitReader<'_>,
        table: &HuffmanTable,
    ) {
        let step = 1_i16 << self.low;
        let mut at = self.first;
        while self.ended == 0 && at <= self.last {
            let symbol = bits.symbol(table);
            let (mut run, size) = (symbol >> 4, symbol & 15);
            let mut value = 0;
            if size != 0 {
                value = if bits.bits(1) != 0 { step } else { -step };
            } else if run != 15 {
                self.ended = (1 << run) + bits.bits(u32::from(run)) as u32;
                break;
            }
            while at <= self.last {
                let coefficient = &mut block[usize::from(ZIGZAG[at])];
                if *coefficient != 0 {
                    refine(coefficient, step, bits);
                } else if run == 0 {
                    *coefficient = value;
                    at += 1;
                    break;
                } else {
                    run -= 1;
                }
                at += 1;
            }
        }
        if self.ended > 0 {
            for &place in &ZIGZAG[at.min(self.last + 1)..=self.last] {
                let coefficient = &mut block[usize::from(place)];
                if *coefficient != 0 {
                    refine(coefficient, step, bits);
                }
            }
            self.ended -= 1;
        }
    }
}

/// Takes a correction bit for a coefficient that is not zero.
fn refine(coefficient: &mut i16, step: i16, bits: &mut BitReader<'_>) {
    if bits.bits(1) != 0 && *coefficient & step == 0 {
        *coefficient = if *coefficient >= 0 {
            coefficient.wrapping_add(step)
        } else {
            coefficient.wrapping_sub(step)
        };
    }
}

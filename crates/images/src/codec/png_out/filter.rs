//! The filters of PNG rows, and which of them to take.
//!
//! Every row's filter works on samples that are all known, so the loops have no dependencies and vectorise. The choice is made
//! on one row and kept for a few, because neighbours look alike and trying costs as much as filtering.

use crate::vector::widest;

/// Rows that share a choice.
const GROUP: usize = 8;

/// Sub, Up, Average, Paeth: their numbers in the file.
const FILTERS: [u8; 4] = [1, 2, 3, 4];

/// Filters rows as they come.
pub(super) struct RowFilter {
    /// Bytes a pixel.
    pixel: usize,
    rows: usize,
    chosen: u8,
    row: Vec<u8>,
    above: Vec<u8>,
    filtered: Vec<u8>,
}

impl RowFilter {
    /// For rows of `stride` bytes, `pixel` of them a pixel.
    pub(super) fn new(stride: usize, pixel: usize) -> Self {
        Self {
            pixel,
            rows: 0,
            chosen: 0,
            row: vec![0; stride],
            above: vec![0; stride],
            filtered: vec![0; stride + 1],
        }
    }

    /// The next row, which `fill` puts where it is told, filtered, after the number of its filter.
    pub(super) fn next(&mut self, fill: impl FnOnce(&mut [u8])) -> &[u8] {
        std::mem::swap(&mut self.row, &mut self.above);
        fill(&mut self.row);
        if self.rows.is_multiple_of(GROUP) {
            let costs = FILTERS.map(|filter| (self.cost(filter), filter));
            self.chosen = costs.into_iter().min().map_or(0, |(_, filter)| filter);
        }
        self.rows += 1;
        self.filtered[0] = self.chosen;
        apply(
            self.chosen,
            &self.row,
            &self.above,
            self.pixel,
            &mut self.filtered[1..],
        );
        &self.filtered
    }

    /// How far from zero a filter's results are.
    fn cost(&mut self, filter: u8) -> u64 {
        let filtered = &mut self.filtered[1..];
        apply(filter, &self.row, &self.above, self.pixel, filtered);
        widest(&*filtered, distance, distance)
    }
}

#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "a sum of iterators is not inlined there"
)]
fn distance(filtered: &[u8]) -> u64 {
    let mut sum = 0;
    for at in 0..filtered.len() {
        sum += u64::from((filtered[at] as i8).unsigned_abs());
    }
    sum
}

fn apply(filter: u8, row: &[u8], above: &[u8], pixel: usize, out: &mut [u8]) {
    let pixel = pixel.min(row.len());
    // The first pixel has nothing at its left; what is above it stands for itself, halved for the average.
    for at in 0..pixel {
        out[at] = row[at].wrapping_sub(match filter {
            1 => 0,
            3 => above[at] / 2,
            _ => above[at],
        });
    }
    let (left, corner) = (&row[..row.len() - pixel], &above[..row.len() - pixel]);
    let (row, above, out) = (&row[pixel..], &above[pixel..], &mut out[pixel..]);
    widest(
        out,
        #[inline(always)]
        |out| predict(filter, row, [left, above, corner], out),
        #[inline(always)]
        |out| predict(filter, row, [left, above, corner], out),
    );
}

/// What is left of each byte of `row` without what its neighbours at the left, above and at the corner let expect.
#[inline(always)]
fn predict(filter: u8, row: &[u8], neighbours: [&[u8]; 3], out: &mut [u8]) {
    let length = out.len();
    let (row, [left, above, corner]) = (&row[..length], neighbours.map(|side| &side[..length]));
    match filter {
        1 => {
            for at in 0..length {
                out[at] = row[at].wrapping_sub(left[at]);
            }
        }
        2 => {
            for at in 0..length {
                out[at] = row[at].wrapping_sub(above[at]);
            }
        }
        3 => {
            for at in 0..length {
                out[at] = row[at].wrapping_sub(average(left[at], above[at]));
            }
        }
        _ => {
            for at in 0..length {
                out[at] = row[at].wrapping_sub(paeth(left[at], above[at], corner[at]));
            }
        }
    }
}

#[inline(always)]
fn average(left: u8, above: u8) -> u8 {
    // Half the sum without leaving a byte.
    (left & above) + ((left ^ above) >> 1)
}

/// Whichever of left, above and corner is nearest to `left + above - corner`.
#[inline(always)]
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(above), i16::from(corner));
    let (to_left, to_above, to_corner) = ((b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs());
    let nearer = if to_above <= to_corner { b } else { c };
    let nearest = if to_left <= to_above && to_left <= to_corner {
        a
    } else {
        nearer
    };
    nearest as u8
}

//! The inverse transform: libjpeg's accurate integer one, to the bit.
//!
//! Loeffler, Ligtenberg and Moschytz in 13-bit fixed point, columns first, then rows. Nothing is rounded within a pass, so the
//! products may be gathered per output: every factor and every input then fits 16 bits, which is what vector units multiply
//! fast, and no sum leaves 32 bits whatever a hostile file brings. Like libjpeg's vector code, values wrap to 16 bits when they
//! are dequantized and saturate between the passes.

use super::frame::{BLOCK, Frame};

const BITS: u32 = 13;
/// Bits kept between the two passes.
const EXTRA: u32 = 2;

/// Eight rows of eight values.
type Block = [[i16; 8]; 8];

/// How the odd inputs (seventh, fifth, third, first) make the four sums that are added above and taken away below.
const ODD: [[i32; 4]; 4] = [
    [2260, 6437, 9633, 11_363],
    [-6436, -11_362, -2259, 9633],
    [9633, 2261, -11_362, 6437],
    [-11_363, 9633, -6436, 2260],
];

/// Transforms every block of a progressive picture.
pub(super) fn transform_all(frame: &mut Frame) {
    for component in &mut frame.components {
        let Some(quantization) = &component.quantization else {
            continue;
        };
        let stride = component.blocks_wide * 8;
        for (index, block) in component.coefficients.iter().enumerate() {
            let (x, y) = (index % component.blocks_wide, index / component.blocks_wide);
            let flat = block[1..].iter().all(|&coefficient| coefficient == 0);
            let out = &mut component.plane[y * 8 * stride + x * 8..];
            transform(block, quantization, flat, out, stride);
        }
        component.coefficients = Vec::new();
    }
}

/// Transforms one block into eight rows of `out`; `flat` says that only its direct current is not zero.
pub(super) fn transform(
    block: &[i16; BLOCK],
    quantization: &[u16; BLOCK],
    flat: bool,
    out: &mut [u8],
    stride: usize,
) {
    let value = |at: usize| block[at].wrapping_mul(quantization[at] as i16);
    if flat {
        let level = sample(((i32::from(value(0)) + 4) >> 3) as i16);
        let rows = out.chunks_mut(stride).take(8);
        rows.for_each(|row| row[..8].fill(level));
        return;
    }
    let mut columns = [[0; 8]; 8];
    for (at, column) in columns.as_flattened_mut().iter_mut().enumerate() {
        *column = value(at);
    }
    let rows = pass::<{ BITS - EXTRA }>(&columns);
    let samples = transposed(&pass::<{ BITS + EXTRA + 3 }>(&transposed(&rows)));
    for (row, samples) in out.chunks_mut(stride).zip(&samples) {
        for (out, &value) in row.iter_mut().zip(samples) {
            *out = sample(value);
        }
    }
}

/// One dimension: each column of eight inputs to a column of eight outputs.
fn pass<const SHIFT: u32>(input: &Block) -> Block {
    let mut output = [[0; 8]; 8];
    for column in 0..8 {
        let at = |row: usize| i32::from(input[row][column]);
        let (sum, difference) = ((at(0) + at(4)) << BITS, (at(0) - at(4)) << BITS);
        let (inner, outer) = (at(2) * 4433 - at(6) * 10_704, at(2) * 10_703 + at(6) * 4433);
        let even = [
            sum + outer,
            difference + inner,
            difference - inner,
            sum - outer,
        ];
        for row in 0..4 {
            let [seventh, fifth, third, first] = ODD[row];
            let odd = at(7) * seventh + at(5) * fifth + at(3) * third + at(1) * first;
            let half = 1 << (SHIFT - 1);
            output[row][column] = saturated((even[row] + odd + half) >> SHIFT);
            output[7 - row][column] = saturated((even[row] - odd + half) >> SHIFT);
        }
    }
    output
}

fn saturated(value: i32) -> i16 {
    value.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

fn transposed(block: &Block) -> Block {
    let mut transposed = [[0; 8]; 8];
    for (y, row) in transposed.iter_mut().enumerate() {
        for (x, value) in row.iter_mut().enumerate() {
            *value = block[x][y];
        }
    }
    transposed
}

fn sample(value: i16) -> u8 {
    value.saturating_add(128).clamp(0, 255) as u8
}

//! The inverse transform: libjpeg's accurate integer one, to the bit.
//!
//! Loeffler, Ligtenberg and Moschytz in 13-bit fixed point; columns first, then rows. Arithmetic wraps, because a hostile file
//! may bring any coefficient.

use std::num::Wrapping;

use super::frame::{BLOCK, Frame};

type Fixed = Wrapping<i32>;

const BITS: usize = 13;
/// Bits kept between the two passes.
const EXTRA: usize = 2;

const fn fixed(value: i32) -> Fixed {
    Wrapping(value)
}

const FIX_0_298631336: Fixed = fixed(2446);
const FIX_0_390180644: Fixed = fixed(3196);
const FIX_0_541196100: Fixed = fixed(4433);
const FIX_0_765366865: Fixed = fixed(6270);
const FIX_0_899976223: Fixed = fixed(7373);
const FIX_1_175875602: Fixed = fixed(9633);
const FIX_1_501321110: Fixed = fixed(12_299);
const FIX_1_847759065: Fixed = fixed(15_137);
const FIX_1_961570560: Fixed = fixed(16_069);
const FIX_2_053119869: Fixed = fixed(16_819);
const FIX_2_562915447: Fixed = fixed(20_995);
const FIX_3_072711026: Fixed = fixed(25_172);

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
            transform(
                block,
                quantization,
                flat,
                &mut component.plane[y * 8 * stride + x * 8..],
                stride,
            );
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
    if flat {
        let direct = fixed(i32::from(block[0])) * fixed(i32::from(quantization[0]));
        let level = sample((direct + fixed(4)) >> 3);
        out.chunks_mut(stride)
            .take(8)
            .for_each(|row| row[..8].fill(level));
        return;
    }
    let mut work = [[fixed(0); 8]; 8];
    for (row, work) in work.iter_mut().enumerate() {
        for (column, value) in work.iter_mut().enumerate() {
            let at = row * 8 + column;
            *value = fixed(i32::from(block[at])) * fixed(i32::from(quantization[at]));
        }
    }
    pass::<{ BITS - EXTRA }>(&mut work);
    transpose(&mut work);
    pass::<{ BITS + EXTRA + 3 }>(&mut work);
    transpose(&mut work);
    for (row, values) in out.chunks_mut(stride).zip(&work) {
        for (out, &value) in row.iter_mut().zip(values) {
            *out = sample(value);
        }
    }
}

/// One dimension, over all eight columns at once.
fn pass<const SHIFT: usize>(rows: &mut [[Fixed; 8]; 8]) {
    let half = fixed(1 << (SHIFT - 1));
    let input = *rows;
    for column in 0..8 {
        let at = |row: usize| input[row][column];

        let z1 = (at(2) + at(6)) * FIX_0_541196100;
        let tmp2 = z1 - at(6) * FIX_1_847759065;
        let tmp3 = z1 + at(2) * FIX_0_765366865;
        let tmp0 = (at(0) + at(4)) << BITS;
        let tmp1 = (at(0) - at(4)) << BITS;
        let even = [tmp0 + tmp3, tmp1 + tmp2, tmp1 - tmp2, tmp0 - tmp3];

        let (t0, t1, t2, t3) = (at(7), at(5), at(3), at(1));
        let z5 = (t0 + t2 + t1 + t3) * FIX_1_175875602;
        let z1 = (t0 + t3) * FIX_0_899976223;
        let z2 = (t1 + t2) * FIX_2_562915447;
        let z3 = z5 - (t0 + t2) * FIX_1_961570560;
        let z4 = z5 - (t1 + t3) * FIX_0_390180644;
        let odd = [
            t3 * FIX_1_501321110 - z1 + z4,
            t2 * FIX_3_072711026 - z2 + z3,
            t1 * FIX_2_053119869 - z2 + z4,
            t0 * FIX_0_298631336 - z1 + z3,
        ];

        for row in 0..4 {
            rows[row][column] = (even[row] + odd[row] + half) >> SHIFT;
            rows[7 - row][column] = (even[row] - odd[row] + half) >> SHIFT;
        }
    }
}

fn transpose(rows: &mut [[Fixed; 8]; 8]) {
    let input = *rows;
    for (y, row) in rows.iter_mut().enumerate() {
        for (x, value) in row.iter_mut().enumerate() {
            *value = input[x][y];
        }
    }
}

fn sample(value: Fixed) -> u8 {
    (value + fixed(128)).0.clamp(0, 255) as u8
}

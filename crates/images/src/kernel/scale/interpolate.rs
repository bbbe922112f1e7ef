//! Bilinear and bicubic: along the rows first, then across them.
//!
//! A resampled source row serves several rows of the result, so a band keeps the last few. Small bilinear results and those of
//! more than three channels are recorded with another order of the same sum, see [`direct`].

use super::position::{position, position_in_steps};
use super::taps::{self, Taps};
use super::view::View;
use crate::parallel::fill_bands;
use crate::pixels::{Frame, unwritten};
use crate::vector::{multiply_add, widest};

/// Results whose sides add up to at most this are made by [`direct`].
const SMALL: usize = 128;

pub(super) fn bilinear(view: View<'_>, width: usize, height: usize) -> Frame {
    let is_direct = width + height <= SMALL || (view.channels() > 3 && view.is_whole());
    let position = if is_direct {
        position
    } else {
        position_in_steps
    };
    let columns = taps::linear(view.width(), width, position);
    let rows = taps::linear(view.height(), height, position);
    if is_direct {
        direct(view, &columns, &rows)
    } else {
        separable(view, &columns, &rows)
    }
}

pub(super) fn bicubic(view: View<'_>, width: usize, height: usize) -> Frame {
    separable(
        view,
        &taps::cubic(view.width(), width),
        &taps::cubic(view.height(), height),
    )
}

fn separable<const N: usize>(view: View<'_>, columns: &[Taps<N>], rows: &[Taps<N>]) -> Frame {
    let (width, height, channels) = (columns.len(), rows.len(), view.channels());
    let stride = width * channels;
    let mut out = unwritten(height * stride);
    fill_bands(&mut out, stride, |first, band| {
        // Rows of one window are neighbours, so each has a place of its own at its number modulo N.
        let mut kept: [(usize, Vec<f32>); N] =
            std::array::from_fn(|_| (usize::MAX, vec![0.0; stride]));
        for (row, taps) in band.chunks_exact_mut(stride).zip(&rows[first..]) {
            for y in taps.index {
                let (held, samples) = &mut kept[y % N];
                if *held != y {
                    let source = view.row(y);
                    widest(
                        samples.as_mut_slice(),
                        #[inline(always)]
                        |samples| along::<true, N>(source, columns, channels, samples),
                        #[inline(always)]
                        |samples| along::<false, N>(source, columns, channels, samples),
                    );
                    *held = y;
                }
            }
            let held = taps.index.map(|y| kept[y % N].1.as_slice());
            widest(
                row,
                #[inline(always)]
                |row| across::<true, N>(held, taps.weight, row),
                #[inline(always)]
                |row| across::<false, N>(held, taps.weight, row),
            );
        }
    });
    Frame::new(height, width, channels, out)
}

#[inline(always)]
fn along<const FUSED: bool, const N: usize>(
    source: &[f32],
    columns: &[Taps<N>],
    channels: usize,
    out: &mut [f32],
) {
    match channels {
        1 => along_pixels::<FUSED, N, 1>(source, columns, out),
        3 => along_pixels::<FUSED, N, 3>(source, columns, out),
        4 => along_pixels::<FUSED, N, 4>(source, columns, out),
        _ => {
            for (pixel, taps) in out.chunks_exact_mut(channels).zip(columns) {
                for (c, sample) in pixel.iter_mut().enumerate() {
                    *sample = weighted::<FUSED, N>(
                        taps.index.map(|x| source[x * channels + c]),
                        taps.weight,
                    );
                }
            }
        }
    }
}

/// Samples of a vector, of which a pixel takes the first.
const LANES: usize = 4;

#[inline(always)]
fn along_pixels<const FUSED: bool, const N: usize, const C: usize>(
    source: &[f32],
    columns: &[Taps<N>],
    out: &mut [f32],
) {
    // Those whose vectors lie inside. Nothing else is in their loop, so that a sum never leaves its register.
    let mut whole = columns.len().saturating_sub(LANES.div_ceil(C));
    while whole > 0 && columns[whole - 1].index[N - 1] * C + LANES > source.len() {
        whole -= 1;
    }
    for x in 0..whole {
        let Taps { index, weight } = &columns[x];
        let first = order::<N>(0);
        let Some(from) = source[index[first] * C..].first_chunk::<LANES>() else {
            continue;
        };
        let mut sum = [0.0; LANES];
        for lane in 0..LANES {
            sum[lane] = from[lane] * weight[first];
        }
        for tap in 1..N {
            let tap = order::<N>(tap);
            let Some(from) = source[index[tap] * C..].first_chunk::<LANES>() else {
                continue;
            };
            for lane in 0..LANES {
                sum[lane] = multiply_add::<FUSED>(from[lane], weight[tap], sum[lane]);
            }
        }
        // What is too much belongs to the next pixel, which comes later.
        if let Some(pixel) = out[x * C..].first_chunk_mut::<LANES>() {
            *pixel = sum;
        }
    }
    for x in whole..columns.len() {
        let Taps { index, weight } = &columns[x];
        for c in 0..C {
            out[x * C + c] = weighted::<FUSED, N>(index.map(|x| source[x * C + c]), *weight);
        }
    }
}

/// Samples of a row whose sums stay in registers until all rows were added.
const BLOCK: usize = 32;

#[inline(always)]
fn across<const FUSED: bool, const N: usize>(rows: [&[f32]; N], weight: [f32; N], out: &mut [f32]) {
    let mut start = 0;
    while let Some(block) = out[start..].first_chunk_mut::<BLOCK>() {
        let mut sums = [0.0; BLOCK];
        for tap in 0..N {
            let tap = order::<N>(tap);
            let Some(from) = rows[tap][start..].first_chunk::<BLOCK>() else {
                continue;
            };
            if tap == order::<N>(0) {
                for at in 0..BLOCK {
                    sums[at] = from[at] * weight[tap];
                }
            } else {
                for at in 0..BLOCK {
                    sums[at] = multiply_add::<FUSED>(from[at], weight[tap], sums[at]);
                }
            }
        }
        *block = sums;
        start += BLOCK;
    }
    for at in start..out.len() {
        out[at] = weighted::<FUSED, N>(rows.map(|row| row[at]), weight);
    }
}

#[inline(always)]
fn order<const N: usize>(tap: usize) -> usize {
    if N == 2 { 1 - tap } else { tap }
}

/// The weighted sum, in the recorded order: of two products the second is rounded first, of four the first.
#[inline(always)]
fn weighted<const FUSED: bool, const N: usize>(sample: [f32; N], weight: [f32; N]) -> f32 {
    let first = order::<N>(0);
    let mut sum = sample[first] * weight[first];
    for tap in 1..N {
        let tap = order::<N>(tap);
        sum = multiply_add::<FUSED>(sample[tap], weight[tap], sum);
    }
    sum
}

/// Bilinear as one sum over four pixels with four weights.
fn direct(view: View<'_>, columns: &[Taps<2>], rows: &[Taps<2>]) -> Frame {
    let (width, height, channels) = (columns.len(), rows.len(), view.channels());
    let mut out = unwritten(width * height * channels);
    fill_bands(&mut out, width * channels, |first, band| {
        for (row, taps) in band.chunks_exact_mut(width * channels).zip(&rows[first..]) {
            let between = taps.index.map(|y| view.row(y));
            widest(
                row,
                #[inline(always)]
                |row| direct_row::<true>(between, taps.weight, columns, channels, row),
                #[inline(always)]
                |row| direct_row::<false>(between, taps.weight, columns, channels, row),
            );
        }
    });
    Frame::new(height, width, channels, out)
}

#[inline(always)]
fn direct_row<const FUSED: bool>(
    [upper, lower]: [&[f32]; 2],
    high: [f32; 2],
    columns: &[Taps<2>],
    channels: usize,
    row: &mut [f32],
) {
    for (pixel, column) in row.chunks_exact_mut(channels).zip(columns) {
        let [[a, b], [c, d]] = high.map(|high| column.weight.map(|wide| high * wide));
        let [left, right] = column.index.map(|x| x * channels..(x + 1) * channels);
        let above = upper[left.clone()].iter().zip(&upper[right.clone()]);
        let below = lower[left].iter().zip(&lower[right]);
        for ((sample, (p, q)), (r, s)) in pixel.iter_mut().zip(above).zip(below) {
            let sum = multiply_add::<FUSED>(*p, a, q * b);
            *sample = multiply_add::<FUSED>(*s, d, multiply_add::<FUSED>(*r, c, sum));
        }
    }
}

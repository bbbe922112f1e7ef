//! Bilinear and bicubic: along the rows first, then across them.
//!
//! A resampled source row serves several rows of the result, so a band keeps the last few. Small bilinear results and those of
//! more than three channels are recorded with another order of the same sum, see [`direct`].

use super::fused::{fused, position, position_in_steps};
use super::taps::{self, Taps};
use super::view::View;
use crate::kernel::rows::fill_bands;
use crate::value::Frame;

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
    let mut out = vec![0.0; height * stride];
    fill_bands(&mut out, stride, |first, band| {
        // Rows of one window are neighbours, so each has a place of its own at its number modulo N.
        let mut kept: [(usize, Vec<f32>); N] =
            std::array::from_fn(|_| (usize::MAX, vec![0.0; stride]));
        for (row, taps) in band.chunks_exact_mut(stride).zip(&rows[first..]) {
            for y in taps.index {
                let (held, samples) = &mut kept[y % N];
                if *held != y {
                    along(view.row(y), columns, channels, samples);
                    *held = y;
                }
            }
            across(
                taps.index.map(|y| kept[y % N].1.as_slice()),
                taps.weight,
                row,
            );
        }
    });
    Frame::new(height, width, channels, out)
}

fn along<const N: usize>(source: &[f32], columns: &[Taps<N>], channels: usize, out: &mut [f32]) {
    match channels {
        1 => along_pixels::<N, 1>(source, columns, out),
        3 => along_pixels::<N, 3>(source, columns, out),
        4 => along_pixels::<N, 4>(source, columns, out),
        _ => {
            for (pixel, taps) in out.chunks_exact_mut(channels).zip(columns) {
                for (c, sample) in pixel.iter_mut().enumerate() {
                    *sample = weighted(taps.index.map(|x| source[x * channels + c]), taps.weight);
                }
            }
        }
    }
}

fn along_pixels<const N: usize, const C: usize>(
    source: &[f32],
    columns: &[Taps<N>],
    out: &mut [f32],
) {
    let (source, _) = source.as_chunks::<C>();
    let (out, _) = out.as_chunks_mut::<C>();
    for (pixel, taps) in out.iter_mut().zip(columns) {
        let first = order::<N>(0);
        let from = &source[taps.index[first]];
        let mut sum = [0.0; C];
        for c in 0..C {
            sum[c] = from[c] * taps.weight[first];
        }
        for tap in 1..N {
            let tap = order::<N>(tap);
            let from = &source[taps.index[tap]];
            for c in 0..C {
                sum[c] = fused(from[c], taps.weight[tap], sum[c]);
            }
        }
        *pixel = sum;
    }
}

fn across<const N: usize>(rows: [&[f32]; N], weight: [f32; N], out: &mut [f32]) {
    let first = order::<N>(0);
    out.iter_mut()
        .zip(rows[first])
        .for_each(|(sum, &sample)| *sum = sample * weight[first]);
    for tap in 1..N {
        let tap = order::<N>(tap);
        let weight = weight[tap];
        out.iter_mut()
            .zip(rows[tap])
            .for_each(|(sum, &sample)| *sum = fused(sample, weight, *sum));
    }
}

#[inline(always)]
fn order<const N: usize>(tap: usize) -> usize {
    if N == 2 { 1 - tap } else { tap }
}

/// The weighted sum, in the recorded order: of two products the second is rounded first, of four the first.
#[inline(always)]
fn weighted<const N: usize>(sample: [f32; N], weight: [f32; N]) -> f32 {
    let first = order::<N>(0);
    let mut sum = sample[first] * weight[first];
    for tap in 1..N {
        let tap = order::<N>(tap);
        sum = fused(sample[tap], weight[tap], sum);
    }
    sum
}

/// Bilinear as one sum over four pixels with four weights.
fn direct(view: View<'_>, columns: &[Taps<2>], rows: &[Taps<2>]) -> Frame {
    let (width, height, channels) = (columns.len(), rows.len(), view.channels());
    let mut out = vec![0.0; width * height * channels];
    fill_bands(&mut out, width * channels, |first, band| {
        for (row, taps) in band.chunks_exact_mut(width * channels).zip(&rows[first..]) {
            let [upper, lower] = taps.index.map(|y| view.row(y));
            for (pixel, column) in row.chunks_exact_mut(channels).zip(columns) {
                let [[a, b], [c, d]] = taps
                    .weight
                    .map(|high| column.weight.map(|wide| high * wide));
                let [left, right] = column.index.map(|x| x * channels..(x + 1) * channels);
                let above = upper[left.clone()].iter().zip(&upper[right.clone()]);
                let below = lower[left].iter().zip(&lower[right]);
                for ((sample, (p, q)), (r, s)) in pixel.iter_mut().zip(above).zip(below) {
                    *sample = fused(*s, d, fused(*r, c, fused(*p, a, q * b)));
                }
            }
        }
    });
    Frame::new(height, width, channels, out)
}

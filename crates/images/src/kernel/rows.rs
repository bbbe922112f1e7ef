//! Splitting a frame's rows over threads.
//!
//! Every row is computed from the source alone, so how the rows are split, and over how many threads, never changes a result.

use std::sync::Arc;

use rayon::prelude::*;

use crate::parallel::{SPLIT_SAMPLES, fill_bands, fill_pass, spread, threads};
use crate::pixels::{Frame, unwritten};
use crate::vector::widest;

/// Calls `fill(y, row)` for every row of `out`.
pub(super) fn fill_rows<T: Send>(
    out: &mut [T],
    stride: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
) {
    fill_bands(out, stride, |first, band| {
        for (y, row) in band.chunks_exact_mut(stride).enumerate() {
            fill(first + y, row);
        }
    });
}

/// Fills a row of several outputs.
type FillRows<'a, const N: usize> = dyn Fn(usize, [&mut [f32]; N]) + Sync + 'a;

/// Calls `fill(y, row of each)` for every row of several outputs of the same height; each comes with its stride.
pub(super) fn fill_rows_of<const N: usize>(outs: [(&mut [f32], usize); N], fill: &FillRows<'_, N>) {
    let strides = outs.each_ref().map(|(_, stride)| *stride);
    let widest = strides.iter().copied().max().unwrap_or(0);
    if strides.contains(&0) {
        return;
    }
    let height = outs.iter().map(|(out, stride)| out.len() / stride).max();
    let height = height.unwrap_or(0);
    let bands = threads() * 4;
    let band_rows = height
        .div_ceil(bands)
        .max(SPLIT_SAMPLES / 2 / widest)
        .max(1);
    let mut parts = outs.map(|(out, stride)| out.chunks_mut(band_rows * stride));
    let bands = (0..height.div_ceil(band_rows))
        .map(|_| parts.each_mut().map(|part| part.next().unwrap_or_default()));
    let bands: Vec<[&mut [f32]; N]> = bands.collect();
    let fill_band = |(band, mut outs): (usize, [&mut [f32]; N])| {
        let first = band * band_rows;
        for y in first..height.min(first + band_rows) {
            let mut at = 0;
            let rows = outs.each_mut().map(|out| {
                let (row, rest) = std::mem::take(out).split_at_mut(strides[at]);
                at += 1;
                *out = rest;
                row
            });
            fill(y, rows);
        }
    };
    if bands.len() == 1 {
        bands.into_iter().enumerate().for_each(fill_band);
        return;
    }
    spread(|| bands.into_par_iter().enumerate().for_each(fill_band));
}

/// Calls `change(number, samples)` for every `length` samples of a frame (fewer in the last call), in place where `frame` is
/// the only owner, and elsewhere on a copy that is made while its samples are at hand.
pub(super) fn change_chunks(
    mut frame: Arc<Frame>,
    length: usize,
    change: impl Fn(usize, &mut [f32]) + Sync,
) -> Arc<Frame> {
    if let Some(owned) = Arc::get_mut(&mut frame) {
        fill_bands(owned.data_mut(), length, |first, band| {
            for (number, samples) in band.chunks_mut(length).enumerate() {
                change(first + number, samples);
            }
        });
        return frame;
    }
    let mut out = unwritten(frame.data().len());
    fill_bands(&mut out, length, |first, band| {
        let source = frame.data()[first * length..].chunks(length);
        for (number, (samples, from)) in band.chunks_mut(length).zip(source).enumerate() {
            samples.copy_from_slice(from);
            change(first + number, samples);
        }
    });
    let (height, width, channels) = frame.shape();
    Arc::new(Frame::new(height, width, channels, out))
}

/// Applies `f` to every sample, in place where `frame` is the only owner and in one pass where it is not.
pub(super) fn map_samples(mut frame: Arc<Frame>, f: impl Fn(f32) -> f32 + Sync) -> Arc<Frame> {
    if let Some(owned) = Arc::get_mut(&mut frame) {
        fill_pass(owned.data_mut(), |_, band| {
            widest(
                band,
                #[inline(always)]
                |band| map_into(band, &f),
                #[inline(always)]
                |band| map_into(band, &f),
            );
        });
        return frame;
    }
    let mut out = unwritten(frame.data().len());
    fill_pass(&mut out, |first, band| {
        let source = &frame.data()[first..first + band.len()];
        widest(
            band,
            #[inline(always)]
            |band| map(band, source, &f),
            #[inline(always)]
            |band| map(band, source, &f),
        );
    });
    let (height, width, channels) = frame.shape();
    Arc::new(Frame::new(height, width, channels, out))
}

/// Combines every sample of `frame` with the one of `other` at its place, in place where `frame` is the only owner.
///
/// Both hold the same number of samples.
pub(super) fn zip_samples(
    mut frame: Arc<Frame>,
    other: &Frame,
    f: impl Fn(f32, f32) -> f32 + Sync,
) -> Arc<Frame> {
    if let Some(owned) = Arc::get_mut(&mut frame) {
        fill_bands(owned.data_mut(), 1, |first, band| {
            let others = &other.data()[first..first + band.len()];
            widest(
                band,
                #[inline(always)]
                |band| combine_into(band, others, &f),
                #[inline(always)]
                |band| combine_into(band, others, &f),
            );
        });
        return frame;
    }
    let mut out = unwritten(frame.data().len());
    fill_bands(&mut out, 1, |first, band| {
        let source = &frame.data()[first..first + band.len()];
        let others = &other.data()[first..first + band.len()];
        widest(
            band,
            #[inline(always)]
            |band| combine(band, source, others, &f),
            #[inline(always)]
            |band| combine(band, source, others, &f),
        );
    });
    let (height, width, channels) = frame.shape();
    Arc::new(Frame::new(height, width, channels, out))
}

#[inline(always)]
fn map_into(out: &mut [f32], f: &impl Fn(f32) -> f32) {
    for sample in out.iter_mut() {
        *sample = f(*sample);
    }
}

#[inline(always)]
fn map(out: &mut [f32], source: &[f32], f: &impl Fn(f32) -> f32) {
    let source = &source[..out.len()];
    for at in 0..out.len() {
        out[at] = f(source[at]);
    }
}

#[inline(always)]
fn combine_into(out: &mut [f32], others: &[f32], f: &impl Fn(f32, f32) -> f32) {
    let others = &others[..out.len()];
    for at in 0..out.len() {
        out[at] = f(out[at], others[at]);
    }
}

#[inline(always)]
fn combine(out: &mut [f32], source: &[f32], others: &[f32], f: &impl Fn(f32, f32) -> f32) {
    let (source, others) = (&source[..out.len()], &others[..out.len()]);
    for at in 0..out.len() {
        out[at] = f(source[at], others[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_filled_once_whatever_the_threads() {
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a small pool starts");
            let mut out = vec![0u32; 701 * 300];
            pool.install(|| {
                fill_rows(&mut out, 300, |y, row| {
                    row.iter_mut().for_each(|v| *v += y as u32 + 1)
                })
            });
            assert!(
                out.iter()
                    .enumerate()
                    .all(|(i, &v)| v == (i / 300) as u32 + 1),
                "{threads} threads"
            );
        }
    }

    #[test]
    fn several_outputs_are_filled_row_by_row() {
        for height in [1, 3, 500] {
            let (mut a, mut b) = (vec![0.0; height * 300], vec![0.0; height * 7]);
            fill_rows_of([(&mut a, 300), (&mut b, 7)], &|y, [a, b]| {
                a.fill(y as f32);
                b.fill(y as f32 * 2.0);
            });
            let mut rows = a.chunks(300).zip(b.chunks(7)).zip(0..);
            assert!(rows.all(|((a, b), y): (_, u16)| {
                let y = f32::from(y);
                a.iter().all(|&v| v == y) && b.iter().all(|&v| v == y * 2.0)
            }));
        }
    }

    #[test]
    fn chunks_are_changed_in_place_or_on_a_copy() {
        let frame = Arc::new(Frame::filled(300, 301, 1, 1.0));
        let change = |number: usize, samples: &mut [f32]| {
            samples.iter_mut().for_each(|v| *v += number as f32);
        };
        let copy = change_chunks(Arc::clone(&frame), 64, change);
        assert!(frame.data().iter().all(|&v| v == 1.0));
        let expected = |i: usize| 1.0 + (i / 64) as f32;
        assert!(
            copy.data()
                .iter()
                .enumerate()
                .all(|(i, &v)| v == expected(i))
        );
        let address = frame.data().as_ptr();
        let owned = change_chunks(frame, 64, change);
        assert_eq!((owned.data().as_ptr(), &*owned), (address, &*copy));
    }

    #[test]
    fn a_shared_frame_stays_as_it_was() {
        let frame = Arc::new(Frame::filled(2, 2, 1, 1.0));
        let doubled = map_samples(Arc::clone(&frame), |v| v * 2.0);
        assert_eq!((frame.data()[0], doubled.data()[0]), (1.0, 2.0));
    }

    #[test]
    fn an_owned_frame_is_changed_in_place() {
        let frame = Arc::new(Frame::filled(2, 2, 1, 1.0));
        let address = frame.data().as_ptr();
        assert_eq!(map_samples(frame, |v| v * 2.0).data().as_ptr(), address);
    }
}

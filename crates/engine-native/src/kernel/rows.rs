//! Splitting a frame's rows over threads.
//!
//! Every row is computed from the source alone, so how the rows are split, and over how many threads, never changes a result.

use std::sync::Arc;

use rayon::prelude::*;

use crate::value::Frame;

/// Fewer samples than this are done before another thread has woken up.
const SPLIT_SAMPLES: usize = 1 << 16;

/// Calls `fill(first_row, rows)` for bands of whole rows that together cover `out`.
///
/// A band is handed over whole so that a kernel can keep what neighbouring rows share.
pub(super) fn fill_bands<T: Send>(
    out: &mut [T],
    stride: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
) {
    if stride == 0 || out.is_empty() {
        return;
    }
    if out.len() <= SPLIT_SAMPLES || rayon::current_num_threads() == 1 {
        fill(0, out);
        return;
    }
    let rows = out.len() / stride;
    let bands = rayon::current_num_threads() * 4;
    let band_rows = rows.div_ceil(bands).max(SPLIT_SAMPLES / 2 / stride).max(1);
    split(out, band_rows * stride, &|band, rows| {
        fill(band * band_rows, rows)
    });
}

/// The parallel part, compiled once for a type of samples instead of once for every kernel.
fn split<T: Send>(out: &mut [T], length: usize, fill: &(dyn Fn(usize, &mut [T]) + Sync)) {
    out.par_chunks_mut(length)
        .enumerate()
        .for_each(|(band, rows)| fill(band, rows));
}

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

/// Fills a row of two outputs.
type FillPair<'a> = dyn Fn(usize, &mut [f32], &mut [f32]) + Sync + 'a;

/// Calls `fill(y, row of a, row of b)` for every row of two outputs of the same height.
pub(super) fn fill_row_pairs(
    (a, a_stride): (&mut [f32], usize),
    (b, b_stride): (&mut [f32], usize),
    fill: &FillPair<'_>,
) {
    if a_stride == 0 || b_stride == 0 {
        return;
    }
    let rows_at_once = (SPLIT_SAMPLES / 2 / a_stride.max(b_stride)).max(1);
    a.par_chunks_exact_mut(a_stride)
        .zip(b.par_chunks_exact_mut(b_stride))
        .enumerate()
        .with_min_len(rows_at_once)
        .for_each(|(y, (a, b))| fill(y, a, b));
}

/// Applies `f` to every sample, in place where `frame` is the only owner and in one pass where it is not.
pub(super) fn map_samples(mut frame: Arc<Frame>, f: impl Fn(f32) -> f32 + Sync) -> Arc<Frame> {
    if let Some(owned) = Arc::get_mut(&mut frame) {
        fill_bands(owned.data_mut(), 1, |_, band| {
            band.iter_mut().for_each(|sample| *sample = f(*sample))
        });
        return frame;
    }
    let mut out = vec![0.0; frame.data().len()];
    fill_bands(&mut out, 1, |first, band| {
        let source = &frame.data()[first..first + band.len()];
        band.iter_mut()
            .zip(source)
            .for_each(|(sample, &from)| *sample = f(from));
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
            band.iter_mut()
                .zip(others)
                .for_each(|(sample, &b)| *sample = f(*sample, b));
        });
        return frame;
    }
    let mut out = vec![0.0; frame.data().len()];
    fill_bands(&mut out, 1, |first, band| {
        let source = &frame.data()[first..first + band.len()];
        let others = &other.data()[first..first + band.len()];
        band.iter_mut()
            .zip(source.iter().zip(others))
            .for_each(|(sample, (&a, &b))| *sample = f(a, b));
    });
    let (height, width, channels) = frame.shape();
    Arc::new(Frame::new(height, width, channels, out))
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
    fn two_outputs_are_filled_row_by_row() {
        let (mut a, mut b) = (vec![0.0; 500 * 300], vec![0.0; 500 * 7]);
        fill_row_pairs((&mut a, 300), (&mut b, 7), &|y, a, b| {
            a.fill(y as f32);
            b.fill(y as f32 * 2.0);
        });
        assert!(a.iter().enumerate().all(|(i, &v)| v == (i / 300) as f32));
        assert!(
            b.iter()
                .enumerate()
                .all(|(i, &v)| v == (i / 7) as f32 * 2.0)
        );
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

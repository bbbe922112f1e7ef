//! The mean over the source pixels that a pixel of the result touches, each counted whole.

use super::view::View;
use crate::parallel::fill_bands;
use crate::pixels::{Frame, unwritten};

/// From the first source position to the one after the last.
type Window = (usize, usize);

pub(super) fn resize(view: View<'_>, width: usize, height: usize) -> Frame {
    let channels = view.channels();
    if (width, height) == (1, 1) {
        return mean(view);
    }
    let columns = windows(view.width(), width);
    let rows = windows(view.height(), height);
    let wide: Vec<f32> = columns
        .iter()
        .flat_map(|(left, right)| std::iter::repeat_n((right - left) as f32, channels))
        .collect();
    let stride = width * channels;
    let mut out = unwritten(height * stride);
    fill_bands(&mut out, stride, |first, band| {
        for (y, sums) in band.chunks_exact_mut(stride).enumerate() {
            let (top, bottom) = rows[first + y];
            sums.fill(0.0);
            for source in (top..bottom).map(|y| view.row(y)) {
                add(source, &columns, channels, sums);
            }
            // Two divisions, as recorded: dividing by the count once rounds otherwise.
            let high = (bottom - top) as f32;
            sums.iter_mut()
                .zip(&wide)
                .for_each(|(sum, wide)| *sum = *sum / high / wide);
        }
    });
    Frame::new(height, width, channels, out)
}

/// Adds one source row to the sums, pixel by pixel from the left: the order decides how the sum is rounded.
fn add(source: &[f32], columns: &[Window], channels: usize, sums: &mut [f32]) {
    match channels {
        1 => add_pixels::<1>(source, columns, sums),
        3 => add_pixels::<3>(source, columns, sums),
        4 => add_pixels::<4>(source, columns, sums),
        _ => {
            for (sum, &(left, right)) in sums.chunks_exact_mut(channels).zip(columns) {
                for pixel in source[left * channels..right * channels].chunks_exact(channels) {
                    sum.iter_mut()
                        .zip(pixel)
                        .for_each(|(sum, &sample)| *sum += sample);
                }
            }
        }
    }
}

fn add_pixels<const C: usize>(source: &[f32], columns: &[Window], sums: &mut [f32]) {
    let (source, _) = source.as_chunks::<C>();
    let (sums, _) = sums.as_chunks_mut::<C>();
    for (sum, &(left, right)) in sums.iter_mut().zip(columns) {
        match &source[left..right] {
            // Nearly every window when a picture grows: a loop of unknown length costs more than the sum.
            [pixel] => *sum = plus(*sum, pixel),
            [pixel, next] => *sum = plus(plus(*sum, pixel), next),
            pixels => *sum = pixels.iter().fold(*sum, plus),
        }
    }
}

#[inline(always)]
fn plus<const C: usize>(mut sum: [f32; C], pixel: &[f32; C]) -> [f32; C] {
    for c in 0..C {
        sum[c] += pixel[c];
    }
    sum
}

/// A single pixel is a plain mean, of so many samples that single precision would lose it.
fn mean(view: View<'_>) -> Frame {
    let mut sums = vec![0.0f64; view.channels()];
    for pixel in (0..view.height()).flat_map(|y| view.row(y).chunks_exact(view.channels())) {
        sums.iter_mut()
            .zip(pixel)
            .for_each(|(sum, &sample)| *sum += f64::from(sample));
    }
    let count = (view.width() * view.height()) as f64;
    Frame::new(
        1,
        1,
        view.channels(),
        sums.iter().map(|sum| (sum / count) as f32).collect(),
    )
}

/// `floor(i * in / out) .. ceil((i + 1) * in / out)`.
fn windows(input: usize, output: usize) -> Vec<Window> {
    (0..output)
        .map(|i| (i * input / output, ((i + 1) * input).div_ceil(output)))
        .collect()
}

//! Columns first, then rows.
//!
//! Each pair of samples adds what it differs from the one between them, so that a flat area stays exactly as it is.

use super::reflected;
use crate::kernel::KernelError;
use crate::kernel::frames::blank;
use crate::kernel::rows::fill_bands;
use crate::value::Frame;

pub(super) fn convolve(
    frame: &Frame,
    weights: &[f32],
    finish: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    let radius = weights.len();
    let stride = width * channels;
    let margin = radius * channels;
    let mut out = blank(height, width, channels)?;
    fill_bands(&mut out, stride, |first, band| {
        let mut padded = vec![0.0; stride + 2 * margin];
        for (y, row) in band.chunks_exact_mut(stride).enumerate() {
            let here = frame.row(first + y);
            down(
                frame,
                first + y,
                weights,
                &mut padded[margin..margin + stride],
            );
            mirror(&mut padded, radius, channels);
            along(&padded, weights, channels, row);
            row.iter_mut()
                .zip(here)
                .for_each(|(blurred, &sample)| *blurred = finish(sample, *blurred));
        }
    });
    Ok(Frame::new(height, width, channels, out))
}

/// The weighted sum of the rows around `y`.
fn down(frame: &Frame, y: usize, weights: &[f32], sums: &mut [f32]) {
    let here = frame.row(y);
    sums.copy_from_slice(here);
    for (&weight, distance) in weights.iter().zip(1..) {
        let above = frame.row(y.abs_diff(distance));
        let below = frame.row(reflected(y + distance, frame.height()));
        add_pairs(sums, here, above, below, weight);
    }
}

/// The weighted sum of the pixels around each pixel of a row that has a margin at both ends.
fn along(padded: &[f32], weights: &[f32], channels: usize, sums: &mut [f32]) {
    let margin = weights.len() * channels;
    let here = &padded[margin..margin + sums.len()];
    sums.copy_from_slice(here);
    for (&weight, distance) in weights.iter().zip((channels..).step_by(channels)) {
        add_pairs(
            sums,
            here,
            &padded[margin - distance..],
            &padded[margin + distance..],
            weight,
        );
    }
}

fn add_pairs(sums: &mut [f32], here: &[f32], before: &[f32], after: &[f32], weight: f32) {
    for (((sum, &here), &a), &b) in sums.iter_mut().zip(here).zip(before).zip(after) {
        *sum += weight * ((a - here) + (b - here));
    }
}

/// Fills the margins with the pixels next to them in reverse order; the outermost pixel is not repeated.
fn mirror(padded: &mut [f32], radius: usize, channels: usize) {
    let last = padded.len() / channels - radius - 1;
    let mut copy = |from: usize, to: usize| {
        padded.copy_within(from * channels..(from + 1) * channels, to * channels)
    };
    for distance in 1..=radius {
        copy(radius + distance, radius - distance);
        copy(last - distance, last + distance);
    }
}

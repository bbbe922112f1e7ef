//! Every weight of the square, row by row from its first, each product added with one rounding.

use super::{mirror, reflected};
use crate::kernel::KernelError;
use crate::kernel::frames::unwritten;
use crate::parallel::fill_bands;
use crate::pixels::Frame;
use crate::vector::{multiply_add, widest};

/// Samples of a row that are summed together, so that their sums stay in registers.
const BLOCK: usize = 32;

pub(super) fn convolve(
    frame: &Frame,
    weights: &[f32],
    finish: impl Fn(f32) -> f32 + Sync,
) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    let side = weights.len().isqrt();
    let radius = side / 2;
    let stride = width * channels;
    let mut out = unwritten(height, width, channels)?;
    fill_bands(&mut out, stride, |first, band| {
        // The mirrored rows around the current one, at their numbers modulo `side`, with room for a whole last block.
        let mut lines = vec![vec![0.0; stride + 2 * radius * channels + BLOCK]; side];
        let line = |y: usize, lines: &mut [Vec<f32>]| {
            let from = frame.row(reflected(y.abs_diff(radius), height));
            let padded = &mut lines[y % side][..stride + 2 * radius * channels];
            padded[radius * channels..][..stride].copy_from_slice(from);
            mirror(padded, radius, channels);
        };
        (first..first + side - 1).for_each(|y| line(y, &mut lines));
        for (y, row) in band.chunks_exact_mut(stride).enumerate() {
            let top = first + y;
            line(top + side - 1, &mut lines);
            let around: Vec<&[f32]> = (0..side).map(|down| &*lines[(top + down) % side]).collect();
            widest(
                row,
                #[inline(always)]
                |row| sums::<true>(&around, weights, channels, row, &finish),
                #[inline(always)]
                |row| sums::<false>(&around, weights, channels, row, &finish),
            );
        }
    });
    Ok(Frame::new(height, width, channels, out))
}

/// One row of the result from the padded rows around it.
#[inline(always)]
fn sums<const FUSED: bool>(
    around: &[&[f32]],
    weights: &[f32],
    channels: usize,
    row: &mut [f32],
    finish: impl Fn(f32) -> f32,
) {
    for (i, out) in row.chunks_mut(BLOCK).enumerate() {
        let mut sums = [0.0; BLOCK];
        for (line, weights) in around.iter().zip(weights.chunks_exact(around.len())) {
            let line = &line[i * BLOCK..];
            for (along, &weight) in weights.iter().enumerate() {
                let Some(samples) = line[along * channels..].first_chunk::<BLOCK>() else {
                    continue;
                };
                for at in 0..BLOCK {
                    sums[at] = multiply_add::<FUSED>(weight, samples[at], sums[at]);
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = finish(sum);
        }
    }
}

//! Columns first, then rows.
//!
//! Each pair of samples adds what it differs from the one between them, so that a flat area stays exactly as it is.

use super::{mirror, reflected};
use crate::kernel::KernelError;
use crate::kernel::frames::unwritten;
use crate::parallel::fill_bands;
use crate::pixels::Frame;
use crate::vector::widest;

pub(super) fn convolve(
    frame: &Frame,
    weights: &[f32],
    finish: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    let radius = weights.len();
    let stride = width * channels;
    let margin = radius * channels;
    let mut out = unwritten(height, width, channels)?;
    fill_bands(&mut out, stride, |first, band| {
        let mut padded = vec![0.0; stride + 2 * margin];
        for (y, row) in band.chunks_exact_mut(stride).enumerate() {
            let y = first + y;
            let down = weights.iter().zip(1..).map(|(&weight, distance)| Pair {
                before: frame.row(y.abs_diff(distance)),
                after: frame.row(reflected(y + distance, height)),
                weight,
            });
            let down: Vec<_> = down.collect();
            sums(frame.row(y), &down, &mut padded[margin..margin + stride]);
            mirror(&mut padded, radius, channels);
            let distances = (channels..).step_by(channels);
            let along = weights
                .iter()
                .zip(distances)
                .map(|(&weight, distance)| Pair {
                    before: &padded[margin - distance..],
                    after: &padded[margin + distance..],
                    weight,
                });
            let along: Vec<_> = along.collect();
            sums(&padded[margin..margin + stride], &along, row);
            row.iter_mut()
                .zip(frame.row(y))
                .for_each(|(blurred, &sample)| *blurred = finish(sample, *blurred));
        }
    });
    Ok(Frame::new(height, width, channels, out))
}

/// Samples at one distance on both sides, and what they weigh.
struct Pair<'a> {
    before: &'a [f32],
    after: &'a [f32],
    weight: f32,
}

/// The samples that lie `here`, and what their pairs add.
fn sums(here: &[f32], pairs: &[Pair<'_>], out: &mut [f32]) {
    widest(
        out,
        #[inline(always)]
        |out| add_pairs(here, pairs, out),
        #[inline(always)]
        |out| add_pairs(here, pairs, out),
    );
}

/// Samples whose sums stay in registers until all pairs were added.
const BLOCK: usize = 32;

#[inline(always)]
fn add_pairs(here: &[f32], pairs: &[Pair<'_>], out: &mut [f32]) {
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let (heres, here_rest) = here.as_chunks::<BLOCK>();
    for (number, (sums, here)) in blocks.iter_mut().zip(heres).enumerate() {
        *sums = *here;
        for pair in pairs {
            let (before, after) = (
                &pair.before[number * BLOCK..],
                &pair.after[number * BLOCK..],
            );
            if let (Some(before), Some(after)) = (before.first_chunk(), after.first_chunk()) {
                add::<BLOCK>(sums, here, before, after, pair.weight);
            }
        }
    }
    let start = here.len() - here_rest.len();
    for (at, (sum, here)) in rest.iter_mut().zip(here_rest).enumerate() {
        let mut sums = [*here];
        for pair in pairs {
            let (before, after) = (pair.before[start + at], pair.after[start + at]);
            add(&mut sums, &[*here], &[before], &[after], pair.weight);
        }
        [*sum] = sums;
    }
}

#[inline(always)]
fn add<const N: usize>(
    sums: &mut [f32; N],
    here: &[f32; N],
    before: &[f32; N],
    after: &[f32; N],
    weight: f32,
) {
    for at in 0..N {
        sums[at] += weight * ((before[at] - here[at]) + (after[at] - here[at]));
    }
}

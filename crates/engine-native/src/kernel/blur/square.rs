//! Every weight of the square, row by row from its first, each product added with one rounding.

use super::reflected;
use crate::kernel::KernelError;
use crate::kernel::frames::blank;
use crate::kernel::rows::fill_bands;
use crate::value::Frame;

/// Samples of a row that are summed together, so that their sums stay in registers.
const BLOCK: usize = 8;

pub(super) fn convolve(
    frame: &Frame,
    weights: &[f32],
    finish: impl Fn(f32) -> f32 + Sync,
) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    let side = weights.len().isqrt();
    let radius = side / 2;
    let stride = width * channels;
    let mut out = blank(height, width, channels)?;
    fill_bands(&mut out, stride, |first, band| {
        // The mirrored rows around the current one, at their numbers modulo `side`.
        let mut lines = vec![vec![0.0; stride + 2 * radius * channels + BLOCK]; side];
        let line =
            |y: usize, lines: &mut [Vec<f64>]| mirror(frame, y, radius, &mut lines[y % side]);
        (first..first + side - 1).for_each(|y| line(y, &mut lines));
        for (y, row) in band.chunks_exact_mut(stride).enumerate() {
            let top = first + y;
            line(top + side - 1, &mut lines);
            for (i, out) in row.chunks_mut(BLOCK).enumerate() {
                let mut sums = [0.0; BLOCK];
                for (down, weights) in weights.chunks_exact(side).enumerate() {
                    let line = &lines[(top + down) % side][i * BLOCK..];
                    for (along, &weight) in weights.iter().enumerate() {
                        add(&mut sums, &line[along * channels..], weight);
                    }
                }
                out.iter_mut()
                    .zip(sums)
                    .for_each(|(out, sum)| *out = finish(sum as f32));
            }
        }
    });
    Ok(Frame::new(height, width, channels, out))
}

/// Adds `weight * line`, rounded once to single precision: the products are exact in double precision.
#[inline(always)]
fn add(sums: &mut [f64; BLOCK], line: &[f64], weight: f32) {
    let Some((line, _)) = line.split_first_chunk::<BLOCK>() else {
        return;
    };
    for i in 0..BLOCK {
        sums[i] = f64::from((sums[i] + f64::from(weight) * line[i]) as f32);
    }
}

/// Row `y - radius` of the picture, mirrored beyond its borders, with `radius` mirrored pixels at both ends.
fn mirror(frame: &Frame, y: usize, radius: usize, line: &mut [f64]) {
    let (height, width, channels) = frame.shape();
    let row = frame.row(reflected(y.abs_diff(radius), height));
    for (x, pixel) in line
        .chunks_exact_mut(channels)
        .take(width + 2 * radius)
        .enumerate()
    {
        let from = reflected(x.abs_diff(radius), width) * channels;
        pixel
            .iter_mut()
            .zip(&row[from..])
            .for_each(|(to, &from)| *to = f64::from(from));
    }
}

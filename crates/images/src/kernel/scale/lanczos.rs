//! Lanczos (a = 3) as Pillow does it: 8-bit samples, integer weights, along the rows first, then across them.
//!
//! Both passes round to 8 bits, and RGBA is premultiplied in between, so the result is exact or it is wrong: no float shortcut.

use super::view::View;
use crate::kernel::KernelError;
use crate::kernel::rows::fill_rows;
use crate::parallel::fill_bands;
use crate::pixels::{Frame, samples_to_bytes};
use crate::vector::widest;

const SUPPORT: f64 = 3.0;

/// Bits after the point: 32, less 8 of the sample, less 2 for sums outside its range.
const PRECISION_BITS: u32 = 32 - 8 - 2;

/// Interleaved 8-bit samples.
struct Bytes {
    width: usize,
    height: usize,
    channels: usize,
    data: Vec<u8>,
}

/// The window of source samples of one sample of the result, with its weights in fixed point.
struct Window {
    first: usize,
    weights: Vec<i32>,
}

pub(super) fn resize(view: View<'_>, width: usize, height: usize) -> Result<Frame, KernelError> {
    let channels = view.channels();
    if channels != 3 && channels != 4 {
        return Err(KernelError::LanczosChannels(channels));
    }
    let mut bytes = quantized(view);
    if (width, height) != (view.width(), view.height()) {
        if channels == 4 {
            bytes
                .data
                .as_chunks_mut()
                .0
                .iter_mut()
                .for_each(premultiply);
        }
        if width != bytes.width {
            bytes = along(&bytes, &windows(bytes.width, width));
        }
        if height != bytes.height {
            bytes = across(&bytes, &windows(bytes.height, height));
        }
        if channels == 4 {
            bytes
                .data
                .as_chunks_mut()
                .0
                .iter_mut()
                .for_each(unpremultiply);
        }
    }
    Ok(Frame::from_bytes(height, width, channels, &bytes.data))
}

fn quantized(view: View<'_>) -> Bytes {
    let (width, height, channels) = (view.width(), view.height(), view.channels());
    let mut data = vec![0; height * width * channels];
    fill_rows(&mut data, width * channels, |y, row| {
        samples_to_bytes(view.row(y), row)
    });
    Bytes {
        width,
        height,
        channels,
        data,
    }
}

/// Rows that are resized along together, so that their sums make one vector.
const ROWS: usize = 8;

fn along(source: &Bytes, windows: &[Window]) -> Bytes {
    match source.channels {
        3 => along_pixels::<3>(source, windows),
        _ => along_pixels::<4>(source, windows),
    }
}

fn along_pixels<const C: usize>(source: &Bytes, windows: &[Window]) -> Bytes {
    let (from, stride) = (source.width * C, windows.len() * C);
    let mut data = vec![0; source.height * stride];
    fill_bands(&mut data, stride, |first, band| {
        let mut samples = vec![[0; ROWS]; from];
        for (block, rows) in band.chunks_mut(ROWS * stride).enumerate() {
            let start = (first + block * ROWS) * from;
            let end = start + rows.len() / stride * from;
            widest(
                (&mut samples, rows),
                #[inline(always)]
                |(samples, rows)| along_rows::<C>(&source.data[start..end], samples, windows, rows),
                #[inline(always)]
                |(samples, rows)| along_rows::<C>(&source.data[start..end], samples, windows, rows),
            );
        }
    });
    Bytes {
        width: windows.len(),
        height: source.height,
        channels: C,
        data,
    }
}

/// As many rows as `rows` has, [`ROWS`] at most; `samples` is room for what lies at one place in all of them.
#[inline(always)]
fn along_rows<const C: usize>(
    source: &[u8],
    samples: &mut [[u8; ROWS]],
    windows: &[Window],
    rows: &mut [u8],
) {
    let (from, stride) = (samples.len(), windows.len() * C);
    let count = (rows.len() / stride).min(ROWS);
    for number in 0..count {
        let row = &source[number * from..][..from];
        for at in 0..from {
            samples[at][number] = row[at];
        }
    }
    let (pixels, _) = samples.as_chunks::<C>();
    for x in 0..windows.len() {
        let weights = windows[x].weights.as_slice();
        let pixels = &pixels[windows[x].first..][..weights.len()];
        let mut sums = [[1 << (PRECISION_BITS - 1); ROWS]; C];
        for tap in 0..weights.len() {
            for c in 0..C {
                for number in 0..ROWS {
                    sums[c][number] += i32::from(pixels[tap][c][number]) * weights[tap];
                }
            }
        }
        let mut levels = [[0; ROWS]; C];
        for c in 0..C {
            for number in 0..ROWS {
                levels[c][number] = level(sums[c][number]);
            }
        }
        for number in 0..count {
            let pixel = &mut rows[number * stride + x * C..][..C];
            for c in 0..C {
                pixel[c] = levels[c][number];
            }
        }
    }
}

fn across(source: &Bytes, windows: &[Window]) -> Bytes {
    let stride = source.width * source.channels;
    let mut data = vec![0; windows.len() * stride];
    fill_bands(&mut data, stride, |first, band| {
        for (row, window) in band.chunks_exact_mut(stride).zip(&windows[first..]) {
            let rows = &source.data[window.first * stride..];
            widest(
                row,
                #[inline(always)]
                |row| across_rows(rows, &window.weights, row),
                #[inline(always)]
                |row| across_rows(rows, &window.weights, row),
            );
        }
    });
    Bytes {
        width: source.width,
        height: windows.len(),
        channels: source.channels,
        data,
    }
}

/// Samples of a row whose sums stay in registers until all rows were added.
const BLOCK: usize = 32;

/// One row of the result from as many rows as there are weights.
#[inline(always)]
fn across_rows(rows: &[u8], weights: &[i32], row: &mut [u8]) {
    let stride = row.len();
    let mut start = 0;
    while start < stride {
        // The last block is another look at samples of the one before it.
        start = start.min(stride.saturating_sub(BLOCK));
        let length = BLOCK.min(stride);
        let mut sums = [1 << (PRECISION_BITS - 1); BLOCK];
        for tap in 0..weights.len() {
            let from = &rows[tap * stride + start..];
            if let Some(from) = from.first_chunk::<BLOCK>() {
                for at in 0..BLOCK {
                    sums[at] += i32::from(from[at]) * weights[tap];
                }
            } else {
                for at in 0..length {
                    sums[at] += i32::from(from[at]) * weights[tap];
                }
            }
        }
        let mut levels = [0; BLOCK];
        for at in 0..BLOCK {
            levels[at] = level(sums[at]);
        }
        row[start..start + length].copy_from_slice(&levels[..length]);
        start += BLOCK;
    }
}

#[inline(always)]
fn level(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}

fn windows(input: usize, output: usize) -> Vec<Window> {
    let scale = input as f64 / output as f64;
    let stretch = scale.max(1.0);
    let support = SUPPORT * stretch;
    let window = |i: usize| {
        let centre = (i as f64 + 0.5) * scale;
        // Truncation towards zero, which a negative start needs to become 0.
        let first = (centre - support + 0.5).max(0.0) as usize;
        let end = ((centre + support + 0.5) as usize).min(input);
        let weights: Vec<f64> = (first..end)
            .map(|x| kernel((x as f64 - centre + 0.5) * (1.0 / stretch)))
            .collect();
        let sum = weights.iter().fold(0.0, |sum, weight| sum + weight);
        Window {
            first,
            weights: weights
                .iter()
                .map(|&weight| fixed_point(if sum == 0.0 { weight } else { weight / sum }))
                .collect(),
        }
    };
    (0..output).map(window).collect()
}

fn fixed_point(weight: f64) -> i32 {
    let scaled = weight * f64::from(1 << PRECISION_BITS);
    (if weight < 0.0 {
        scaled - 0.5
    } else {
        scaled + 0.5
    }) as i32
}

fn kernel(x: f64) -> f64 {
    if (-SUPPORT..SUPPORT).contains(&x) {
        sinc(x) * sinc(x / SUPPORT)
    } else {
        0.0
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * std::f64::consts::PI;
    x.sin() / x
}

/// The colour times its opacity, as 8-bit levels.
pub(in crate::kernel) fn premultiply(pixel: &mut [u8; 4]) {
    let alpha = u32::from(pixel[3]);
    for sample in &mut pixel[..3] {
        let product = u32::from(*sample) * alpha + 128;
        *sample = (((product >> 8) + product) >> 8) as u8;
    }
}

/// The colour that [`premultiply`] was given, as far as it is left.
pub(in crate::kernel) fn unpremultiply(pixel: &mut [u8; 4]) {
    let alpha = u32::from(pixel[3]);
    if alpha == 0 || alpha == 255 {
        return;
    }
    for sample in &mut pixel[..3] {
        *sample = (255 * u32::from(*sample) / alpha).min(255) as u8;
    }
}

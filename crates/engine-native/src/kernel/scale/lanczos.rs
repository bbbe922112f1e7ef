//! Lanczos (a = 3) as Pillow does it: 8-bit samples, integer weights, along the rows first, then across them.
//!
//! Both passes round to 8 bits, and RGBA is premultiplied in between, so the result is exact or it is wrong: no float shortcut.

use super::view::View;
use crate::kernel::KernelError;
use crate::kernel::point;
use crate::kernel::rows::{fill_bands, fill_rows};
use crate::kernel::vector::widest;
use crate::value::Frame;

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
    Ok(point::from_bytes(height, width, channels, &bytes.data))
}

fn quantized(view: View<'_>) -> Bytes {
    let (width, height, channels) = (view.width(), view.height(), view.channels());
    let mut data = vec![0; height * width * channels];
    fill_rows(&mut data, width * channels, |y, row| {
        point::to_levels(view.row(y), row)
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
    for (number, row) in source.chunks_exact(samples.len()).enumerate() {
        for (sample, &level) in samples.iter_mut().zip(row) {
            sample[number] = level;
        }
    }
    let (pixels, _) = samples.as_chunks::<C>();
    let stride = windows.len() * C;
    for (x, window) in windows.iter().enumerate() {
        let mut sums = [[1 << (PRECISION_BITS - 1); ROWS]; C];
        for (pixel, &weight) in pixels[window.first..].iter().zip(&window.weights) {
            for (sums, samples) in sums.iter_mut().zip(pixel) {
                for number in 0..ROWS {
                    sums[number] += i32::from(samples[number]) * weight;
                }
            }
        }
        for (number, row) in rows.chunks_exact_mut(stride).enumerate() {
            let pixel = &mut row[x * C..(x + 1) * C];
            for c in 0..C {
                pixel[c] = level(sums[c][number % ROWS]);
            }
        }
    }
}

fn across(source: &Bytes, windows: &[Window]) -> Bytes {
    let stride = source.width * source.channels;
    let mut data = vec![0; windows.len() * stride];
    fill_bands(&mut data, stride, |first, band| {
        let mut sums = vec![0; stride];
        for (row, window) in band.chunks_exact_mut(stride).zip(&windows[first..]) {
            let rows = &source.data[window.first * stride..];
            widest(
                (&mut sums, row),
                #[inline(always)]
                |(sums, row)| across_rows(rows, window, sums, row),
                #[inline(always)]
                |(sums, row)| across_rows(rows, window, sums, row),
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

#[inline(always)]
fn across_rows(rows: &[u8], window: &Window, sums: &mut [i32], row: &mut [u8]) {
    sums.fill(1 << (PRECISION_BITS - 1));
    for (from, &weight) in rows.chunks_exact(row.len()).zip(&window.weights) {
        for (sum, &sample) in sums.iter_mut().zip(from) {
            *sum += i32::from(sample) * weight;
        }
    }
    for (sample, &sum) in row.iter_mut().zip(&*sums) {
        *sample = level(sum);
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

fn premultiply(pixel: &mut [u8; 4]) {
    let alpha = u32::from(pixel[3]);
    for sample in &mut pixel[..3] {
        let product = u32::from(*sample) * alpha + 128;
        *sample = (((product >> 8) + product) >> 8) as u8;
    }
}

fn unpremultiply(pixel: &mut [u8; 4]) {
    let alpha = u32::from(pixel[3]);
    if alpha == 0 || alpha == 255 {
        return;
    }
    for sample in &mut pixel[..3] {
        *sample = (255 * u32::from(*sample) / alpha).min(255) as u8;
    }
}

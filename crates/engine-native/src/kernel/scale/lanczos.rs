//! Lanczos (a = 3) as Pillow does it: 8-bit samples, integer weights, along the rows first, then across them.
//!
//! Both passes round to 8 bits, and RGBA is premultiplied in between, so the result is exact or it is wrong: no float shortcut.

use super::view::View;
use crate::kernel::KernelError;
use crate::kernel::point;
use crate::kernel::rows::{fill_bands, fill_rows};
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

fn along(source: &Bytes, windows: &[Window]) -> Bytes {
    let (width, channels) = (windows.len(), source.channels);
    let mut data = vec![0; source.height * width * channels];
    fill_rows(&mut data, width * channels, |y, row| {
        let from = &source.data[y * source.width * channels..(y + 1) * source.width * channels];
        match channels {
            3 => along_row::<3>(from, windows, row),
            _ => along_row::<4>(from, windows, row),
        }
    });
    Bytes {
        width,
        height: source.height,
        channels,
        data,
    }
}

fn along_row<const C: usize>(source: &[u8], windows: &[Window], row: &mut [u8]) {
    let (source, _) = source.as_chunks::<C>();
    let (row, _) = row.as_chunks_mut::<C>();
    for (pixel, window) in row.iter_mut().zip(windows) {
        let mut sums = [1 << (PRECISION_BITS - 1); C];
        for (from, &weight) in source[window.first..].iter().zip(&window.weights) {
            for c in 0..C {
                sums[c] += i32::from(from[c]) * weight;
            }
        }
        *pixel = sums.map(level);
    }
}

fn across(source: &Bytes, windows: &[Window]) -> Bytes {
    let stride = source.width * source.channels;
    let mut data = vec![0; windows.len() * stride];
    fill_bands(&mut data, stride, |first, band| {
        let mut sums = vec![0; stride];
        for (row, window) in band.chunks_exact_mut(stride).zip(&windows[first..]) {
            sums.fill(1 << (PRECISION_BITS - 1));
            let rows = source.data[window.first * stride..].chunks_exact(stride);
            for (from, &weight) in rows.zip(&window.weights) {
                sums.iter_mut()
                    .zip(from)
                    .for_each(|(sum, &sample)| *sum += i32::from(sample) * weight);
            }
            row.iter_mut()
                .zip(&sums)
                .for_each(|(sample, &sum)| *sample = level(sum));
        }
    });
    Bytes {
        width: source.width,
        height: windows.len(),
        channels: source.channels,
        data,
    }
}

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

//! Cutting, turning and mirroring: pixels move, none changes.

use std::sync::Arc;

use rayon::prelude::*;

use super::KernelError;
use super::frames::{each, unwritten};
use super::rows::fill_rows;
use crate::parallel::fill_bands;
use crate::parallel::spread;
use crate::pixels::{Frame, Image};

/// A turn, clockwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// None.
    None,
    /// 90 degrees.
    Quarter,
    /// 180 degrees.
    Half,
    /// 270 degrees.
    ThreeQuarters,
}

/// Which way a picture is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flip {
    /// Top and bottom change places (the x-axis stays).
    Vertical,
    /// Left and right change places (the y-axis stays).
    Horizontal,
}

/// ImageCrop: the rectangle at `x`, `y`, both brought into the picture, as far as it lies inside.
///
/// # Errors
/// If it has no pixels.
pub fn crop(
    image: Image,
    width: usize,
    height: usize,
    x: usize,
    y: usize,
) -> Result<Image, KernelError> {
    each(image, |frame| {
        let (source_height, source_width, channels) = frame.shape();
        let (left, top) = (x.min(source_width - 1), y.min(source_height - 1));
        let (width, height) = (
            width.min(source_width - left),
            height.min(source_height - top),
        );
        if (width, height) == (source_width, source_height) {
            return Ok(frame);
        }
        let mut data = unwritten(height, width, channels)?;
        fill_rows(&mut data, width * channels, |row, out| {
            out.copy_from_slice(&frame.row(top + row)[left * channels..(left + width) * channels]);
        });
        Ok(Arc::new(Frame::new(height, width, channels, data)))
    })
}

/// ImageRotate.
///
/// # Errors
/// None in practice: the number of pixels stays.
pub fn rotate(image: Image, rotation: Rotation) -> Result<Image, KernelError> {
    each(image, |frame| match rotation {
        Rotation::None => Ok(frame),
        Rotation::Quarter => turn(&frame, true),
        Rotation::Half => mirror_rows(frame, Flip::Vertical)
            .and_then(|frame| mirror_rows(frame, Flip::Horizontal)),
        Rotation::ThreeQuarters => turn(&frame, false),
    })
}

/// ImageFlip.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn flip(image: Image, direction: Flip) -> Result<Image, KernelError> {
    each(image, |frame| mirror_rows(frame, direction))
}

fn mirror_rows(mut frame: Arc<Frame>, direction: Flip) -> Result<Arc<Frame>, KernelError> {
    let (height, width, channels) = frame.shape();
    let stride = width * channels;
    match (Arc::get_mut(&mut frame), direction) {
        (Some(owned), Flip::Vertical) => {
            let (top, bottom) = owned.data_mut().split_at_mut(height / 2 * stride);
            let rows = top
                .par_chunks_exact_mut(stride)
                .zip(bottom.par_chunks_exact_mut(stride).rev());
            let rows = rows.with_min_len(16);
            spread(|| rows.for_each(|(a, b)| a.swap_with_slice(b)));
        }
        (Some(owned), Flip::Horizontal) => {
            fill_rows(owned.data_mut(), stride, |_, row| reverse(row, channels))
        }
        (None, _) => {
            let mut data = unwritten(height, width, channels)?;
            fill_rows(&mut data, stride, |y, out| match direction {
                Flip::Vertical => out.copy_from_slice(frame.row(height - 1 - y)),
                Flip::Horizontal => copy_reversed(frame.row(y), channels, out),
            });
            return Ok(Arc::new(Frame::new(height, width, channels, data)));
        }
    }
    Ok(frame)
}

/// Reverses the pixels of a row, not the samples in them.
fn reverse(row: &mut [f32], channels: usize) {
    match channels {
        1 => row.reverse(),
        3 => row.as_chunks_mut::<3>().0.reverse(),
        4 => row.as_chunks_mut::<4>().0.reverse(),
        _ => {
            row.reverse();
            row.chunks_exact_mut(channels).for_each(<[f32]>::reverse);
        }
    }
}

/// The pixels of a row in reverse order.
fn copy_reversed(row: &[f32], channels: usize, out: &mut [f32]) {
    match channels {
        1 => out
            .iter_mut()
            .zip(row.iter().rev())
            .for_each(|(out, &sample)| *out = sample),
        3 => copy_pixels_reversed::<3>(row, out),
        4 => copy_pixels_reversed::<4>(row, out),
        _ => {
            out.copy_from_slice(row);
            reverse(out, channels);
        }
    }
}

fn copy_pixels_reversed<const C: usize>(row: &[f32], out: &mut [f32]) {
    let pixels = row.as_chunks::<C>().0.iter().rev();
    let out = out.as_chunks_mut::<C>().0.iter_mut();
    out.zip(pixels).for_each(|(out, &pixel)| *out = pixel);
}

/// Rows of the result that are written together: their pixels lie side by side in each row that is read.
const TILE: usize = 16;

fn turn(frame: &Frame, clockwise: bool) -> Result<Arc<Frame>, KernelError> {
    let (height, width, channels) = frame.shape();
    let stride = height * channels;
    let mut data = unwritten(width, height, channels)?;
    fill_bands(&mut data, stride, |first, band| {
        for (tile, rows) in band.chunks_mut(TILE * stride).enumerate() {
            let start = first + tile * TILE;
            match channels {
                1 => turn_tile::<1>(frame, clockwise, start, rows),
                3 => turn_tile::<3>(frame, clockwise, start, rows),
                4 => turn_tile::<4>(frame, clockwise, start, rows),
                _ => turn_any(frame, clockwise, start, rows),
            }
        }
    });
    Ok(Arc::new(Frame::new(width, height, channels, data)))
}

fn turn_tile<const C: usize>(frame: &Frame, clockwise: bool, start: usize, rows: &mut [f32]) {
    let (height, width) = (frame.height(), frame.width());
    let (pixels, _) = rows.as_chunks_mut::<C>();
    let count = pixels.len() / height;
    for x in 0..height {
        let source = frame
            .row(if clockwise { height - 1 - x } else { x })
            .as_chunks::<C>()
            .0;
        for y in 0..count {
            pixels[y * height + x] = source[if clockwise {
                start + y
            } else {
                width - 1 - start - y
            }];
        }
    }
}

fn turn_any(frame: &Frame, clockwise: bool, start: usize, rows: &mut [f32]) {
    let (height, width, channels) = frame.shape();
    for (i, pixel) in rows.chunks_exact_mut(channels).enumerate() {
        let (y, x) = (start + i / height, i % height);
        let (from_y, from_x) = if clockwise {
            (height - 1 - x, y)
        } else {
            (x, width - 1 - y)
        };
        pixel.copy_from_slice(&frame.row(from_y)[from_x * channels..(from_x + 1) * channels]);
    }
}

#[cfg(test)]
mod tests;

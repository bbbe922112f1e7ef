//! ImageStitch: two pictures side by side.

use std::sync::Arc;

use super::KernelError;
use super::frames::{map_distinct, unwritten};
use super::rows::fill_rows;
use super::scale::{self, Crop, Method};
use crate::pixels::{Frame, Image};

/// Where the second picture goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the right of the first.
    Right,
    /// Below the first.
    Down,
    /// To the left of the first.
    Left,
    /// Above the first.
    Up,
}

impl Direction {
    fn is_horizontal(self) -> bool {
        matches!(self, Self::Left | Self::Right)
    }

    fn second_comes_first(self) -> bool {
        matches!(self, Self::Left | Self::Up)
    }
}

/// The colour between the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpacingColor {
    /// 1, 1, 1.
    White,
    /// 0, 0, 0.
    Black,
    /// 1, 0, 0.
    Red,
    /// 0, 1, 0.
    Green,
    /// 0, 0, 1.
    Blue,
}

impl SpacingColor {
    /// A pixel of the gap: alpha, the fourth channel, is opaque.
    fn pixel(self, channels: usize) -> Vec<f32> {
        let colour = match self {
            Self::White => [1.0, 1.0, 1.0],
            Self::Black => [0.0, 0.0, 0.0],
            Self::Red => [1.0, 0.0, 0.0],
            Self::Green => [0.0, 1.0, 0.0],
            Self::Blue => [0.0, 0.0, 1.0],
        };
        let alpha = if channels == 4 { 1.0 } else { 0.0 };
        (0..channels)
            .map(|c| colour.get(c).copied().unwrap_or(alpha))
            .collect()
    }

    /// What fills the rest of a side beside a smaller picture, in all of its channels.
    fn padding(self) -> f32 {
        if self == Self::White { 1.0 } else { 0.0 }
    }
}

/// How two pictures are stitched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stitch {
    /// Where the second goes.
    pub direction: Direction,
    /// Whether the second is resized (lanczos) to the common side of the first; else the smaller is centred and padded.
    pub match_image_size: bool,
    /// Pixels between them; an odd number becomes even.
    pub spacing_width: usize,
    /// Their colour.
    pub spacing_color: SpacingColor,
}

/// Stitches `image2` to `image1`; the shorter batch repeats its last frame, and missing channels are 1.
///
/// # Errors
/// If a side would become 0 or the result is beyond one frame, or lanczos gets other than 3 or 4 channels.
pub fn stitch(image1: Image, image2: Image, options: Stitch) -> Result<Image, KernelError> {
    let image2 = if options.match_image_size {
        matched(image1.first(), image2, options.direction)?
    } else {
        image2
    };
    let (first, second) = match options.direction.second_comes_first() {
        true => (image2, image1),
        false => (image1, image2),
    };
    let length = first.frames().len().max(second.frames().len());
    let last =
        |image: &Image, i: usize| Arc::clone(&image.frames()[i.min(image.frames().len() - 1)]);
    let pairs = (0..length)
        .map(|i| (last(&first, i), last(&second, i)))
        .collect();
    Ok(Image::new(map_distinct(pairs, |(first, second)| {
        Ok(Arc::new(joined(&first, &second, options)?))
    })?)?)
}

/// The second picture with the height of the first, or for a vertical stitch with its width.
fn matched(first: &Frame, second: Image, direction: Direction) -> Result<Image, KernelError> {
    let aspect = second.first().width() as f64 / second.first().height() as f64;
    let (width, height) = match direction.is_horizontal() {
        true => ((first.height() as f64 * aspect) as usize, first.height()),
        false => (first.width(), (first.width() as f64 / aspect) as usize),
    };
    scale::common_upscale(second, width, height, Method::Lanczos, Crop::Disabled)
}

/// A frame centred in a box, the odd pixel after it, with the channels of the result.
struct Boxed<'a> {
    frame: &'a Frame,
    left: usize,
    top: usize,
    channels: usize,
    fill: Vec<f32>,
}

impl<'a> Boxed<'a> {
    fn new(frame: &'a Frame, width: usize, height: usize, channels: usize, padding: f32) -> Self {
        let fill = (0..channels)
            .map(|c| if c < frame.channels() { padding } else { 1.0 })
            .collect();
        Self {
            frame,
            left: (width - frame.width()) / 2,
            top: (height - frame.height()) / 2,
            channels,
            fill,
        }
    }

    fn copy_row(&self, y: usize, out: &mut [f32]) {
        repeat_pixel(&self.fill, out);
        let Some(y) = y.checked_sub(self.top).filter(|&y| y < self.frame.height()) else {
            return;
        };
        let pixels = out[self.left * self.channels..].chunks_exact_mut(self.channels);
        for (pixel, from) in pixels.zip(self.frame.row(y).chunks_exact(self.frame.channels())) {
            pixel[..from.len()].copy_from_slice(from);
            pixel[from.len()..].fill(1.0);
        }
    }
}

fn joined(first: &Frame, second: &Frame, options: Stitch) -> Result<Frame, KernelError> {
    let channels = first.channels().max(second.channels());
    let gap = options.spacing_width.next_multiple_of(2);
    let spacing = options.spacing_color.pixel(channels);
    let padding = options.spacing_color.padding();
    let horizontal = options.direction.is_horizontal();
    let (width, height) = match horizontal {
        true => (
            first.width() + gap + second.width(),
            first.height().max(second.height()),
        ),
        false => (
            first.width().max(second.width()),
            first.height() + gap + second.height(),
        ),
    };
    let boxed = |frame| match horizontal {
        true => Boxed::new(frame, frame.width(), height, channels, padding),
        false => Boxed::new(frame, width, frame.height(), channels, padding),
    };
    let (before, after) = (boxed(first), boxed(second));
    let mut data = unwritten(height, width, channels)?;
    fill_rows(&mut data, width * channels, |y, out| {
        if horizontal {
            let (left, rest) = out.split_at_mut(first.width() * channels);
            let (between, right) = rest.split_at_mut(gap * channels);
            before.copy_row(y, left);
            repeat_pixel(&spacing, between);
            after.copy_row(y, right);
        } else if y < first.height() {
            before.copy_row(y, out);
        } else if y < first.height() + gap {
            repeat_pixel(&spacing, out);
        } else {
            after.copy_row(y - first.height() - gap, out);
        }
    });
    Ok(Frame::new(height, width, channels, data))
}

fn repeat_pixel(pixel: &[f32], out: &mut [f32]) {
    out.chunks_exact_mut(pixel.len())
        .for_each(|out| out.copy_from_slice(pixel));
}

#[cfg(test)]
mod tests;

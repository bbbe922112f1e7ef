//! Pictures laid over each other, each with its place, its turn and its blend mode, in linear light.
//!
//! A picture is brought to its size and turned in 8-bit levels, as the compositor of the recorded server does; what it covers is
//! computed in floats.

mod blend;
mod turn;

use std::f64::consts::PI;

pub use blend::Blend;

use super::KernelError;
use super::frames;
use super::scale::{self, Crop, Method};
use crate::pixels::{Frame, unwritten};

/// Red, green, blue and opacity.
const CHANNELS: usize = 4;

/// How a picture lies on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Columns from the left side of the canvas to that of the picture before it is turned.
    pub x: f64,
    /// Rows from the top of the canvas.
    pub y: f64,
    /// Its width on the canvas.
    pub width: f64,
    /// Its height on the canvas.
    pub height: f64,
    /// How far it is turned around its middle, clockwise, in radians.
    pub rotation: f64,
    /// Whether left and right change places, before it is turned.
    pub flip_x: bool,
    /// Whether top and bottom change places, before it is turned.
    pub flip_y: bool,
    /// From 0 (not seen) to 1.
    pub opacity: f32,
    /// How its colours meet those below.
    pub blend: Blend,
}

/// The rectangle of whole pixels around a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Its first column.
    pub x: i64,
    /// Its first row.
    pub y: i64,
    /// Its columns.
    pub width: i64,
    /// Its rows.
    pub height: i64,
}

impl Placement {
    /// The pixels that the picture can cover.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let (half_width, half_height) = (self.width / 2.0, self.height / 2.0);
        let (x, y) = (self.x + half_width, self.y + half_height);
        let (sin, cos) = (self.rotation.sin(), self.rotation.cos());
        let corners = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)];
        let corners = corners.map(|(right, down)| (right * half_width, down * half_height));
        let xs = corners.map(|(dx, dy)| x + dx * cos - dy * sin);
        let ys = corners.map(|(dx, dy)| y + dx * sin + dy * cos);
        let span = |at: [f64; 4]| {
            let first = at.into_iter().fold(f64::INFINITY, f64::min).floor() as i64;
            let last = at.into_iter().fold(f64::NEG_INFINITY, f64::max).ceil() as i64;
            (first, last.saturating_sub(first).max(1))
        };
        let ((x, width), (y, height)) = (span(xs), span(ys));
        Bounds {
            x,
            y,
            width,
            height,
        }
    }

    /// Columns and rows of the picture before it is turned.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let side = |side: f64| side.round_ties_even().max(1.0) as usize;
        (side(self.width), side(self.height))
    }
}

/// What pictures are laid on: transparent at first, its colours in linear light.
#[derive(Debug)]
pub struct Canvas {
    width: usize,
    height: usize,
    data: Vec<f32>,
}

impl Canvas {
    /// An empty canvas.
    ///
    /// # Errors
    /// If it has no pixels, or more than one frame may hold.
    pub fn new(width: usize, height: usize) -> Result<Self, KernelError> {
        let mut data = frames::unwritten(height, width, CHANNELS)?;
        data.fill(0.0);
        Ok(Self {
            width,
            height,
            data,
        })
    }

    /// Covers the whole canvas with a colour.
    pub fn fill(&mut self, color: [u8; 3], opacity: f32) {
        let [red, green, blue] = color.map(|level| blend::to_linear(f32::from(level) / 255.0));
        for below in self.data.as_chunks_mut().0 {
            *below = Blend::NORMAL.over(*below, [red, green, blue, 1.0], opacity);
        }
    }

    /// Lays a picture on it. A picture of 3 channels is opaque; `alpha`, of the same size, takes the place of a fourth one.
    /// `check` is called for every row and ends the work with its error.
    ///
    /// # Errors
    /// If the picture would have more pixels than one frame may hold, or `check` says so.
    pub fn lay<E: From<KernelError>>(
        &mut self,
        picture: &Frame,
        alpha: Option<&Frame>,
        placement: &Placement,
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let bounds = placement.bounds();
        let rows = overlap(bounds.y, bounds.height, self.height);
        let columns = overlap(bounds.x, bounds.width, self.width);
        if rows.is_empty() || columns.is_empty() {
            return Ok(());
        }
        let levels = turned(levels(picture, alpha), placement, &mut check)?;
        // Turned, a picture may have a pixel more or less than what it covers: it lies in the middle.
        let inset = |bound: i64, side: usize| (bound - side as i64).div_euclid(2);
        let (left, top) = (
            bounds.x + inset(bounds.width, levels.width),
            bounds.y + inset(bounds.height, levels.height),
        );
        for y in rows {
            check()?;
            let row = &mut self.data[y * self.width * CHANNELS..][..self.width * CHANNELS];
            for x in columns.clone() {
                let pixel = levels.pixel(x as i64 - left, y as i64 - top);
                let Some(pixel) = pixel.filter(|pixel| pixel[3] > 0) else {
                    continue;
                };
                let [red, green, blue, alpha] = pixel.map(|level| f32::from(level) / 255.0);
                let [red, green, blue] = [red, green, blue].map(blend::to_linear);
                let below = &mut row.as_chunks_mut().0[x];
                let above = [red, green, blue, alpha];
                *below = placement.blend.over(*below, above, placement.opacity);
            }
        }
        Ok(())
    }

    /// The picture that it shows, with its opacity as the fourth channel.
    #[must_use]
    pub fn finish(mut self) -> Frame {
        for [red, green, blue, alpha] in self.data.as_chunks_mut().0 {
            for color in [red, green, blue] {
                *color = blend::to_encoded(color.clamp(0.0, 1.0));
            }
            *alpha = alpha.clamp(0.0, 1.0);
        }
        Frame::new(self.height, self.width, CHANNELS, self.data)
    }
}

/// The places from `first` on that lie on a side of the canvas.
fn overlap(first: i64, count: i64, side: usize) -> std::ops::Range<usize> {
    let inside = |at: i64| at.clamp(0, side as i64) as usize;
    inside(first)..inside(first.saturating_add(count))
}

/// A picture of 8-bit levels with an opacity.
#[derive(Debug)]
struct Levels {
    width: usize,
    height: usize,
    data: Vec<u8>,
}

impl Levels {
    /// The pixel at a place, if there is one.
    fn pixel(&self, x: i64, y: i64) -> Option<[u8; CHANNELS]> {
        let inside = |at: i64, side: usize| usize::try_from(at).ok().filter(|at| *at < side);
        let (x, y) = (inside(x, self.width)?, inside(y, self.height)?);
        self.data.as_chunks().0.get(y * self.width + x).copied()
    }
}

/// Rounded levels of a picture of 1, 3 or 4 channels, and of `alpha` where there is one.
fn levels(picture: &Frame, alpha: Option<&Frame>) -> Levels {
    let (height, width, channels) = picture.shape();
    let level = |sample: f32| (sample * 255.0).round_ties_even().clamp(0.0, 255.0) as u8;
    let mut data = Vec::with_capacity(width * height * CHANNELS);
    for (at, pixel) in picture.data().chunks_exact(channels).enumerate() {
        let color = |at: usize| level(pixel[if channels < 3 { 0 } else { at }]);
        let opacity = match alpha {
            Some(alpha) => level(alpha.data()[at]),
            None if channels == CHANNELS => level(pixel[3]),
            None => u8::MAX,
        };
        data.extend([color(0), color(1), color(2), opacity]);
    }
    Levels {
        width,
        height,
        data,
    }
}

/// A picture flipped, brought to its size and turned.
fn turned<E: From<KernelError>>(
    mut levels: Levels,
    placement: &Placement,
    check: &mut impl FnMut() -> Result<(), E>,
) -> Result<Levels, E> {
    let stride = levels.width * CHANNELS;
    if placement.flip_x {
        for row in levels.data.chunks_exact_mut(stride) {
            row.as_chunks_mut::<CHANNELS>().0.reverse();
        }
    }
    if placement.flip_y {
        let rows = levels.data.chunks_exact(stride).rev();
        levels.data = rows.flatten().copied().collect();
    }
    let (width, height) = placement.size();
    if (width, height) != (levels.width, levels.height) {
        check()?;
        let frame = Frame::from_bytes(levels.height, levels.width, CHANNELS, &levels.data);
        let resized = scale::resize(frame.into(), width, height, Method::Lanczos, Crop::Disabled)?;
        levels = Levels {
            width,
            height,
            data: resized.to_bytes(),
        };
    }
    match placement.rotation {
        0.0 => Ok(levels),
        rotation => turn::by_degrees(levels, -(rotation * (180.0 / PI)), check),
    }
}

/// The opacity of a picture under a mask of any size, which hides where it is 1; `None` if it is opaque everywhere.
///
/// # Errors
/// If the picture has more pixels than one frame may hold.
pub fn opacity(
    picture: &Frame,
    mask: Option<std::sync::Arc<Frame>>,
) -> Result<Option<Frame>, KernelError> {
    let (height, width, channels) = picture.shape();
    let own = |at: usize| match channels {
        CHANNELS => picture.data()[at * CHANNELS + 3],
        _ => 1.0,
    };
    let mut data = unwritten(height * width);
    match mask {
        None if channels != CHANNELS => return Ok(None),
        None => data
            .iter_mut()
            .enumerate()
            .for_each(|(at, to)| *to = own(at)),
        Some(mask) => {
            let mask = scale::resize(mask, width, height, Method::Bilinear, Crop::Disabled)?;
            for (at, (to, hidden)) in data.iter_mut().zip(mask.data()).enumerate() {
                *to = own(at) * (1.0 - hidden).clamp(0.0, 1.0);
            }
        }
    }
    Ok(Some(Frame::new(height, width, 1, data)))
}

#[cfg(test)]
mod tests;

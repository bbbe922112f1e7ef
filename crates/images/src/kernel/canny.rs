//! Canny edges: where the brightness changes most along the direction of its change.

use std::sync::Arc;

use super::KernelError;
use super::channel::mask_to_image;
use super::frames::{map_distinct, unwritten};
use super::rows::fill_rows;
use crate::parallel::fill_bands;
use crate::pixels::{Frame, Image, Mask};

/// Finds edges: 1 on an edge, else 0, on three channels.
///
/// A pixel starts an edge where the change is greater than `high`, and continues one where it is greater than `low`.
///
/// # Errors
/// If the picture is smaller than 3x3, has two channels, or `low` is greater than `high`.
pub fn canny(image: Image, low: f64, high: f64) -> Result<Image, KernelError> {
    if low > high {
        return Err(KernelError::ThresholdOrder);
    }
    let frames = map_distinct(image.into_frames(), |frame| {
        let blurred = blurred(&grey(&frame)?)?;
        let slopes = Slopes::of(&blurred)?;
        Ok(Arc::new(slopes.edges(low as f32, high as f32)?))
    })?;
    mask_to_image(Mask::new(frames)?)
}

fn grey(frame: &Frame) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    let mut data = unwritten(height, width, 1)?;
    match channels {
        1 => data.copy_from_slice(frame.data()),
        2 => {
            return Err(KernelError::MissingChannels {
                needed: 3,
                found: 2,
            });
        }
        _ => fill_bands(&mut data, 1, |first, band| {
            let pixels = frame.data()[first * channels..].chunks_exact(channels);
            for (grey, pixel) in band.iter_mut().zip(pixels) {
                *grey = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
            }
        }),
    }
    Ok(Frame::new(height, width, 1, data))
}

/// The Gaussian reaches two pixels, and the border is mirrored.
const RADIUS: usize = 2;

/// A Gaussian of 5x5 and sigma 1, along the rows first.
fn blurred(frame: &Frame) -> Result<Frame, KernelError> {
    let (height, width, _) = frame.shape();
    if width <= RADIUS || height <= RADIUS {
        return Err(KernelError::RadiusTooLarge {
            radius: RADIUS,
            width,
            height,
        });
    }
    let weights = gaussian();
    let mut along = unwritten(height, width, 1)?;
    fill_bands(&mut along, width, |first, band| {
        let mut padded = vec![0.0; width + 2 * RADIUS];
        for (y, out) in band.chunks_exact_mut(width).enumerate() {
            let row = frame.row(first + y);
            padded[RADIUS..RADIUS + width].copy_from_slice(row);
            for distance in 1..=RADIUS {
                padded[RADIUS - distance] = row[distance];
                padded[RADIUS + width - 1 + distance] = row[width - 1 - distance];
            }
            let shifted: [&[f32]; 5] = [
                &padded,
                &padded[1..],
                &padded[2..],
                &padded[3..],
                &padded[4..],
            ];
            weighted(shifted, weights, out);
        }
    });
    let along = Frame::new(height, width, 1, along);
    let mut across = unwritten(height, width, 1)?;
    fill_rows(&mut across, width, |y, out| {
        let row = |offset: isize| {
            let y = (y as isize + offset).unsigned_abs();
            along.row(if y < height { y } else { 2 * (height - 1) - y })
        };
        weighted([row(-2), row(-1), row(0), row(1), row(2)], weights, out);
    });
    Ok(Frame::new(height, width, 1, across))
}

fn gaussian() -> [f32; 5] {
    // exp(-2) and exp(-1/2), which as constants are the same everywhere.
    const FAR: f32 = 0.135_335_28;
    const NEAR: f32 = 0.606_530_7;
    let sum = FAR + NEAR + 1.0 + NEAR + FAR;
    [FAR, NEAR, 1.0, NEAR, FAR].map(|weight| weight / sum)
}

fn weighted(rows: [&[f32]; 5], weights: [f32; 5], out: &mut [f32]) {
    let [a, b, c, d, e] = rows;
    let [wa, wb, wc, wd, we] = weights;
    for (((((out, a), b), c), d), e) in out.iter_mut().zip(a).zip(b).zip(c).zip(d).zip(e) {
        *out = a * wa + b * wb + c * wc + d * wd + e * we;
    }
}

/// Which neighbours lie along the change, as an offset of columns and rows; its opposite is meant too.
#[derive(Clone, Copy)]
enum Along {
    Row,
    Falling,
    Column,
    Rising,
}

/// How much the brightness changes at each pixel, and in which of eight directions.
struct Slopes {
    magnitude: Frame,
    along: Vec<Along>,
}

impl Slopes {
    /// By the Sobel operator, not normalised, the border repeated.
    fn of(frame: &Frame) -> Result<Self, KernelError> {
        let (height, width, _) = frame.shape();
        let mut magnitude = unwritten(height, width, 1)?;
        fill_rows(&mut magnitude, width, |y, out| {
            let slopes = RowSlopes::new(frame, y);
            for (x, out) in out.iter_mut().enumerate() {
                let (gx, gy) = slopes.at(x);
                *out = (gx * gx + gy * gy + 1e-6).sqrt();
            }
        });
        let mut along = vec![Along::Row; height * width];
        fill_rows(&mut along, width, |y, out| {
            let slopes = RowSlopes::new(frame, y);
            for (x, out) in out.iter_mut().enumerate() {
                *out = direction(slopes.at(x));
            }
        });
        Ok(Self {
            magnitude: Frame::new(height, width, 1, magnitude),
            along,
        })
    }

    fn edges(&self, low: f32, high: f32) -> Result<Frame, KernelError> {
        let (height, width, _) = self.magnitude.shape();
        let mut edges = unwritten(height, width, 1)?;
        fill_rows(&mut edges, width, |y, out| {
            for (x, out) in out.iter_mut().enumerate() {
                let here = self.magnitude.row(y)[x];
                *out = match self.is_ridge(x, y, here) {
                    true if here > high => STRONG,
                    true if here > low => WEAK,
                    true | false => 0.0,
                };
            }
        });
        follow(&mut edges, width);
        Ok(Frame::new(height, width, 1, edges))
    }

    /// Whether both neighbours along the change are smaller; beyond the border there is no change.
    fn is_ridge(&self, x: usize, y: usize, here: f32) -> bool {
        let width = self.magnitude.width();
        let (dx, dy) = match self.along[y * width + x] {
            Along::Row => (1, 0),
            Along::Falling => (1, 1),
            Along::Column => (0, 1),
            Along::Rising => (1, -1),
        };
        let at = |x: Option<usize>, y: Option<usize>| match (x, y) {
            (Some(x), Some(y)) if x < width && y < self.magnitude.height() => {
                self.magnitude.row(y)[x]
            }
            (_, _) => 0.0,
        };
        let ahead = at(x.checked_add_signed(dx), y.checked_add_signed(dy));
        let behind = at(x.checked_add_signed(-dx), y.checked_add_signed(-dy));
        here > ahead && here > behind
    }
}

/// The slopes of one row.
struct RowSlopes<'a> {
    above: &'a [f32],
    here: &'a [f32],
    below: &'a [f32],
}

impl<'a> RowSlopes<'a> {
    fn new(frame: &'a Frame, y: usize) -> Self {
        let below = frame.row((y + 1).min(frame.height() - 1));
        Self {
            above: frame.row(y.saturating_sub(1)),
            here: frame.row(y),
            below,
        }
    }

    #[inline(always)]
    fn at(&self, x: usize) -> (f32, f32) {
        let (left, right) = (x.saturating_sub(1), (x + 1).min(self.here.len() - 1));
        let gx = (self.above[right] - self.above[left])
            + 2.0 * (self.here[right] - self.here[left])
            + (self.below[right] - self.below[left]);
        let gy = (self.below[left] - self.above[left])
            + 2.0 * (self.below[x] - self.above[x])
            + (self.below[right] - self.above[right]);
        (gx, gy)
    }
}

/// The angle rounded to 45 degrees; opposite directions are the same.
fn direction((gx, gy): (f32, f32)) -> Along {
    // The tangent of 22.5 degrees, up to where an axis is the nearest direction.
    const NEAREST_AXIS: f32 = std::f32::consts::SQRT_2 - 1.0;
    if gy.abs() <= NEAREST_AXIS * gx.abs() {
        Along::Row
    } else if gx.abs() <= NEAREST_AXIS * gy.abs() {
        Along::Column
    } else if (gx > 0.0) == (gy > 0.0) {
        Along::Falling
    } else {
        Along::Rising
    }
}

const STRONG: f32 = 1.0;
const WEAK: f32 = 0.5;

/// Makes the weak pixels strong that hang on a strong one over any of the eight neighbours, and drops the rest.
fn follow(edges: &mut [f32], width: usize) {
    let mut open: Vec<usize> = (0..edges.len()).filter(|&i| edges[i] == STRONG).collect();
    while let Some(i) = open.pop() {
        let (x, y) = (i % width, i / width);
        for ny in y.saturating_sub(1)..(y + 2).min(edges.len() / width) {
            for nx in x.saturating_sub(1)..(x + 2).min(width) {
                let neighbour = ny * width + nx;
                if edges[neighbour] == WEAK {
                    edges[neighbour] = STRONG;
                    open.push(neighbour);
                }
            }
        }
    }
    edges
        .iter_mut()
        .filter(|edge| **edge == WEAK)
        .for_each(|edge| *edge = 0.0);
}

#[cfg(test)]
mod tests;

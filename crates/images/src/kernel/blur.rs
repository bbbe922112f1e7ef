//! ImageBlur and ImageSharpen: one Gaussian, mirrored at the borders.
//!
//! The kernel spans -1..1 whatever the radius, so sigma is relative to the radius, not pixels. Where it is cheap the square of
//! weights is summed in the recorded order, which gives the recorded samples exactly; elsewhere the columns are summed first,
//! then the rows, which is the same but for rounding and costs the radius instead of its square.

mod separable;
mod square;
mod weights;

use std::sync::Arc;

use super::KernelError;
use super::frames::each;
use crate::pixels::{Frame, Image};

/// Products that a frame may cost the exact way: a tenth of a second of one thread.
const EXACT_PRODUCTS: usize = 1 << 27;

/// ImageBlur. The result is not clamped; a radius of 0 leaves the picture alone.
///
/// # Errors
/// If the radius does not stay inside the picture.
pub fn blur(image: Image, radius: usize, sigma: f64) -> Result<Image, KernelError> {
    convolve(image, radius, |frame, exact| match exact {
        true => square::convolve(
            frame,
            &weights::gaussian(radius, sigma),
            #[inline(always)]
            |sum| sum,
        ),
        false => separable::convolve(
            frame,
            &weights::gaussian_line(radius, sigma),
            |_, blurred| blurred,
        ),
    })
}

/// ImageSharpen: the picture plus `10 alpha` times what a blur would take away, clamped to 0..1.
///
/// # Errors
/// If the radius does not stay inside the picture.
pub fn sharpen(image: Image, radius: usize, sigma: f64, alpha: f64) -> Result<Image, KernelError> {
    let strength = (10.0 * alpha) as f32;
    convolve(image, radius, |frame, exact| match exact {
        true => square::convolve(
            frame,
            &weights::sharpening(radius, sigma, strength),
            #[inline(always)]
            |sum| sum.clamp(0.0, 1.0),
        ),
        false => separable::convolve(
            frame,
            &weights::gaussian_line(radius, sigma),
            |sample, blurred| (sample + strength * (sample - blurred)).clamp(0.0, 1.0),
        ),
    })
}

fn convolve(
    image: Image,
    radius: usize,
    f: impl Fn(&Frame, bool) -> Result<Frame, KernelError> + Sync + Send,
) -> Result<Image, KernelError> {
    let (height, width, _) = image.first().shape();
    if radius == 0 {
        return Ok(image);
    }
    if radius >= height || radius >= width {
        return Err(KernelError::RadiusTooLarge {
            radius,
            width,
            height,
        });
    }
    let side = 2 * radius + 1;
    let exact = image.first().data().len().saturating_mul(side * side) <= EXACT_PRODUCTS;
    each(image, |frame| Ok(Arc::new(f(&frame, exact)?)))
}

/// The position inside the length that `position`, counted from `length` on too, mirrors; the outermost is not repeated.
fn reflected(position: usize, length: usize) -> usize {
    if position < length {
        position
    } else {
        2 * (length - 1) - position
    }
}

/// Fills the margins with the pixels next to them in reverse order; the outermost pixel is not repeated.
fn mirror(padded: &mut [f32], radius: usize, channels: usize) {
    let last = padded.len() / channels - radius - 1;
    let mut copy = |from: usize, to: usize| {
        padded.copy_within(from * channels..(from + 1) * channels, to * channels)
    };
    for distance in 1..=radius {
        copy(radius + distance, radius - distance);
        copy(last - distance, last + distance);
    }
}

#[cfg(test)]
mod tests;

//! Resizing with the five upscale methods, and the crop that keeps an aspect ratio.
//!
//! The arithmetic follows the recorded server step by step (which sums are made in which order, and where they are rounded),
//! because a result is truncated to 8 bits later and the smallest difference then shows as a level.

mod area;
mod interpolate;
mod lanczos;
mod nearest;
mod position;
mod size;
mod taps;
mod view;

use std::sync::Arc;

pub(super) use lanczos::{premultiply, unpremultiply};
pub use size::{center_crop, max_dimension, min_dimension, scaled_by, scaled_to, total_pixels};

use super::KernelError;
use super::frames;
use crate::pixels::{Frame, Image, Mask};
use view::View;

/// How a pixel of the result is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The source pixel under the centre.
    NearestExact,
    /// Linear between two pixels each way, without antialiasing.
    Bilinear,
    /// Cubic (a = -0.75) over four pixels each way, without antialiasing; may leave the range 0..1.
    Bicubic,
    /// The mean of the source pixels that are touched.
    Area,
    /// Windowed sinc (a = 3), antialiased, on 8-bit samples; for 3 or 4 channels.
    Lanczos,
}

/// What happens to a picture of another aspect ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crop {
    /// It is stretched.
    Disabled,
    /// The longer side is cut evenly at both ends first.
    Center,
}

/// Resizes every frame to exactly `width` x `height` (execution contract 3b, `common_upscale`).
///
/// # Errors
/// If the size is 0 or beyond one frame, or lanczos gets other than 3 or 4 channels.
pub fn common_upscale(
    image: Image,
    width: usize,
    height: usize,
    method: Method,
    crop: Crop,
) -> Result<Image, KernelError> {
    frames::each(image, |frame| resize(frame, width, height, method, crop))
}

/// Resizes one frame; a frame that already has the size is passed on, unless the method changes its samples.
///
/// # Errors
/// As [`common_upscale`].
pub fn resize(
    frame: Arc<Frame>,
    width: usize,
    height: usize,
    method: Method,
    crop: Crop,
) -> Result<Arc<Frame>, KernelError> {
    let (source_height, source_width, channels) = frame.shape();
    frames::samples(height, width, channels)?;
    frames::samples(source_height, source_width, channels)?;
    if (width, height) == (source_width, source_height) && method != Method::Lanczos {
        return Ok(frame);
    }
    let view = match crop {
        Crop::Disabled => View::whole(&frame),
        Crop::Center => {
            let (x, y) = center_crop(source_width, source_height, width, height);
            View::inside(&frame, x, y)
        }
    };
    let resized = match method {
        Method::NearestExact => nearest::resize(view, width, height),
        Method::Bilinear => interpolate::bilinear(view, width, height),
        Method::Bicubic => interpolate::bicubic(view, width, height),
        Method::Area => area::resize(view, width, height),
        Method::Lanczos => lanczos::resize(view, width, height)?,
    };
    Ok(Arc::new(resized))
}

/// Stretches masks to `width` x `height`, bilinear.
///
/// # Errors
/// If the size is 0 or beyond one frame.
pub fn resize_mask(mask: Mask, width: usize, height: usize) -> Result<Mask, KernelError> {
    frames::each_mask(mask, |frame| {
        resize(frame, width, height, Method::Bilinear, Crop::Disabled)
    })
}

#[cfg(test)]
mod tests;

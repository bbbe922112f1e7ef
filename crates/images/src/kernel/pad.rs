//! Pictures on a larger canvas.

use std::sync::Arc;

use super::KernelError;
use super::frames::{each, samples, unwritten};
use super::rows::fill_rows;
use super::scale::{self, Crop, Method};
use crate::pixels::{Frame, Image, Mask};

/// Pixels to add at each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Margins {
    /// Columns at the left.
    pub left: usize,
    /// Rows at the top.
    pub top: usize,
    /// Columns at the right.
    pub right: usize,
    /// Rows at the bottom.
    pub bottom: usize,
}

impl Margins {
    /// Rows and columns of a frame with these at its sides, up to the largest number: no frame has as many.
    #[must_use]
    pub fn around(self, height: usize, width: usize) -> (usize, usize) {
        (
            height.saturating_add(self.top).saturating_add(self.bottom),
            width.saturating_add(self.left).saturating_add(self.right),
        )
    }
}

/// ResizeAndPadImage: the picture as large as it fits into `width` x `height`, centred (an odd pixel goes to the right or the
/// bottom) on `background`, which is 1 for white and 0 for black.
///
/// # Errors
/// If a side of the fitted picture would be 0, or as [`scale::common_upscale`].
pub fn resize_and_pad(
    image: Image,
    width: usize,
    height: usize,
    background: f32,
    method: Method,
) -> Result<Image, KernelError> {
    let (source_height, source_width, channels) = image.first().shape();
    samples(height, width, channels)?;
    let ratio = (width as f64 / source_width as f64).min(height as f64 / source_height as f64);
    let inner_width = (source_width as f64 * ratio) as usize;
    let inner_height = (source_height as f64 * ratio) as usize;
    let image = scale::common_upscale(image, inner_width, inner_height, method, Crop::Disabled)?;
    let (left, top) = ((width - inner_width) / 2, (height - inner_height) / 2);
    let margins = Margins {
        left,
        top,
        right: width - inner_width - left,
        bottom: height - inner_height - top,
    };
    each(image, |frame| framed(frame, margins, background))
}

/// ImagePadForOutpaint: grey around the picture, and one mask: 1 on what was added, 0 on the picture, and over `feathering`
/// pixels next to the added sides a soft edge, if the picture is more than twice as large both ways.
///
/// # Errors
/// If the result would be beyond one frame.
pub fn pad_for_outpaint(
    image: Image,
    margins: Margins,
    feathering: usize,
) -> Result<(Image, Mask), KernelError> {
    let (height, width, channels) = image.first().shape();
    let (outer_height, outer_width) = margins.around(height, width);
    samples(outer_height, outer_width, channels)?;
    let mask = outpaint_mask(height, width, margins, feathering)?;
    let image = each(image, |frame| framed(frame, margins, 0.5))?;
    Ok((image, Mask::new(vec![Arc::new(mask)])?))
}

fn framed(frame: Arc<Frame>, margins: Margins, background: f32) -> Result<Arc<Frame>, KernelError> {
    if margins == Margins::default() {
        return Ok(frame);
    }
    let (height, width, channels) = frame.shape();
    let (outer_height, outer_width) = margins.around(height, width);
    let mut data = unwritten(outer_height, outer_width, channels)?;
    fill_rows(&mut data, outer_width * channels, |y, out| {
        match y.checked_sub(margins.top).filter(|&y| y < height) {
            None => out.fill(background),
            Some(y) => {
                let (left, rest) = out.split_at_mut(margins.left * channels);
                let (inner, right) = rest.split_at_mut(width * channels);
                left.fill(background);
                inner.copy_from_slice(frame.row(y));
                right.fill(background);
            }
        }
    });
    Ok(Arc::new(Frame::new(
        outer_height,
        outer_width,
        channels,
        data,
    )))
}

fn outpaint_mask(
    height: usize,
    width: usize,
    margins: Margins,
    feathering: usize,
) -> Result<Frame, KernelError> {
    let (outer_height, outer_width) = margins.around(height, width);
    let mut data = unwritten(outer_height, outer_width, 1)?;
    let soft = feathering > 0 && feathering.saturating_mul(2) < height.min(width);
    // A side that was not extended is infinitely far away, and the far sides are one pixel farther than they look, as recorded.
    let distance =
        |margin: usize, distance: usize, far: usize| if margin == 0 { far } else { distance };
    fill_rows(&mut data, outer_width, |y, out| {
        match y.checked_sub(margins.top).filter(|&y| y < height) {
            None => out.fill(1.0),
            Some(y) => {
                let vertical = distance(margins.top, y, height).min(distance(
                    margins.bottom,
                    height - y,
                    height,
                ));
                let (left, rest) = out.split_at_mut(margins.left);
                let (inner, right) = rest.split_at_mut(width);
                left.fill(1.0);
                right.fill(1.0);
                if !soft {
                    inner.fill(0.0);
                } else {
                    for (x, sample) in inner.iter_mut().enumerate() {
                        let horizontal = distance(margins.left, x, width).min(distance(
                            margins.right,
                            width - x,
                            width,
                        ));
                        let inside = feathering.saturating_sub(vertical.min(horizontal)) as f64
                            / feathering as f64;
                        *sample = (inside * inside) as f32;
                    }
                }
            }
        }
    });
    Ok(Frame::new(outer_height, outer_width, 1, data))
}

#[cfg(test)]
mod tests;

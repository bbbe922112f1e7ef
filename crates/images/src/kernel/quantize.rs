//! ImageQuantize: a picture in few colours of its own, after Pillow.
//!
//! Median cut chooses the palette; every pixel then takes the palette's nearest colour, after one of three ways to dither.
//! All of it is integer arithmetic, so that a picture has one result.

mod colors;
mod dither;
mod median_cut;
mod nearest;

use std::sync::Arc;

use super::KernelError;
use super::channel::{needs_channels, with_channels};
use super::frames::each;
use crate::pixels::{Frame, Image};

/// How the error of a colour that the palette lacks is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dither {
    /// Not at all.
    None,
    /// It is passed on to the next pixels.
    FloydSteinberg,
    /// By a regular pattern of so many pixels each way.
    Bayer(BayerOrder),
}

/// The side of a Bayer pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BayerOrder {
    /// 2 x 2.
    Two,
    /// 4 x 4.
    Four,
    /// 8 x 8.
    Eight,
    /// 16 x 16.
    Sixteen,
}

/// Red, green and blue.
type Rgb = [u8; 3];

/// Quantizes every frame to at most `colors` colours of its own; a fourth channel is dropped.
///
/// # Errors
/// If the picture has fewer than three channels.
pub fn quantize(image: Image, colors: usize, dither: Dither) -> Result<Image, KernelError> {
    each(image, |frame| {
        needs_channels(&frame, 3)?;
        let frame = with_channels(frame, 3)?;
        let mut bytes = frame.to_bytes();
        let (pixels, _) = bytes.as_chunks_mut::<3>();
        let palette = median_cut::palette(pixels, colors.clamp(1, 256));
        match dither {
            Dither::None => dither::nearest(pixels, &palette),
            Dither::FloydSteinberg => dither::floyd_steinberg(pixels, frame.width(), &palette),
            Dither::Bayer(order) => dither::bayer(pixels, frame.width(), &palette, order),
        }
        Ok(Arc::new(Frame::from_bytes(
            frame.height(),
            frame.width(),
            3,
            &bytes,
        )))
    })
}

#[cfg(test)]
mod tests;

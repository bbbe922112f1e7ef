//! Moving between pictures and masks, and between numbers of channels.

use std::sync::Arc;

use super::KernelError;
use super::frames::{blank, each, map_distinct};
use super::rows::fill_bands;
use super::scale;
use crate::value::{Frame, Image, Mask};

/// A channel of a picture that becomes a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The first.
    Red,
    /// The second.
    Green,
    /// The third.
    Blue,
    /// The fourth, as stored: not inverted.
    Alpha,
}

impl Channel {
    fn index(self) -> usize {
        match self {
            Self::Red => 0,
            Self::Green => 1,
            Self::Blue => 2,
            Self::Alpha => 3,
        }
    }
}

/// ImageToMask: one channel of the picture.
///
/// # Errors
/// If the picture has no such channel.
pub fn image_to_mask(image: Image, channel: Channel) -> Result<Mask, KernelError> {
    let index = channel.index();
    let frames = map_distinct(image.into_frames(), |frame| {
        needs_channels(&frame, index + 1)?;
        pixels_to_mask(&frame, |pixel| pixel[index])
    })?;
    Ok(Mask::new(frames)?)
}

/// MaskToImage: three equal channels.
///
/// # Errors
/// If the picture would be beyond one frame.
pub fn mask_to_image(mask: Mask) -> Result<Image, KernelError> {
    let frames = map_distinct(mask.into_frames(), |frame| {
        let mut data = blank(frame.height(), frame.width(), 3)?;
        fill_bands(&mut data, 3, |first, band| {
            let (pixels, _) = band.as_chunks_mut::<3>();
            pixels
                .iter_mut()
                .zip(&frame.data()[first..])
                .for_each(|(pixel, &v)| *pixel = [v; 3]);
        });
        Ok(Arc::new(Frame::new(frame.height(), frame.width(), 3, data)))
    })?;
    Ok(Image::new(frames)?)
}

/// ImageColorToMask: 1 where the pixel's 8-bit levels, rounded half to even, are exactly `color` (`0xRRGGBB`), else 0.
///
/// # Errors
/// If the picture has fewer than three channels.
pub fn color_to_mask(image: Image, color: u32) -> Result<Mask, KernelError> {
    let [_, red, green, blue] = color.to_be_bytes().map(f32::from);
    let frames = map_distinct(image.into_frames(), |frame| {
        needs_channels(&frame, 3)?;
        pixels_to_mask(&frame, |pixel| {
            let equal = nearest_level(pixel[0]) == red
                && nearest_level(pixel[1]) == green
                && nearest_level(pixel[2]) == blue;
            f32::from(u8::from(equal))
        })
    })?;
    Ok(Mask::new(frames)?)
}

/// JoinImageWithAlpha: the picture's colours with `1 - mask` as alpha; the mask is stretched, the longer batch cut.
///
/// # Errors
/// If the picture has fewer than three channels.
pub fn join_alpha(image: Image, mask: Mask) -> Result<Image, KernelError> {
    let mask = scale::resize_mask(mask, image.first().width(), image.first().height())?;
    let pairs: Vec<_> = image
        .into_frames()
        .into_iter()
        .zip(mask.into_frames())
        .collect();
    let frames = map_distinct(pairs, |(picture, mask)| {
        needs_channels(&picture, 3)?;
        let channels = picture.channels();
        let mut data = blank(picture.height(), picture.width(), 4)?;
        fill_bands(&mut data, 4, |first, band| {
            let (pixels, _) = band.as_chunks_mut::<4>();
            let colours = picture.data()[first * channels..].chunks_exact(channels);
            for ((pixel, colour), &masked) in
                pixels.iter_mut().zip(colours).zip(&mask.data()[first..])
            {
                *pixel = [colour[0], colour[1], colour[2], 1.0 - masked];
            }
        });
        Ok(Arc::new(Frame::new(
            picture.height(),
            picture.width(),
            4,
            data,
        )))
    })?;
    Ok(Image::new(frames)?)
}

/// SplitImageWithAlpha: the colours, and a mask of `1 - alpha` (0 without alpha).
///
/// # Errors
/// If the picture has fewer than three channels.
pub fn split_alpha(image: Image) -> Result<(Image, Mask), KernelError> {
    needs_channels(image.first(), 3)?;
    let masks = map_distinct(image.frames().to_vec(), |frame| match frame.channels() {
        3 => Ok(Arc::new(Frame::filled(
            frame.height(),
            frame.width(),
            1,
            0.0,
        ))),
        _ => pixels_to_mask(&frame, |pixel| 1.0 - pixel[3]),
    })?;
    let colours = each(image, |frame| with_channels(frame, 3))?;
    Ok((colours, Mask::new(masks)?))
}

/// The frame with exactly `channels`: what is too many is dropped, what is missing is 1, as an opaque alpha is.
pub(super) fn with_channels(frame: Arc<Frame>, channels: usize) -> Result<Arc<Frame>, KernelError> {
    let (height, width, found) = frame.shape();
    if found == channels {
        return Ok(frame);
    }
    let mut data = blank(height, width, channels)?;
    let common = found.min(channels);
    fill_bands(&mut data, channels, |first, band| {
        let source = frame.data()[first * found..].chunks_exact(found);
        for (pixel, from) in band.chunks_exact_mut(channels).zip(source) {
            pixel[..common].copy_from_slice(&from[..common]);
            pixel[common..].fill(1.0);
        }
    });
    Ok(Arc::new(Frame::new(height, width, channels, data)))
}

pub(super) fn needs_channels(frame: &Frame, needed: usize) -> Result<(), KernelError> {
    match frame.channels() {
        found if found < needed => Err(KernelError::MissingChannels { needed, found }),
        _ => Ok(()),
    }
}

fn pixels_to_mask(
    frame: &Frame,
    f: impl Fn(&[f32]) -> f32 + Sync,
) -> Result<Arc<Frame>, KernelError> {
    let channels = frame.channels();
    let mut data = blank(frame.height(), frame.width(), 1)?;
    fill_bands(&mut data, 1, |first, band| {
        let pixels = frame.data()[first * channels..].chunks_exact(channels);
        band.iter_mut()
            .zip(pixels)
            .for_each(|(sample, pixel)| *sample = f(pixel));
    });
    Ok(Arc::new(Frame::new(frame.height(), frame.width(), 1, data)))
}

/// Adding a number this large leaves no bits after the point, rounded half to even; a library call per sample would be slow.
const NO_FRACTION: f32 = 12_582_912.0;

fn nearest_level(sample: f32) -> f32 {
    (sample.clamp(0.0, 1.0) * 255.0 + NO_FRACTION) - NO_FRACTION
}

#[cfg(test)]
mod tests;

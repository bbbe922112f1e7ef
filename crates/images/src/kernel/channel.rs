//! Moving between pictures and masks, and between numbers of channels.

use std::sync::Arc;

use super::KernelError;
use super::frames::{map_distinct, unwritten};
use super::rows::fill_rows_of;
use super::scale;
use crate::parallel::fill_bands;
use crate::pixels::{Frame, Image, Mask};

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
        let mut data = unwritten(frame.height(), frame.width(), 3)?;
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
    let [beyond, red, green, blue] = color.to_be_bytes().map(f32::from);
    let frames = map_distinct(image.into_frames(), |frame| {
        needs_channels(&frame, 3)?;
        pixels_to_mask(&frame, |pixel| {
            let equal = beyond == 0.0
                && nearest_level(pixel[0]) == red
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
        let (height, width, channels) = picture.shape();
        let mut data = unwritten(height, width, 4)?;
        fill_bands(&mut data, 4, |first, band| {
            let colours = &picture.data()[first * channels..];
            let alphas = mask.data()[first..].iter().map(|masked| 1.0 - masked);
            let pixels = band.as_chunks_mut().0.iter_mut();
            match channels {
                3 => join_pixels(pixels, colours.as_chunks::<3>().0, alphas),
                4 => join_pixels(pixels, colours.as_chunks::<4>().0, alphas),
                _ => join_pixels(pixels, colours.chunks_exact(channels), alphas),
            }
        });
        Ok(Arc::new(Frame::new(height, width, 4, data)))
    })?;
    Ok(Image::new(frames)?)
}

/// SplitImageWithAlpha: the colours, and a mask of `1 - alpha` (0 without alpha).
///
/// # Errors
/// If the picture has fewer than three channels.
pub fn split_alpha(image: Image) -> Result<(Image, Mask), KernelError> {
    needs_channels(image.first(), 3)?;
    let frames = map_distinct(image.into_frames(), |frame| {
        let (height, width, channels) = frame.shape();
        if channels == 3 {
            return Ok((frame, Arc::new(Frame::filled(height, width, 1, 0.0))));
        }
        let (mut colours, mut mask) = (unwritten(height, width, 3)?, unwritten(height, width, 1)?);
        fill_rows_of(
            [(&mut colours, 3 * width), (&mut mask, width)],
            &|y, [colours, mask]| {
                let out = colours.as_chunks_mut().0.iter_mut().zip(mask);
                match channels {
                    4 => split_pixels(out, frame.row(y).as_chunks::<4>().0),
                    _ => split_pixels(out, frame.row(y).chunks_exact(channels)),
                }
            },
        );
        let colours = Arc::new(Frame::new(height, width, 3, colours));
        Ok((colours, Arc::new(Frame::new(height, width, 1, mask))))
    })?;
    let (colours, masks) = frames.into_iter().unzip();
    Ok((Image::new(colours)?, Mask::new(masks)?))
}

/// Colours and alphas side by side; the compiler knows how far apart pixels are where the caller does.
#[inline(always)]
fn join_pixels<'a, P: AsRef<[f32]> + ?Sized + 'a>(
    out: impl Iterator<Item = &'a mut [f32; 4]>,
    colours: impl IntoIterator<Item = &'a P>,
    alphas: impl Iterator<Item = f32>,
) {
    for ((out, colour), alpha) in out.zip(colours).zip(alphas) {
        let colour = colour.as_ref();
        *out = [colour[0], colour[1], colour[2], alpha];
    }
}

#[inline(always)]
fn split_pixels<'a, P: AsRef<[f32]> + ?Sized + 'a>(
    out: impl Iterator<Item = (&'a mut [f32; 3], &'a mut f32)>,
    pixels: impl IntoIterator<Item = &'a P>,
) {
    for ((colour, masked), pixel) in out.zip(pixels) {
        let pixel = pixel.as_ref();
        *colour = [pixel[0], pixel[1], pixel[2]];
        *masked = 1.0 - pixel[3];
    }
}

/// The frame with exactly `channels`: what is too many is dropped, what is missing is 1, as an opaque alpha is.
pub(super) fn with_channels(frame: Arc<Frame>, channels: usize) -> Result<Arc<Frame>, KernelError> {
    let (height, width, found) = frame.shape();
    if found == channels {
        return Ok(frame);
    }
    let mut data = unwritten(height, width, channels)?;
    let common = found.min(channels);
    fill_bands(&mut data, channels, |first, band| {
        let source = &frame.data()[first * found..];
        match (found, channels) {
            (4, 3) => {
                let pixels = band.as_chunks_mut::<3>().0.iter_mut();
                let pixels = pixels.zip(source.as_chunks::<4>().0);
                pixels.for_each(|(pixel, &[red, green, blue, _])| *pixel = [red, green, blue]);
            }
            (3, 4) => {
                let pixels = band.as_chunks_mut::<4>().0.iter_mut();
                let pixels = pixels.zip(source.as_chunks::<3>().0);
                pixels.for_each(|(pixel, &[red, green, blue])| *pixel = [red, green, blue, 1.0]);
            }
            _ => {
                let pixels = band.chunks_exact_mut(channels);
                for (pixel, from) in pixels.zip(source.chunks_exact(found)) {
                    pixel[..common].copy_from_slice(&from[..common]);
                    pixel[common..].fill(1.0);
                }
            }
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
    let mut data = unwritten(frame.height(), frame.width(), 1)?;
    fill_bands(&mut data, 1, |first, band| {
        let pixels = &frame.data()[first * channels..];
        let out = band.iter_mut();
        // The compiler does better where it knows how far apart pixels are.
        match channels {
            3 => out
                .zip(pixels.as_chunks::<3>().0)
                .for_each(|(sample, pixel)| *sample = f(pixel)),
            4 => out
                .zip(pixels.as_chunks::<4>().0)
                .for_each(|(sample, pixel)| *sample = f(pixel)),
            _ => out
                .zip(pixels.chunks_exact(channels))
                .for_each(|(sample, pixel)| *sample = f(pixel)),
        }
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

//! Small JPEG pictures of frames, for people who watch a job.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::{CodecError, Raster};
use crate::pixels::Frame;

/// The longer side of a live preview.
const PREVIEW_SIDE: usize = 512;
const PREVIEW_QUALITY: u8 = 78;

/// Encodes a live preview: at most 512 pixels on the longer side, alpha left out.
///
/// # Errors
/// As [`encode_jpeg`].
pub fn preview_jpeg(frame: &Frame) -> Result<Vec<u8>, CodecError> {
    encode_jpeg(frame, PREVIEW_SIDE, PREVIEW_QUALITY)
}

/// Encodes a frame as JPEG of quality 1..=100, shrunk to fit `max_side` if it is larger. One or two channels give grey, more
/// give RGB; alpha is left out.
///
/// # Errors
/// [`CodecError::Unsupported`] for an empty frame, or one that stays above JPEG's 65535 pixels a side.
pub fn encode_jpeg(frame: &Frame, max_side: usize, quality: u8) -> Result<Vec<u8>, CodecError> {
    let (height, width, channels) = frame.shape();
    let raster = Raster::new(width, height, channels, frame.to_bytes());
    raster_to_jpeg(raster, max_side, quality)
}

/// As [`encode_jpeg`], of bytes.
///
/// # Errors
/// As [`encode_jpeg`].
pub fn raster_to_jpeg(raster: Raster, max_side: usize, quality: u8) -> Result<Vec<u8>, CodecError> {
    let Raster {
        width,
        height,
        channels,
        ..
    } = raster;
    if height == 0 || width == 0 || channels == 0 {
        return Err(CodecError::Unsupported("an empty picture".to_owned()));
    }
    let wanted = if channels < 3 { 1 } else { 3 };
    let bytes = visible(raster.data, channels, wanted);
    let (out_width, out_height) = fitted(width, height, max_side.max(1));
    let bytes = if (out_width, out_height) == (width, height) {
        bytes
    } else {
        shrunk(&bytes, (width, height), (out_width, out_height), wanted)?
    };
    let side = |side: usize| {
        u16::try_from(side).map_err(|_| unsupported("a JPEG of more than 65535 pixels a side"))
    };
    let color = if wanted == 1 {
        ColorType::Luma
    } else {
        ColorType::Rgb
    };
    let mut file = Vec::with_capacity(bytes.len() / 8);
    let mut encoder = Encoder::new(&mut file, quality.clamp(1, 100));
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder
        .encode(&bytes, side(out_width)?, side(out_height)?, color)
        .map_err(unsupported)?;
    Ok(file)
}

/// The first `wanted` of every pixel's `channels` bytes.
fn visible(bytes: Vec<u8>, channels: usize, wanted: usize) -> Vec<u8> {
    if channels == wanted {
        return bytes;
    }
    bytes
        .chunks_exact(channels)
        .flat_map(|pixel| pixel[..wanted].iter().copied())
        .collect()
}

/// The size within `max_side`, proportions kept, never below one pixel and never enlarged.
fn fitted(width: usize, height: usize, max_side: usize) -> (usize, usize) {
    let longer = width.max(height);
    if longer <= max_side {
        return (width, height);
    }
    let scaled = |side: usize| ((side * max_side + longer / 2) / longer).max(1);
    (scaled(width), scaled(height))
}

fn shrunk(
    bytes: &[u8],
    (width, height): (usize, usize),
    (out_width, out_height): (usize, usize),
    channels: usize,
) -> Result<Vec<u8>, CodecError> {
    let pixels = if channels == 1 {
        PixelType::U8
    } else {
        PixelType::U8x3
    };
    let source = ImageRef::new(width as u32, height as u32, bytes, pixels).map_err(unsupported)?;
    let mut target = Image::new(out_width as u32, out_height as u32, pixels);
    // Skipping to twice the size first makes the cost that of the preview, not of the picture.
    let algorithm = ResizeAlg::SuperSampling(FilterType::Box, 2);
    let options = ResizeOptions::new().resize_alg(algorithm);
    Resizer::new()
        .resize(&source, &mut target, &options)
        .map_err(unsupported)?;
    Ok(target.into_vec())
}

fn unsupported(reason: impl std::fmt::Display) -> CodecError {
    CodecError::Unsupported(reason.to_string())
}

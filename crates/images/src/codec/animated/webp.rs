//! WebP out, through libwebp: lossless or lossy, still or animated.

use std::sync::Arc;

use webp::{AnimEncodeError, AnimEncoder, AnimFrame, Encoder, PixelLayout, WebPConfig};

use super::riff::with_exif;
use super::{check_batch, frame_ms};
use crate::codec::{CodecError, Raster};
use crate::pixels::Frame;

/// The longest side that the format has.
const MAX_SIDE: usize = 16_383;

/// How SaveAnimatedWEBP encodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WebpOptions {
    /// Frames a second; each is shown `int(1000 / fps)` milliseconds.
    pub fps: f64,
    /// Whether every pixel is kept.
    pub lossless: bool,
    /// 0..=100: fidelity if lossy, effort if lossless.
    pub quality: u8,
    /// 0 = fast to 6 = small; the node's `default`, `fastest` and `slowest` are 4, 0 and 6.
    pub method: u8,
}

/// Encodes a batch of RGB or RGBA frames; one frame becomes a still picture, more an animation that repeats for ever.
///
/// The first keyword and text are kept in EXIF tag 0x0110 as `keyword:text`, the others in 0x010F, 0x010E and so on.
///
/// # Errors
/// [`CodecError::Unsupported`] for an empty batch, frames of mixed shapes or another number of channels, and options out of
/// range; [`CodecError::TooLarge`] above 16383 pixels a side.
pub fn encode_webp(
    frames: &[Arc<Frame>],
    options: &WebpOptions,
    texts: &[(String, String)],
) -> Result<Vec<u8>, CodecError> {
    let (height, width, channels) = check_batch(frames)?;
    check_sides(width, height)?;
    let config = config(options)?;
    let layout = if channels == 3 {
        PixelLayout::Rgb
    } else {
        PixelLayout::Rgba
    };
    let (wide, high) = (width as u32, height as u32);
    let bytes: Vec<Vec<u8>> = frames.iter().map(|frame| frame.to_bytes()).collect();
    let file = match bytes.as_slice() {
        [only] => Encoder::new(only, layout, wide, high)
            .encode_advanced(&config)
            .map_err(|error| refusal(&error))?,
        all => {
            let ms = frame_ms(options.fps);
            let mut encoder = AnimEncoder::new(wide, high, &config);
            for (index, bytes) in all.iter().enumerate() {
                let start = i32::try_from(index as u64 * u64::from(ms));
                let start = start.map_err(|_| {
                    CodecError::Unsupported("an animation of more than 24 days".to_owned())
                })?;
                encoder.add_frame(AnimFrame::new(bytes, layout, wide, high, start, None));
            }
            encoder.try_encode().map_err(|error| match error {
                AnimEncodeError::WebPEncodingError(error) => refusal(&error),
                AnimEncodeError::WebPMuxError(error) => refusal(&error),
                AnimEncodeError::WebPAnimEncoderGetError(reason) => CodecError::Unsupported(reason),
            })?
        }
    };
    if texts.is_empty() {
        return Ok(file.to_vec());
    }
    with_exif(&file, &exif(texts), (wide, high))
}

/// Encodes a picture of three or four channels as lossy WebP of quality 0..=100.
///
/// # Errors
/// As [`encode_webp`].
pub fn raster_to_webp(raster: &Raster, quality: u8) -> Result<Vec<u8>, CodecError> {
    check_sides(raster.width, raster.height)?;
    let layout = if raster.channels == 3 {
        PixelLayout::Rgb
    } else {
        PixelLayout::Rgba
    };
    let options = WebpOptions {
        fps: 1.0,
        lossless: false,
        quality,
        method: 4,
    };
    let (wide, high) = (raster.width as u32, raster.height as u32);
    let file = Encoder::new(&raster.data, layout, wide, high).encode_advanced(&config(&options)?);
    Ok(file.map_err(|error| refusal(&error))?.to_vec())
}

fn check_sides(width: usize, height: usize) -> Result<(), CodecError> {
    match height.max(width) {
        0..=MAX_SIDE => Ok(()),
        _ => Err(CodecError::TooLarge {
            what: "pixels a side of a WebP picture",
            limit: MAX_SIDE as u64,
        }),
    }
}

fn config(options: &WebpOptions) -> Result<WebPConfig, CodecError> {
    if options.quality > 100 || options.method > 6 {
        return Err(CodecError::Unsupported(
            "a WebP quality above 100 or method above 6".to_owned(),
        ));
    }
    let mut config = WebPConfig::new()
        .map_err(|()| CodecError::Unsupported("WebP by this libwebp".to_owned()))?;
    config.lossless = options.lossless.into();
    config.quality = options.quality.into();
    config.method = options.method.into();
    Ok(config)
}

/// EXIF of one directory, big-endian, its entries in the order of their tags and their texts behind it.
fn exif(texts: &[(String, String)]) -> Vec<u8> {
    const FIRST_TAG: u16 = 0x0110;
    const ASCII: u16 = 2;
    let tags = (0..=FIRST_TAG).rev();
    let mut entries: Vec<(u16, Vec<u8>)> = tags
        .zip(texts.iter().map(|(keyword, text)| ascii(keyword, text)))
        .collect();
    entries.reverse();
    let mut block = b"Exif\0\0MM\0*\0\0\0\x08".to_vec();
    block.extend((entries.len() as u16).to_be_bytes());
    let mut place = 8 + 2 + entries.len() * 12 + 4;
    let mut strings = Vec::new();
    for (tag, text) in &entries {
        block.extend(tag.to_be_bytes());
        block.extend(ASCII.to_be_bytes());
        block.extend((text.len() as u32).to_be_bytes());
        if let Ok(short) = <[u8; 4]>::try_from(padded(text)) {
            block.extend(short);
            continue;
        }
        block.extend((place as u32).to_be_bytes());
        strings.extend_from_slice(text);
        place += text.len();
        // Values start at even places.
        if place % 2 == 1 {
            strings.push(0);
            place += 1;
        }
    }
    block.extend([0; 4]);
    block.extend(strings);
    block
}

fn ascii(keyword: &str, text: &str) -> Vec<u8> {
    let characters = keyword
        .chars()
        .chain([':'])
        .chain(text.chars())
        .chain(['\0']);
    characters
        .map(|character| {
            if character.is_ascii() {
                character as u8
            } else {
                b'?'
            }
        })
        .collect()
}

/// A value of at most four bytes with zeros up to four, a longer one as it is.
fn padded(text: &[u8]) -> Vec<u8> {
    let mut value = text.to_vec();
    value.resize(text.len().max(4), 0);
    value
}

fn refusal(error: &impl std::fmt::Debug) -> CodecError {
    CodecError::Unsupported(format!("this WebP picture ({error:?})"))
}

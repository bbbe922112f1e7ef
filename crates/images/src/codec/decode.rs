//! Reads picture files as LoadImage and LoadImageMask do.
//!
//! What ComfyUI loads is what Pillow decodes, so each format follows Pillow: every frame as it is shown, turned by its EXIF
//! orientation, converted to 8-bit RGB, with the colour of transparent pixels kept. A damaged file gives what could be read and
//! black (JPEG: grey) for the rest, where the format allows it. Goldens: `load_*`.

mod bmp;
mod color;
mod exif;
mod gif;
mod ico;
mod jpeg;
mod png;
mod raster;
mod tiff;
mod webp;

use std::ops::ControlFlow;
use std::sync::Arc;

pub use self::raster::Raster;
use super::limits::Meter;
use super::{CodecError, Limits};
use crate::pixels::{Frame, Image, Mask};

/// A picture format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// PNG and APNG.
    Png,
    /// JPEG: baseline and progressive Huffman, 8 bits.
    Jpeg,
    /// WebP: lossy, lossless, animated.
    WebP,
    /// GIF.
    Gif,
    /// Windows bitmap.
    Bmp,
    /// TIFF.
    Tiff,
    /// Windows icon.
    Ico,
}

/// What a file's header says, nothing decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The format.
    pub format: Format,
    /// Columns as stored; an EXIF orientation may swap them with the rows when decoding.
    pub width: usize,
    /// Rows as stored.
    pub height: usize,
    /// Frames that the file announces, where its header does; a damaged file may hold fewer.
    pub frames: Option<usize>,
}

/// A channel of LoadImageMask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Red, 0..1.
    Red,
    /// Green, 0..1.
    Green,
    /// Blue, 0..1.
    Blue,
    /// Alpha, inverted: 1 = transparent.
    Alpha,
}

/// What LoadImage gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Every frame of the first one's size, RGB.
    pub image: Image,
    /// Per frame `1 - alpha`; 64x64 zeros per frame for a picture without alpha.
    pub mask: Mask,
}

/// Takes a decoded frame and says whether another is wanted.
type Emit<'a> = &'a mut dyn FnMut(Raster) -> Result<ControlFlow<()>, CodecError>;

/// Reads format, size and number of frames from the header.
///
/// # Errors
/// [`CodecError::Unrecognized`] for bytes of no known format, [`CodecError::Malformed`] for a broken header, and
/// [`CodecError::TooLarge`] for a side beyond the limits.
pub fn probe(bytes: &[u8], limits: &Limits) -> Result<Probe, CodecError> {
    let format = sniff(bytes).ok_or(CodecError::Unrecognized)?;
    let header = match format {
        Format::Png => png::header(bytes),
        Format::Jpeg => jpeg::header(bytes),
        Format::WebP => webp::header(bytes),
        Format::Gif => gif::header(bytes),
        Format::Bmp => bmp::header(bytes),
        Format::Tiff => tiff::header(bytes),
        Format::Ico => ico::header(bytes),
    }?;
    if header.width == 0 || header.height == 0 {
        return Err(CodecError::malformed(format.name(), "it has no pixels"));
    }
    Meter::new(limits).sides(header.width, header.height)?;
    Ok(Probe {
        format,
        width: header.width,
        height: header.height,
        frames: header.frames,
    })
}

/// Decodes every frame, as LoadImage does.
///
/// Frames that differ in size from the first are dropped. A frame without alpha among frames with alpha, which the original
/// cannot join, gets a mask of zeros.
///
/// # Errors
/// As [`probe`]; [`CodecError::Malformed`] if not even the first frame can be shown, [`CodecError::TooLarge`] before anything
/// beyond the limits is allocated, [`CodecError::Unsupported`] for features that are not read here.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, CodecError> {
    let mut images: Vec<Arc<Frame>> = Vec::new();
    let mut masks: Vec<Option<Frame>> = Vec::new();
    let format = each_frame(bytes, limits, &mut |raster| {
        let fits = images
            .first()
            .is_none_or(|first| (first.height(), first.width()) == (raster.height, raster.width));
        if fits {
            images.push(Arc::new(raster.rgb()));
            masks.push(raster.mask());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let image =
        Image::new(images).map_err(|_| CodecError::malformed(format.name(), "it has no frames"))?;
    let (height, width) = if masks.iter().any(Option::is_some) {
        (image.first().height(), image.first().width())
    } else {
        (64, 64)
    };
    let empty = Arc::new(Frame::filled(height, width, 1, 0.0));
    let masks = masks
        .into_iter()
        .map(|mask| mask.map_or_else(|| Arc::clone(&empty), Arc::new))
        .collect();
    let mask = Mask::new(masks).expect("one mask of one shape was made per frame");
    Ok(Decoded { image, mask })
}

/// Decodes one channel of the first frame, as LoadImageMask does: of the picture converted to RGBA, alpha inverted.
///
/// # Errors
/// As [`decode`].
pub fn decode_channel(bytes: &[u8], channel: Channel, limits: &Limits) -> Result<Mask, CodecError> {
    let index = match channel {
        Channel::Red => 0,
        Channel::Green => 1,
        Channel::Blue => 2,
        Channel::Alpha => 3,
    };
    let mut mask = None;
    let format = each_frame(bytes, limits, &mut |raster| {
        mask = Some(raster.channel(index));
        Ok(ControlFlow::Break(()))
    })?;
    let frame = mask.ok_or_else(|| CodecError::malformed(format.name(), "it has no frames"))?;
    Ok(Mask::new(vec![Arc::new(frame)]).expect("a channel is one frame of one channel"))
}

/// Decodes the first frame to bytes, turned as it is to be seen; what LoadImage makes floats of.
///
/// # Errors
/// As [`decode`]; the limits count bytes instead of floats.
pub fn decode_first(bytes: &[u8], limits: &Limits) -> Result<Raster, CodecError> {
    let mut first = None;
    let mut meter = Meter::of_bytes(limits);
    let format = metered(bytes, limits, &mut meter, &mut |raster| {
        first = Some(raster);
        Ok(ControlFlow::Break(()))
    })?;
    first.ok_or_else(|| CodecError::malformed(format.name(), "it has no frames"))
}

fn each_frame(bytes: &[u8], limits: &Limits, emit: Emit<'_>) -> Result<Format, CodecError> {
    metered(bytes, limits, &mut Meter::new(limits), emit)
}

fn metered(
    bytes: &[u8],
    limits: &Limits,
    meter: &mut Meter,
    emit: Emit<'_>,
) -> Result<Format, CodecError> {
    let Probe { format, .. } = probe(bytes, limits)?;
    match format {
        Format::Png => png::decode(bytes, meter, emit),
        Format::Jpeg => jpeg::decode(bytes, meter, emit),
        Format::WebP => webp::decode(bytes, meter, emit),
        Format::Gif => gif::decode(bytes, meter, emit),
        Format::Bmp => bmp::decode(bytes, meter, emit),
        Format::Tiff => tiff::decode(bytes, meter, emit),
        Format::Ico => ico::decode(bytes, meter, emit),
    }?;
    Ok(format)
}

/// What a format's header says.
struct Header {
    width: usize,
    height: usize,
    frames: Option<usize>,
}

impl Header {
    fn still(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            frames: Some(1),
        }
    }
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Png => png::NAME,
            Self::Jpeg => jpeg::NAME,
            Self::WebP => webp::NAME,
            Self::Gif => gif::NAME,
            Self::Bmp => bmp::NAME,
            Self::Tiff => tiff::NAME,
            Self::Ico => ico::NAME,
        }
    }

    /// The media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
            Self::Gif => "image/gif",
            Self::Bmp => "image/bmp",
            Self::Tiff => "image/tiff",
            Self::Ico => "image/x-icon",
        }
    }
}

fn sniff(bytes: &[u8]) -> Option<Format> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if starts(&super::chunks::SIGNATURE) {
        Some(Format::Png)
    } else if starts(b"\xff\xd8\xff") {
        Some(Format::Jpeg)
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some(Format::WebP)
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        Some(Format::Gif)
    } else if starts(b"II*\0") || starts(b"MM\0*") || starts(b"II+\0") || starts(b"MM\0+") {
        Some(Format::Tiff)
    } else if starts(b"BM") {
        Some(Format::Bmp)
    } else if starts(b"\0\0\x01\0") {
        Some(Format::Ico)
    } else {
        None
    }
}

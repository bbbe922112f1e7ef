//! TIFF, page by page, in the layouts that Pillow opens.
//!
//! Sixteen-bit colour keeps its high byte; 16-bit grey clips, 32-bit integers are divided by 255 and floats clip, as LoadImage's
//! conversions have it. L*a*b* would need a colour engine and is refused.

mod directories;
mod jpeg;
mod samples;

use std::borrow::Cow;
use std::io::Cursor;

use ::tiff::decoder::{Decoder, DecodingResult, Limits};
use ::tiff::tags::Tag;
use ::tiff::{TiffError, TiffResult};

use self::directories::Depaletted;
use self::samples::Layout;
use super::exif::Orientation;
use super::{Emit, Header};
use crate::codec::CodecError;
use crate::codec::limits::Meter;

pub(super) const NAME: &str = "TIFF";

type Source<'a> = Decoder<Cursor<&'a [u8]>>;

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    let file = Depaletted::new(bytes)?;
    let (width, height) = Decoder::new(Cursor::new(&*file.bytes))
        .and_then(|mut source| source.dimensions())
        .map_err(refusal)?;
    Ok(Header {
        width: width as usize,
        height: height as usize,
        frames: None,
    })
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let file = Depaletted::new(bytes)?;
    if matches!(file.bytes, Cow::Owned(_)) {
        meter.bytes(bytes.len() as u64)?;
    }
    let mut limits = Limits::default();
    // What pages take is counted below; entries are known to be no larger than the file.
    limits.decoding_buffer_size = meter.remaining_bytes().max(bytes.len());
    limits.intermediate_buffer_size = meter.remaining_bytes();
    let mut source = Decoder::new(Cursor::new(&*file.bytes))
        .map_err(refusal)?
        .with_limits(limits);
    loop {
        if page(&file, &mut source, meter, emit)? || !source.more_images() {
            return Ok(());
        }
        if source.next_image().is_err() {
            return Ok(());
        }
    }
}

/// Decodes the page at hand; answers whether it was the last that is wanted.
fn page<'a>(
    file: &'a Depaletted<'_>,
    source: &mut Source<'a>,
    meter: &mut Meter,
    emit: Emit<'_>,
) -> Result<bool, CodecError> {
    let (width, height) = source.dimensions().map_err(refusal)?;
    let (width, height) = (width as usize, height as usize);
    if width == 0 || height == 0 {
        return Err(CodecError::malformed(NAME, "it has no pixels"));
    }
    let has_palette = source
        .ifd_pointer()
        .is_some_and(|directory| file.has_palette(directory.0));
    let layout = Layout::of(source, has_palette)?;
    meter.frame(width, height, layout.has_alpha())?;
    const MODERN_JPEG: u16 = 7;
    let compression = source
        .find_tag_unsigned(Tag::Compression)
        .map_err(refusal)?
        .unwrap_or(1_u16);
    let raster = if compression == MODERN_JPEG {
        jpeg::page(&file.bytes, source, width, height, meter)?
    } else {
        let samples = samples(source, compression, width * height, meter)?;
        let planes = source
            .find_tag_unsigned(Tag::PlanarConfiguration)
            .map_err(refusal)?
            == Some(2_u16);
        layout.raster(width, height, planes, &samples)?
    };
    Ok(emit(raster.oriented(orientation(source)))?.is_break())
}

/// Reads every sample of a page that is not JPEG.
fn samples(
    source: &mut Source<'_>,
    compression: u16,
    pixels: usize,
    meter: &mut Meter,
) -> Result<DecodingResult, CodecError> {
    let raw = source.image_buffer_layout().map_err(refusal)?.complete_len;
    // Twice the samples, because a decoder may unpack a whole strip beside them, and the raster at four bytes a pixel.
    meter.bytes(
        (raw as u64)
            .saturating_mul(2)
            .saturating_add(pixels as u64 * 4),
    )?;
    let mut samples = DecodingResult::U8(Vec::new());
    if let Err(error) = source.read_image_to_buffer(&mut samples) {
        // Uncompressed rows that the file lacks are black; anything else broken is refused, as Pillow does.
        let cut_off = matches!(&error, TiffError::IoError(io) if io.kind() == std::io::ErrorKind::UnexpectedEof);
        if !(compression == 1 && cut_off && samples.as_buffer(0).byte_len() >= raw) {
            let is_large = matches!(error, TiffError::LimitsExceeded);
            return Err(if is_large {
                meter.out_of_bytes()
            } else {
                refusal(error)
            });
        }
    }
    Ok(samples)
}

fn orientation(source: &mut Source<'_>) -> Orientation {
    let tag: TiffResult<Option<u32>> = source.find_tag_unsigned(Tag::Orientation);
    match tag {
        Ok(Some(number)) => Orientation::new(number),
        Ok(None) | Err(_) => {
            let xmp = source.get_tag_u8_vec(Tag::Unknown(700)).ok();
            Orientation::find(None, xmp.as_deref())
        }
    }
}

fn refusal(error: TiffError) -> CodecError {
    match error {
        TiffError::UnsupportedError(what) => {
            CodecError::Unsupported(format!("this kind of {NAME} ({what})"))
        }
        TiffError::FormatError(_)
        | TiffError::IoError(_)
        | TiffError::LimitsExceeded
        | TiffError::IntSizeError
        | TiffError::UsageError(_) => CodecError::malformed(NAME, error),
    }
}

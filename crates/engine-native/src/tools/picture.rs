//! What the tools make of pictures, as pure functions over bytes.

use workflow_core::{ImageToolsError, MadePicture, PictureChannel, PreviewFormat, PreviewOptions};

use images::codec::{self, Limits, Raster};

use super::refused;

/// The quality of thumbnails: small, and good enough for their size.
const THUMBNAIL_QUALITY: u8 = 80;

pub(super) fn thumbnail(
    file: &[u8],
    side: u32,
    limits: &Limits,
) -> Result<MadePicture, ImageToolsError> {
    let picture = codec::decode_first(file, limits).map_err(refused)?;
    jpeg(picture, side as usize, THUMBNAIL_QUALITY)
}

pub(super) fn preview(
    file: &[u8],
    options: PreviewOptions,
    limits: &Limits,
) -> Result<MadePicture, ImageToolsError> {
    let picture = codec::decode_first(file, limits).map_err(refused)?;
    let quality = options.quality.clamp(1, 100);
    match options.format {
        PreviewFormat::Jpeg => jpeg(picture, usize::MAX, quality),
        PreviewFormat::Webp => {
            let with_alpha = picture.has_alpha() && !options.opaque;
            let bytes =
                codec::raster_to_webp(&picture.colored(with_alpha), quality).map_err(refused)?;
            Ok(MadePicture {
                media_type: "image/webp",
                bytes: bytes.into(),
            })
        }
    }
}

pub(super) fn channel(
    file: &[u8],
    channel: PictureChannel,
    limits: &Limits,
) -> Result<MadePicture, ImageToolsError> {
    let picture = codec::decode_first(file, limits).map_err(refused)?;
    match channel {
        PictureChannel::Rgb => png(&picture.colored(false), &[]),
        PictureChannel::Alpha => {
            let mut picture = picture.colored(true);
            for pixel in picture.data_mut().chunks_exact_mut(4) {
                pixel[..3].fill(0);
            }
            png(&picture, &[])
        }
    }
}

pub(super) fn mask(
    original: &[u8],
    mask: &[u8],
    limits: &Limits,
) -> Result<MadePicture, ImageToolsError> {
    let mask = codec::decode_first(mask, limits).map_err(refused)?;
    let picture = codec::decode_first(original, limits).map_err(refused)?;
    let (width, height) = (picture.width(), picture.height());
    if (width, height) != (mask.width(), mask.height()) {
        return Err(ImageToolsError::SizesDiffer {
            width: width as u32,
            height: height as u32,
            mask_width: mask.width() as u32,
            mask_height: mask.height() as u32,
        });
    }
    let mut picture = picture.colored(true);
    let alphas = mask.data().chunks_exact(mask.channels());
    for (pixel, from) in picture.data_mut().chunks_exact_mut(4).zip(alphas) {
        pixel[3] = match from {
            [_, _, _, alpha] | [_, alpha] => *alpha,
            _ => 255,
        };
    }
    png(&picture, original)
}

fn jpeg(picture: Raster, max_side: usize, quality: u8) -> Result<MadePicture, ImageToolsError> {
    let bytes = codec::raster_to_jpeg(picture, max_side, quality).map_err(refused)?;
    Ok(MadePicture {
        media_type: "image/jpeg",
        bytes: bytes.into(),
    })
}

/// With the text chunks of `original`.
fn png(picture: &Raster, original: &[u8]) -> Result<MadePicture, ImageToolsError> {
    let bytes = codec::raster_to_png(picture, original).map_err(refused)?;
    Ok(MadePicture {
        media_type: "image/png",
        bytes: bytes.into(),
    })
}

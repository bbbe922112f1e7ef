//! Writes a frame as PNG, fast: SaveImage's file.
//!
//! The filter is one for all rows and the compressor `fdeflate`, which together run several times faster than zlib's quickest
//! level at about the size that the original writes. Chunks stand as the original has them: `IHDR`, text, `IDAT`.

use png::{BitDepth, ColorType, Compression, Encoder, Filter, chunk::ChunkType};

use super::{CodecError, to_bytes};
use crate::value::Frame;

/// Encodes a frame of 1, 3 or 4 channels with 8 bits a sample, and one text chunk per keyword and text, in order.
///
/// Text of Latin-1 characters becomes `tEXt`, any other `iTXt`; keywords are expected to be Latin-1, other characters in them
/// become question marks.
///
/// # Errors
/// [`CodecError::Unsupported`] for another number of channels or an empty frame.
pub fn encode_png(frame: &Frame, texts: &[(String, String)]) -> Result<Vec<u8>, CodecError> {
    let (height, width, channels) = frame.shape();
    let color = match channels {
        1 => ColorType::Grayscale,
        3 => ColorType::Rgb,
        4 => ColorType::Rgba,
        _ => {
            return Err(CodecError::Unsupported(format!(
                "a picture of {channels} channels"
            )));
        }
    };
    let side = |side: usize| u32::try_from(side).map_err(|_| unsupported("a picture this large"));
    let mut file = Vec::with_capacity(frame.data().len() / 2 + 1024);
    let mut encoder = Encoder::new(&mut file, side(width)?, side(height)?);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Up);
    let mut writer = encoder.write_header().map_err(unsupported)?;
    for (keyword, text) in texts {
        let (name, data) = text_chunk(keyword, text);
        writer.write_chunk(name, &data).map_err(unsupported)?;
    }
    writer
        .write_image_data(&to_bytes(frame))
        .map_err(unsupported)?;
    writer.finish().map_err(unsupported)?;
    Ok(file)
}

/// A text chunk's name and contents.
pub(super) fn text_chunk(keyword: &str, text: &str) -> (ChunkType, Vec<u8>) {
    let mut data: Vec<u8> = keyword
        .chars()
        .map(|c| latin_1(c).unwrap_or(b'?'))
        .collect();
    match text.chars().map(latin_1).collect::<Option<Vec<u8>>>() {
        Some(text) => {
            data.push(0);
            data.extend(text);
            (png::chunk::tEXt, data)
        }
        None => {
            // Keyword, not compressed, neither language nor translated keyword.
            data.extend([0; 5]);
            data.extend(text.bytes());
            (png::chunk::iTXt, data)
        }
    }
}

fn latin_1(character: char) -> Option<u8> {
    u8::try_from(u32::from(character)).ok()
}

fn unsupported(reason: impl std::fmt::Display) -> CodecError {
    CodecError::Unsupported(reason.to_string())
}

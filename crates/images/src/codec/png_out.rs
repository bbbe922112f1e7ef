//! Writes a frame as PNG, fast: SaveImage's file.
//!
//! Filters that vectorise and the compressor `fdeflate` together run several times faster than zlib's quickest level, at about
//! the size that the original writes. Chunks stand as the original has them: `IHDR`, text, `IDAT`.

mod filter;

use std::io::{self, Cursor};

use fdeflate::{Compressor, StoredOnlyCompressor};
use png::{BitDepth, ColorType, Encoder, chunk::ChunkType};

use self::filter::RowFilter;
use super::chunks::Chunks;
use super::{CodecError, Raster};
use crate::pixels::{Frame, samples_to_bytes};

/// Encodes a frame of 1, 3 or 4 channels with 8 bits a sample, and one text chunk per keyword and text, in order.
///
/// Text of Latin-1 characters becomes `tEXt`, any other `iTXt`; keywords are expected to be Latin-1, other characters in them
/// become question marks.
///
/// # Errors
/// [`CodecError::Unsupported`] for another number of channels or an empty frame.
pub fn encode_png(frame: &Frame, texts: &[(String, String)]) -> Result<Vec<u8>, CodecError> {
    let (height, width, channels) = frame.shape();
    let chunks = texts
        .iter()
        .map(|(keyword, text)| text_chunk(keyword, text));
    let shape = (width, height, channels);
    write(shape, BitDepth::Eight, chunks, |y, row| {
        samples_to_bytes(frame.row(y), row);
    })
}

/// As [`encode_png`], with 16 bits a sample.
///
/// # Errors
/// As [`encode_png`].
pub fn encode_png16(frame: &Frame, texts: &[(String, String)]) -> Result<Vec<u8>, CodecError> {
    let (height, width, channels) = frame.shape();
    let chunks = texts
        .iter()
        .map(|(keyword, text)| text_chunk(keyword, text));
    let shape = (width, height, channels);
    write(shape, BitDepth::Sixteen, chunks, |y, row| {
        for (sample, bytes) in frame.row(y).iter().zip(row.as_chunks_mut().0) {
            // Truncated like 8 bits are.
            *bytes = ((sample * 65535.0).clamp(0.0, 65535.0) as u16).to_be_bytes();
        }
    })
}

/// Encodes bytes of 1, 3 or 4 channels, with the text chunks of `original` as they are, if that is a PNG file.
///
/// # Errors
/// As [`encode_png`].
pub fn raster_to_png(raster: &Raster, original: &[u8]) -> Result<Vec<u8>, CodecError> {
    let chunks = Chunks::new(original)
        .filter(|chunk| matches!(&chunk.name, b"tEXt" | b"zTXt" | b"iTXt"))
        .map(|chunk| (ChunkType(chunk.name), chunk.data.to_vec()));
    let stride = raster.width * raster.channels;
    let shape = (raster.width, raster.height, raster.channels);
    write(shape, BitDepth::Eight, chunks, |y, row| {
        row.copy_from_slice(&raster.data[y * stride..][..stride]);
    })
}

/// Writes a file of `width`, `height` and channels, whose rows `fill` puts where it is told.
fn write(
    (width, height, channels): (usize, usize, usize),
    depth: BitDepth,
    texts: impl Iterator<Item = (ChunkType, Vec<u8>)>,
    fill: impl Fn(usize, &mut [u8]),
) -> Result<Vec<u8>, CodecError> {
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
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, side(width)?, side(height)?);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().map_err(unsupported)?;
    for (name, data) in texts {
        writer.write_chunk(name, &data).map_err(unsupported)?;
    }
    let pixel = channels * depth as usize / 8;
    let pixels = deflated(width * pixel, height, pixel, fill).map_err(unsupported)?;
    writer
        .write_chunk(png::chunk::IDAT, &pixels)
        .map_err(unsupported)?;
    writer.finish().map_err(unsupported)?;
    Ok(file)
}

/// The filtered rows, compressed, or stored where that is smaller, as it is for noise.
///
/// Row by row from where they are: neither the bytes nor the filtered rows are ever in memory as a whole.
fn deflated(
    stride: usize,
    height: usize,
    channels: usize,
    fill: impl Fn(usize, &mut [u8]),
) -> io::Result<Vec<u8>> {
    let size = (stride + 1) * height;
    let stored_size = StoredOnlyCompressor::<Cursor<Vec<u8>>>::compressed_size(size);

    let mut filter = RowFilter::new(stride, channels);
    let mut compressor = Compressor::new(Vec::with_capacity(size / 2))?;
    (0..height).try_for_each(|y| compressor.write_data(filter.next(|row| fill(y, row))))?;
    let compressed = compressor.finish()?;
    if compressed.len() <= stored_size {
        return Ok(compressed);
    }
    let mut filter = RowFilter::new(stride, channels);
    let mut store = StoredOnlyCompressor::new(Cursor::new(Vec::with_capacity(stored_size)))?;
    (0..height).try_for_each(|y| store.write_data(filter.next(|row| fill(y, row))))?;
    store.finish().map(Cursor::into_inner)
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

//! Windows icons: the largest picture of the file, a PNG or a bitmap with a transparency mask.

use std::ops::ControlFlow;

use super::bmp::Dib;
use super::raster::{Alpha, Raster};
use super::{Emit, Header, png};
use crate::codec::CodecError;
use crate::codec::chunks::SIGNATURE;
use crate::codec::limits::Meter;

pub(super) const NAME: &str = "ICO";

/// One line of the icon's directory.
struct Entry {
    area: usize,
    colors: u32,
    bits: u16,
    size: usize,
    offset: usize,
}

/// The picture that an entry points to.
enum Picture<'a> {
    Png(&'a [u8]),
    /// Of twice its height: colours, then the mask.
    Bitmap(Dib<'a>),
}

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    match picture(bytes, &largest(bytes)?)? {
        Picture::Png(png) => {
            png::header(png).map(|header| Header::still(header.width, header.height))
        }
        Picture::Bitmap(dib) => Ok(Header::still(dib.width, dib.height)),
    }
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let entry = largest(bytes)?;
    let dib = match picture(bytes, &entry)? {
        Picture::Png(png) => {
            // An icon shows one frame, whatever its PNG holds, and Pillow forgets all transparency but a band's.
            return png::decode(png, meter, &mut |raster| {
                let is_band = raster.alpha == Alpha::Band;
                emit(if is_band { raster } else { raster.opaque() }).map(|_| ControlFlow::Break(()))
            });
        }
        Picture::Bitmap(dib) => dib,
    };
    meter.frame(dib.width, dib.height, true)?;
    meter.bytes(dib.width as u64 * dib.height as u64 * 10)?;
    let raster = dib.raster();
    let raster = match alpha(bytes, &entry, &dib) {
        Some(alpha) => with_alpha(&raster, &alpha),
        None => raster,
    };
    emit(raster).map(drop)
}

/// The entry of the most pixels; of these the first of the fewest colours, as Pillow sorts them.
fn largest(bytes: &[u8]) -> Result<Entry, CodecError> {
    let cut_off = || CodecError::malformed(NAME, "its directory is cut off");
    let count = bytes
        .get(4..6)
        .map(|count| usize::from(u16::from_le_bytes([count[0], count[1]])))
        .ok_or_else(cut_off)?;
    let lines = bytes
        .get(6..6 + count * 16)
        .ok_or_else(cut_off)?
        .chunks_exact(16);
    let entries = lines.map(|line| {
        let side = |at: usize| {
            if line[at] == 0 {
                256
            } else {
                usize::from(line[at])
            }
        };
        let long = |at: usize| {
            u32::from_le_bytes([line[at], line[at + 1], line[at + 2], line[at + 3]]) as usize
        };
        let bits = u16::from_le_bytes([line[6], line[7]]);
        let colors = match (bits, line[2]) {
            (0, 0 | 1) => 256,
            (0, colors) => u32::from(colors).next_power_of_two().ilog2(),
            (bits, _) => u32::from(bits),
        };
        Entry {
            area: side(0) * side(1),
            colors,
            bits,
            size: long(8),
            offset: long(12),
        }
    });
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_by_key(|entry| (std::cmp::Reverse(entry.area), entry.colors));
    entries
        .into_iter()
        .next()
        .ok_or_else(|| CodecError::malformed(NAME, "it has no pictures"))
}

fn picture<'a>(bytes: &'a [u8], entry: &Entry) -> Result<Picture<'a>, CodecError> {
    let there = bytes.get(entry.offset..).unwrap_or_default();
    if there.starts_with(&SIGNATURE) {
        return Ok(Picture::Png(there));
    }
    let mut dib = Dib::parse(NAME, bytes, entry.offset, None)?;
    dib.height /= 2;
    if dib.width == 0 || dib.height == 0 {
        return Err(CodecError::malformed(NAME, "it has no pixels"));
    }
    Ok(Picture::Bitmap(dib))
}

/// The bitmap's alpha: the fourth bytes of 32-bit pixels, else the one-bit mask at the end; none if the file lacks it.
fn alpha(bytes: &[u8], entry: &Entry, dib: &Dib<'_>) -> Option<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = if entry.bits == 32 {
        let pixels = bytes.get(dib.pixels..)?.get(..dib.width * dib.height * 4)?;
        pixels
            .chunks_exact(dib.width * 4)
            .map(|row| row.iter().skip(3).step_by(4).copied().collect())
            .collect()
    } else {
        let stride = dib.width.div_ceil(32) * 4;
        let start = (entry.offset + entry.size).checked_sub(stride * dib.height)?;
        let mask = bytes.get(start..)?.get(..stride * dib.height)?;
        let opaque = |row: &[u8], x: usize| {
            if row[x / 8] << (x % 8) & 0x80 == 0 {
                255
            } else {
                0
            }
        };
        mask.chunks_exact(stride)
            .map(|row| (0..dib.width).map(|x| opaque(row, x)).collect())
            .collect()
    };
    rows.reverse();
    Some(rows.concat())
}

fn with_alpha(raster: &Raster, alpha: &[u8]) -> Raster {
    let pixels = raster.data.chunks_exact(raster.channels).zip(alpha);
    let data = pixels
        .flat_map(|(pixel, &alpha)| [pixel[0], pixel[1], pixel[2], alpha])
        .collect();
    Raster::new(raster.width, raster.height, 4, data)
}

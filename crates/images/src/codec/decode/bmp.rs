//! Windows bitmaps: the headers of 12 to 124 bytes, 1 to 32 bits, bit fields, run lengths.
//!
//! The fourth byte of a plain 32-bit pixel is padding; only bit fields that name it make it alpha. Rows that the file lacks are
//! black.

mod dib;

pub(super) use self::dib::Dib;
use super::{Emit, Header};
use crate::codec::CodecError;
use crate::codec::limits::Meter;

pub(super) const NAME: &str = "BMP";

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    let dib = open(bytes)?;
    Ok(Header::still(dib.width, dib.height))
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let dib = open(bytes)?;
    meter.frame(dib.width, dib.height, dib.has_alpha())?;
    // The raster, and the indices of a palette picture.
    meter.bytes(dib.width as u64 * dib.height as u64 * 5)?;
    emit(dib.raster()).map(drop)
}

fn open(bytes: &[u8]) -> Result<Dib<'_>, CodecError> {
    const FILE_HEADER: usize = 14;
    let pixels = bytes
        .get(10..14)
        .map(|at| u32::from_le_bytes([at[0], at[1], at[2], at[3]]) as usize);
    Dib::parse(NAME, bytes, FILE_HEADER, pixels.filter(|&at| at != 0))
}

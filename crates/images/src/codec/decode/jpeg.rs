//! JPEG: baseline, extended and progressive, Huffman coded, 8 bits.
//!
//! Written out here, because the picture has to equal libjpeg's to the bit: its integer transform, its smooth chroma upsampling,
//! its fixed-point colours, and its way with damage, which is to go on with what is there and leave the rest grey.

mod frame;
mod huffman;
mod idct;
mod marker;
mod output;
mod progressive;
mod reader;
mod scan;
mod upsample;

use self::marker::Markers;
pub(super) use self::output::Colors;
pub(super) use self::reader::Jpeg;
use super::exif::Orientation;
use super::{Emit, Header};
use crate::codec::CodecError;
use crate::codec::limits::Meter;

pub(super) const NAME: &str = "JPEG";

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    let mut markers = Markers::new(bytes);
    while let Some(marker) = markers.next_marker() {
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let segment = markers.segment().unwrap_or_default();
                return match segment {
                    [_, h0, h1, w0, w1, ..] => {
                        let side = |high: u8, low: u8| usize::from(u16::from_be_bytes([high, low]));
                        Ok(Header::still(side(*w0, *w1), side(*h0, *h1)))
                    }
                    _ => Err(malformed("its header is cut off")),
                };
            }
            0xd9 | 0xda => break,
            _ if marker::has_segment(marker) && markers.segment().is_none() => break,
            _ => {}
        }
    }
    Err(malformed("it has no frame header"))
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let mut jpeg = Jpeg::default();
    jpeg.read(bytes, &mut |frame| {
        let result = meter.frame(frame.width, frame.height, false)?;
        // What is read of the file is dropped before the result is made: only the larger of the two counts.
        let beyond_result = frame.memory().saturating_sub(result);
        meter.bytes(beyond_result + frame.width as u64 * frame.height as u64 * 3)
    })?;
    let orientation = Orientation::find(jpeg.exif, jpeg.xmp);
    let raster = jpeg.raster(Colors::Guess)?;
    drop(jpeg);
    emit(raster.oriented(orientation)).map(drop)
}

fn malformed(reason: impl std::fmt::Display) -> CodecError {
    CodecError::malformed(NAME, reason)
}

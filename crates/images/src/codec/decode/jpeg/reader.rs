//! Reads a file segment by segment: tables, the frame, its scans, and the metadata that the decoder cares for.
//!
//! Until the first scan has begun, anything broken is an error; from then on it is the end of the picture.

use super::frame::{BLOCK, Frame};
use super::huffman::HuffmanTable;
use super::marker::{Markers, has_segment};
use super::scan::Scan;
use super::{idct, malformed};
use crate::codec::CodecError;

/// Where the coefficients of a file's zigzag order stand in rows of eight; indices past the end stay at the last.
pub(super) const ZIGZAG: [u8; BLOCK + 16] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63,
];

/// A JPEG being read, and then its samples.
#[derive(Default)]
pub(in crate::codec::decode) struct Jpeg<'a> {
    pub(super) frame: Option<Frame>,
    pub(super) tables: Tables,
    pub(in crate::codec::decode) exif: Option<&'a [u8]>,
    pub(in crate::codec::decode) xmp: Option<&'a [u8]>,
    pub(super) is_jfif: bool,
    /// The colour transform that Adobe's marker names.
    pub(super) adobe: Option<u8>,
}

/// What scans are decoded with.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) quantization: [Option<[u16; BLOCK]>; 4],
    pub(super) direct: [Option<HuffmanTable>; 4],
    pub(super) alternating: [Option<HuffmanTable>; 4],
    pub(super) restart_interval: usize,
}

impl<'a> Jpeg<'a> {
    /// Reads tables from a stream that holds no picture, as TIFF keeps them.
    pub(in crate::codec::decode) fn read_tables(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<(), CodecError> {
        self.segments(bytes, &mut |_| Err(malformed("its tables hold a picture")))
            .map(|_| ())
    }

    /// Reads a whole picture. `allow` sees the frame header before anything is allocated for it.
    pub(in crate::codec::decode) fn read(
        &mut self,
        bytes: &'a [u8],
        allow: Allow<'_>,
    ) -> Result<(), CodecError> {
        if !self.segments(bytes, allow)? {
            return Err(malformed("it has no picture data"));
        }
        let frame = self
            .frame
            .as_mut()
            .expect("a scan was read, and scans need a frame");
        if frame.progressive {
            idct::transform_all(frame);
        }
        Ok(())
    }

    /// Reads to the end; answers whether there was a scan.
    fn segments(&mut self, bytes: &'a [u8], allow: Allow<'_>) -> Result<bool, CodecError> {
        let mut markers = Markers::new(bytes);
        let mut scans = 0;
        while let Some(marker) = markers.next_marker() {
            let scanned = scans > 0;
            if marker == 0xd9 || scans == MOST_SCANS {
                break;
            }
            if !has_segment(marker) {
                continue;
            }
            let step = match markers.segment() {
                Some(segment) if marker == 0xda => {
                    self.scan(segment, &mut markers).inspect(|()| scans += 1)
                }
                Some(segment) => self.segment(marker, segment, scanned, allow),
                None => Err(malformed("it is cut off")),
            };
            match step {
                Ok(()) => {}
                // A scan that was begun shows what it has.
                Err(_) if scanned => break,
                Err(error) => return Err(error),
            }
        }
        Ok(scans > 0)
    }

    fn segment(
        &mut self,
        marker: u8,
        segment: &'a [u8],
        scanned: bool,
        allow: Allow<'_>,
    ) -> Result<(), CodecError> {
        match marker {
            0xc4 => self.huffman_tables(segment),
            0xdb => self.quantization_tables(segment),
            0xdd => {
                let interval = segment
                    .first_chunk::<2>()
                    .ok_or_else(|| malformed("its restart interval is cut off"))?;
                self.tables.restart_interval = usize::from(u16::from_be_bytes(*interval));
                Ok(())
            }
            0xc0..=0xcf if marker != 0xc8 && marker != 0xcc => {
                if scanned || self.frame.is_some() {
                    return Err(malformed("it has two frames"));
                }
                let mut frame = Frame::parse(marker, segment)?;
                allow(&frame)?;
                frame.allocate();
                self.frame = Some(frame);
                Ok(())
            }
            0xe0 if segment.starts_with(b"JFIF\0") => {
                self.is_jfif = true;
                Ok(())
            }
            0xe1 => {
                if segment.starts_with(b"Exif\0\0") {
                    self.exif.get_or_insert(segment);
                } else if let Some(packet) = segment.strip_prefix(b"http://ns.adobe.com/xap/1.0/\0")
                {
                    self.xmp = Some(packet);
                }
                Ok(())
            }
            0xee if segment.starts_with(b"Adobe") => {
                self.adobe = segment.get(11).copied();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn scan(&mut self, segment: &[u8], markers: &mut Markers<'a>) -> Result<(), CodecError> {
        let frame = self
            .frame
            .as_mut()
            .ok_or_else(|| malformed("a scan comes before its frame"))?;
        let scan = Scan::parse(segment, frame)?;
        markers.at += scan.decode(frame, &self.tables, markers.rest())?;
        Ok(())
    }

    fn quantization_tables(&mut self, mut segment: &[u8]) -> Result<(), CodecError> {
        while let Some((&head, rest)) = segment.split_first() {
            let wide = head >> 4 != 0;
            let (values, rest) = rest
                .split_at_checked(if wide { BLOCK * 2 } else { BLOCK })
                .ok_or_else(|| malformed("a quantization table is cut off"))?;
            let mut table = [0; BLOCK];
            for (at, &place) in ZIGZAG[..BLOCK].iter().enumerate() {
                let value = if wide {
                    u16::from_be_bytes([values[at * 2], values[at * 2 + 1]])
                } else {
                    values[at].into()
                };
                table[usize::from(place)] = value;
            }
            *self
                .tables
                .quantization
                .get_mut(usize::from(head & 15))
                .ok_or_else(|| malformed("it has too many tables"))? = Some(table);
            segment = rest;
        }
        Ok(())
    }

    fn huffman_tables(&mut self, mut segment: &[u8]) -> Result<(), CodecError> {
        while let Some((&head, rest)) = segment.split_first() {
            let cut_off = || malformed("a Huffman table is cut off");
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or_else(cut_off)?;
            let total = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(total).ok_or_else(cut_off)?;
            let kind = if head & 0x10 == 0 {
                &mut self.tables.direct
            } else {
                &mut self.tables.alternating
            };
            let slot = kind
                .get_mut(usize::from(head & 15))
                .ok_or_else(|| malformed("it has too many tables"))?;
            // A table that makes no sense is an error only for the scan that uses it.
            *slot = HuffmanTable::new(*counts, symbols);
            segment = rest;
        }
        Ok(())
    }
}

/// Scans of a picture that are read; more than encoders write. Each costs a few bytes and may touch every block, so a small
/// file could keep a thread busy for hours.
const MOST_SCANS: u32 = 256;

/// Sees the frame header and may refuse it.
type Allow<'a> = &'a mut dyn FnMut(&Frame) -> Result<(), CodecError>;

//! Looks through a TIFF file's directories before the `tiff` crate does, for two of its weak places.
//!
//! It allocates what an entry claims to hold, so entries that claim more than the file has are refused here. And it refuses
//! palettes: in a copy of the file such pages say that they are grey, their indices come out as they are, and the colours are
//! looked up afterwards, for the pages that are remembered here.

use std::borrow::Cow;
use std::collections::HashSet;

use super::NAME;
use crate::codec::CodecError;

/// A file in which palette pages say that they are grey.
pub(super) struct Depaletted<'a> {
    /// The file, copied only if it has such pages.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Where their directories stand.
    pages: Vec<u64>,
}

impl<'a> Depaletted<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, CodecError> {
        const PHOTOMETRIC: u64 = 262;
        const SHORT: u64 = 3;
        const PALETTE: u64 = 3;
        const GREY: u16 = 1;
        let file = Numbers {
            bytes,
            big_endian: bytes.starts_with(b"MM"),
            wide: bytes.get(2..4).is_some_and(|version| version.contains(&43)),
        };
        let mut depaletted = Self {
            bytes: Cow::Borrowed(bytes),
            pages: Vec::new(),
        };
        for entry in file.entries() {
            if entry.size() > bytes.len() as u64 {
                return Err(CodecError::malformed(
                    NAME,
                    "an entry is larger than the file",
                ));
            }
            let is_palette = (entry.tag, entry.kind, file.number(entry.value, 2))
                == (PHOTOMETRIC, SHORT, Some(PALETTE));
            if is_palette {
                let grey = if file.big_endian {
                    GREY.to_be_bytes()
                } else {
                    GREY.to_le_bytes()
                };
                let value = entry.value as usize;
                depaletted.bytes.to_mut()[value..value + 2].copy_from_slice(&grey);
                depaletted.pages.push(entry.directory);
            }
        }
        Ok(depaletted)
    }

    /// Whether the page whose directory stands at `directory` has a palette.
    pub(super) fn has_palette(&self, directory: u64) -> bool {
        self.pages.contains(&directory)
    }
}

/// An entry of a directory.
struct Entry {
    directory: u64,
    tag: u64,
    kind: u64,
    count: u64,
    /// Where its value, or the place of its values, stands.
    value: u64,
}

impl Entry {
    /// Bytes of its values.
    fn size(&self) -> u64 {
        let each = match self.kind {
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => 1,
        };
        self.count.saturating_mul(each)
    }
}

/// Numbers of a TIFF file in its byte order; `wide` for the 64-bit variant.
struct Numbers<'a> {
    bytes: &'a [u8],
    big_endian: bool,
    wide: bool,
}

impl Numbers<'_> {
    fn number(&self, at: u64, size: usize) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(size)?)?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        })
    }

    /// The entries of all directories in their chain, up to the first that was seen before or that the file lacks.
    fn entries(&self) -> Vec<Entry> {
        let (count_size, entry_size, place_size) = if self.wide { (8, 20, 8) } else { (2, 12, 4) };
        let place = |at: u64| self.number(at, place_size as usize);
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        let mut next = place(place_size);
        while let Some(directory) = next.filter(|&directory| directory != 0) {
            let Some(count) = self.number(directory, count_size as usize) else {
                break;
            };
            if !seen.insert(directory) {
                break;
            }
            let mut at = directory.saturating_add(count_size);
            for _ in 0..count {
                // Directories that overlap could hold more entries than there are bytes.
                if entries.len() as u64 > self.bytes.len() as u64 / entry_size {
                    return entries;
                }
                let (Some(tag), Some(kind)) = (self.number(at, 2), self.number(at + 2, 2)) else {
                    return entries;
                };
                let Some(count) = place(at + 4) else {
                    return entries;
                };
                entries.push(Entry {
                    directory,
                    tag,
                    kind,
                    count,
                    value: at + entry_size - place_size,
                });
                at += entry_size;
            }
            next = place(at);
        }
        entries
    }
}

//! Bytes put together: numbers of either order, PNG chunks, zlib.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

pub(crate) const PNG: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Parts one after the other.
pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A PNG chunk with a true length and no checksum, at which nobody looks.
pub(crate) fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    join(&[&(data.len() as u32).to_be_bytes(), name, data, &[0; 4]])
}

/// The header of a PNG file, with its signature.
pub(crate) fn ihdr(width: u32, height: u32, depth: u8, color: u8, interlace: u8) -> Vec<u8> {
    let data = join(&[
        &width.to_be_bytes(),
        &height.to_be_bytes(),
        &[depth, color, 0, 0, interlace],
    ]);
    join(&[&PNG, &chunk(b"IHDR", &data)])
}

pub(crate) fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// As many zeros, compressed a thousandfold.
pub(crate) fn zlib_zeros(count: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 16];
    let mut left = count;
    while left > 0 {
        let now = left.min(zeros.len());
        encoder.write_all(&zeros[..now]).unwrap();
        left -= now;
    }
    encoder.finish().unwrap()
}

/// Marsaglia's xorshift, so that every run makes the same bytes.
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

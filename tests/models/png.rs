//! Just enough of PNG to make a picture and to look at every pixel of one.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A picture of red, green and blue, 8 bits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) rgb: Vec<u8>,
}

impl Picture {
    pub(crate) fn at(&self, x: usize, y: usize) -> [u8; 3] {
        let start = (y * self.width + x) * 3;
        self.rgb[start..start + 3].try_into().unwrap()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut pixels = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.rgb.chunks(self.width * 3) {
            pixels.write_all(&[0]).unwrap();
            pixels.write_all(row).unwrap();
        }
        let mut head = Vec::new();
        for side in [self.width, self.height] {
            head.extend_from_slice(&u32::try_from(side).unwrap().to_be_bytes());
        }
        head.extend_from_slice(&[8, 2, 0, 0, 0]);
        let mut bytes = SIGNATURE.to_vec();
        chunk(&mut bytes, b"IHDR", &head);
        chunk(&mut bytes, b"IDAT", &pixels.finish().unwrap());
        chunk(&mut bytes, b"IEND", &[]);
        bytes
    }

    /// # Panics
    /// If it is no such picture.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let (width, height, rgb) = pixels::<3>(bytes);
        Self {
            width,
            height,
            rgb: rgb.concat(),
        }
    }
}

/// Width, height and pixels of a picture: red, green and blue, and with four values transparency.
///
/// # Panics
/// If it is no such picture.
pub(crate) fn pixels<const N: usize>(bytes: &[u8]) -> (usize, usize, Vec<[u8; N]>) {
    let mut rest = bytes.strip_prefix(SIGNATURE).unwrap();
    let (mut head, mut packed) = (Vec::new(), Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
        let (kind, data) = (&after[..4], &after[4..4 + length]);
        match kind {
            b"IHDR" => head = data.to_vec(),
            b"IDAT" => packed.extend_from_slice(data),
            _ => {}
        }
        rest = &after[4 + length + 4..];
    }
    let colours = if N == 4 { 6 } else { 2 };
    assert_eq!(head[8..], [8, colours, 0, 0, 0], "8 bits of {N} values");
    let side = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    let (width, height) = (side(0) as usize, side(4) as usize);
    let mut lines = Vec::new();
    ZlibDecoder::new(packed.as_slice())
        .read_to_end(&mut lines)
        .unwrap();
    let mut values: Vec<u8> = Vec::with_capacity(width * height * N);
    for line in lines.chunks(width * N + 1) {
        let row = values.len();
        for (x, byte) in line[1..].iter().enumerate() {
            let left = if x < N { 0 } else { values[row + x - N] };
            let above = row.checked_sub(width * N);
            let up = above.map_or(0, |above| values[above + x]);
            let corner = above
                .filter(|_| x >= N)
                .map_or(0, |above| values[above + x - N]);
            let predicted = match line[0] {
                0 => 0,
                1 => left,
                2 => up,
                3 => u16::midpoint(left.into(), up.into()) as u8,
                4 => paeth(left, up, corner),
                other => panic!("{other} is no filter"),
            };
            values.push(byte.wrapping_add(predicted));
        }
    }
    (width, height, values.as_chunks::<N>().0.to_vec())
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let estimate = i16::from(left) + i16::from(up) - i16::from(corner);
    let candidates = [left, up, corner];
    candidates
        .into_iter()
        .min_by_key(|candidate| (estimate - i16::from(*candidate)).abs())
        .unwrap()
}

fn chunk(bytes: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    let mut sum = flate2::Crc::new();
    sum.update(kind);
    sum.update(data);
    bytes.extend_from_slice(kind);
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(&sum.sum().to_be_bytes());
}

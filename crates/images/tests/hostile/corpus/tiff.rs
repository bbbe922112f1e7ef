//! TIFF: directories that lead to themselves, strips and tiles that are elsewhere, every compression over noise.

use super::Hostile;
use super::bits::{Xorshift, join, zlib_zeros};

/// One value of a directory: tag and number.
type Entry = (u16, u32);

fn file(name: impl Into<String>, bytes: Vec<u8>) -> Hostile {
    (format!("tiff {}", name.into()), bytes)
}

/// A little-endian file: header, pixels at 8, a directory of long values behind them.
fn tiff(entries: &[Entry], pixels: &[u8], next: u32) -> Vec<u8> {
    let at = 8 + pixels.len() as u32;
    let mut bytes = join(&[b"II*\0", &at.to_le_bytes(), pixels]);
    bytes.extend((entries.len() as u16).to_le_bytes());
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(next.to_le_bytes());
    bytes
}

const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const BITS: u16 = 258;
const COMPRESSION: u16 = 259;
const COLORS: u16 = 262;
const STRIP_AT: u16 = 273;
const SAMPLES: u16 = 277;
const ROWS: u16 = 278;
const STRIP_BYTES: u16 = 279;
const PLANES: u16 = 284;
const PREDICTOR: u16 = 317;

/// A grey picture of 16 x 16, with these values changed or added.
fn grey(changes: &[Entry], pixels: &[u8]) -> Vec<u8> {
    let mut entries = vec![
        (WIDTH, 16),
        (HEIGHT, 16),
        (BITS, 8),
        (COMPRESSION, 1),
        (COLORS, 1),
        (STRIP_AT, 8),
        (SAMPLES, 1),
        (ROWS, 16),
        (STRIP_BYTES, pixels.len() as u32),
    ];
    for change in changes {
        match entries.iter_mut().find(|entry| entry.0 == change.0) {
            Some(entry) => *entry = *change,
            None => entries.push(*change),
        }
    }
    entries.sort_unstable();
    tiff(&entries, pixels, 0)
}

pub(crate) fn hostile() -> Vec<Hostile> {
    let noise = Xorshift(17).bytes(256);
    let mut all = Vec::new();
    for (name, tag, values) in [
        ("width", WIDTH, &[0, 1 << 20, u32::MAX][..]),
        ("height", HEIGHT, &[0, 1 << 20, u32::MAX]),
        ("bits", BITS, &[0, 1, 2, 3, 12, 16, 24, 32, 64, 65_535]),
        (
            "compression",
            COMPRESSION,
            &[
                0, 2, 3, 4, 5, 6, 7, 8, 32_773, 32_946, 34_712, 50_000, 50_001,
            ],
        ),
        ("colours", COLORS, &[0, 2, 3, 4, 5, 6, 8, 9, 32_803]),
        ("samples", SAMPLES, &[0, 2, 3, 4, 5, 255, 65_535]),
        ("rows of a strip", ROWS, &[0, 1, 3, u32::MAX]),
        ("strip at", STRIP_AT, &[0, 1 << 30, u32::MAX]),
        ("strip of", STRIP_BYTES, &[0, 1, u32::MAX]),
        ("planes", PLANES, &[0, 2, 9]),
        ("predictor", PREDICTOR, &[0, 2, 3, 99]),
    ] {
        for &value in values {
            all.push(file(
                format!("{name} {value}"),
                grey(&[(tag, value)], &noise),
            ));
        }
    }
    let zeros = zlib_zeros(64 << 20);
    let sides = |side| [(WIDTH, side), (HEIGHT, side), (ROWS, side)];
    let with =
        |side: u32, more: &[Entry], pixels: &[u8]| grey(&[&sides(side), more].concat(), pixels);
    all.extend([
        file("huge", with(16_384, &[], &noise)),
        file("huge, of 16 bits", with(16_384, &[(BITS, 16)], &noise)),
        file("a bomb", with(16, &[(COMPRESSION, 8)], &zeros)),
        file("a large bomb", with(8000, &[(COMPRESSION, 8)], &zeros)),
        file(
            "a predicted bomb",
            with(3000, &[(COMPRESSION, 8), (PREDICTOR, 2)], &zeros),
        ),
        file(
            "tiles of nothing",
            with(16, &[(322, 0), (323, 0), (324, 8), (325, 256)], &noise),
        ),
        file(
            "huge tiles",
            with(
                16,
                &[(322, 1 << 30), (323, 1 << 30), (324, 8), (325, 256)],
                &noise,
            ),
        ),
        file(
            "odd tiles",
            with(64, &[(322, 17), (323, 5), (324, 8), (325, 256)], &noise),
        ),
        file(
            "a JPEG of noise",
            with(16, &[(COMPRESSION, 7), (COLORS, 6)], &noise),
        ),
        file(
            "tables of noise",
            with(16, &[(COMPRESSION, 7), (347, 8)], &noise),
        ),
        file("no directory", join(&[b"II*\0", &[255; 4]])),
        file(
            "a directory cut off",
            join(&[b"MM\0*\0\0\0\x08", &[0xff, 0xff, 1, 0]]),
        ),
        file(
            "a directory that is itself next",
            tiff(&[(WIDTH, 1), (HEIGHT, 1)], &[], 8),
        ),
        file("pages without end", {
            let mut bytes = grey(&[], &noise);
            let at = bytes.len() - 4;
            bytes[at..].copy_from_slice(&(8 + 256_u32).to_le_bytes());
            bytes
        }),
        file(
            "a large file of nothing",
            join(&[b"II+\0\x08\0\0\0", &[0xff; 16], &noise]),
        ),
        file(
            "a large file that leads to itself",
            join(&[b"II+\0\x08\0\0\0\x08\0\0\0\0\0\0\0", &noise]),
        ),
        file("orientation 99", grey(&[(274, 99)], &noise)),
        file("a palette that is missing", grey(&[(COLORS, 3)], &noise)),
    ]);
    all
}

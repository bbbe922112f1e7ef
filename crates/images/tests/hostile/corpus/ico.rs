//! Windows icons: directories that lie, and pictures inside that do.

use super::Hostile;
use super::bits::{chunk, ihdr, join, zlib_zeros};
use super::bmp::info;

fn file(name: &str, parts: &[&[u8]]) -> Hostile {
    (format!("ico {name}"), join(parts))
}

fn entry(side: u8, size: u32, offset: u32) -> Vec<u8> {
    join(&[
        &[side, side, 0, 0, 1, 0, 32, 0],
        &size.to_le_bytes(),
        &offset.to_le_bytes(),
    ])
}

fn directory(count: u16) -> Vec<u8> {
    join(&[&[0, 0, 1, 0], &count.to_le_bytes()])
}

pub(crate) fn hostile() -> Vec<Hostile> {
    let one = |inner: &[u8]| join(&[&directory(1), &entry(16, inner.len() as u32, 22), inner]);
    let bitmap = |width, height, bits| join(&[&info(width, height, bits, 0, 0), &[90; 3000]]);
    let bomb = chunk(b"IDAT", &zlib_zeros(64 << 20));
    vec![
        file("no pictures", &[&directory(0)]),
        file(
            "a directory cut off",
            &[&directory(65_535), &entry(16, 40, 22)],
        ),
        file(
            "a picture that is the directory",
            &[&directory(1), &entry(16, 22, 0)],
        ),
        file(
            "a picture beyond the file",
            &[&directory(1), &entry(16, u32::MAX, u32::MAX)],
        ),
        file("a picture of no bytes", &[&directory(1), &entry(16, 0, 22)]),
        file("a huge PNG inside", &[&one(&ihdr(16_000, 16_000, 8, 6, 0))]),
        file(
            "a PNG bomb inside",
            &[&one(&join(&[&ihdr(3000, 3000, 16, 6, 0), &bomb]))],
        ),
        file("a PNG without data inside", &[&one(&ihdr(16, 16, 8, 6, 0))]),
        file("a bitmap without height", &[&one(&bitmap(16, 0, 32))]),
        file("a bitmap of odd height", &[&one(&bitmap(16, 33, 32))]),
        file("a bitmap upside down", &[&one(&bitmap(16, i32::MIN, 32))]),
        file("a huge bitmap", &[&one(&bitmap(16_000, 32_000, 32))]),
        file("a bitmap of three bits", &[&one(&bitmap(16, 32, 3))]),
        file("a bitmap without mask", &[&one(&info(16, 32, 32, 0, 0))]),
        file("a JPEG inside", &[&one(b"\xff\xd8\xff\xe0\0\x10JFIF")]),
        file(
            "many entries of one place",
            &[
                &directory(4000),
                &entry(16, 3040, 22).repeat(4000),
                &bitmap(16, 32, 32),
            ],
        ),
    ]
}

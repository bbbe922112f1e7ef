//! Windows bitmaps: every depth and compression, heights below nothing, runs that leave the picture.

use super::Hostile;
use super::bits::{Xorshift, join};

fn file(name: impl Into<String>, parts: &[&[u8]]) -> Hostile {
    (format!("bmp {}", name.into()), join(parts))
}

/// File header and a header of 40 bytes.
pub(crate) fn head(
    offset: u32,
    width: i32,
    height: i32,
    bits: u16,
    compression: u32,
    colors: u32,
) -> Vec<u8> {
    join(&[
        b"BM",
        &[0xff; 4],
        &[0; 4],
        &offset.to_le_bytes(),
        &info(width, height, bits, compression, colors),
    ])
}

pub(crate) fn info(width: i32, height: i32, bits: u16, compression: u32, colors: u32) -> Vec<u8> {
    join(&[
        &40_u32.to_le_bytes(),
        &width.to_le_bytes(),
        &height.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &bits.to_le_bytes(),
        &compression.to_le_bytes(),
        &[0; 12],
        &colors.to_le_bytes(),
        &[0; 4],
    ])
}

pub(crate) fn hostile() -> Vec<Hostile> {
    let mut all = Vec::new();
    let noise = Xorshift(5).bytes(4000);
    for (width, height) in [
        (0, 0),
        (i32::MAX, i32::MAX),
        (i32::MIN, i32::MIN),
        (-4, 4),
        (4, i32::MIN),
        (i32::MAX, 1),
        (1, i32::MAX),
        (16_384, 16_384),
        (16_384, -16_384),
    ] {
        let head = head(54, width, height, 24, 0, 0);
        all.push(file(format!("{width}x{height}"), &[&head, &noise]));
    }
    for bits in [0, 2, 3, 7, 15, 31, 48, 64, u16::MAX] {
        all.push(file(
            format!("{bits} bits"),
            &[&head(54, 9, 9, bits, 0, 0), &noise],
        ));
    }
    for compression in [1, 2, 3, 4, 5, 6, 11, u32::MAX] {
        for bits in [4, 8, 24] {
            let head = head(54, 9, 9, bits, compression, 0);
            all.push(file(
                format!("compression {compression} of {bits} bits"),
                &[&head, &noise],
            ));
        }
    }
    for colors in [257, 1 << 20, u32::MAX] {
        all.push(file(
            format!("{colors} colours"),
            &[&head(54, 9, 9, 8, 0, colors), &noise],
        ));
    }
    for offset in [0, 13, 1 << 20, u32::MAX] {
        all.push(file(
            format!("pixels at {offset}"),
            &[&head(offset, 9, 9, 24, 0, 0), &noise],
        ));
    }
    for size in [0, 1, 12, 16, 39, 64, 108, 124, 5000, u32::MAX] {
        let mut bytes = join(&[&head(54, 9, 9, 24, 0, 0), &noise]);
        bytes[14..18].copy_from_slice(&size.to_le_bytes());
        all.push(file(format!("a header of {size} bytes"), &[&bytes]));
    }
    let palette = [7; 1024];
    let runs =
        |name: &str, runs: &[u8]| file(name, &[&head(1078, 30, 30, 8, 1, 256), &palette, runs]);
    all.push(runs("runs that never end", &[255; 3000]));
    all.push(runs(
        "steps out of the picture",
        &[0, 2, 255, 255].repeat(500),
    ));
    all.push(runs("ends of lines without end", &[0, 0].repeat(2000)));
    all.push(runs("a literal run cut off", &[0, 200, 1, 2]));
    all.push(runs("no runs", &[]));
    all
}

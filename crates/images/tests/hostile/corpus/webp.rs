//! WebP: containers whose sizes lie, canvases without end, frames elsewhere, noise under every kind of picture.

use super::Hostile;
use super::bits::{Xorshift, join};

fn file(name: impl Into<String>, chunks: &[&[u8]]) -> Hostile {
    let body = chunks.concat();
    let size = (body.len() as u32 + 4).to_le_bytes();
    (
        format!("webp {}", name.into()),
        join(&[b"RIFF", &size, b"WEBP", &body]),
    )
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let pad: &[u8] = if data.len() % 2 == 1 { &[0] } else { &[] };
    join(&[name, &(data.len() as u32).to_le_bytes(), data, pad])
}

fn three(number: u32) -> [u8; 3] {
    let [a, b, c, _] = number.to_le_bytes();
    [a, b, c]
}

fn canvas(flags: u8, width: u32, height: u32) -> Vec<u8> {
    chunk(
        b"VP8X",
        &join(&[&[flags, 0, 0, 0], &three(width - 1), &three(height - 1)]),
    )
}

fn lossless(width: u32, height: u32, rest: &[u8]) -> Vec<u8> {
    let size = (width - 1) | (height - 1) << 14;
    chunk(b"VP8L", &join(&[&[0x2f], &size.to_le_bytes(), rest]))
}

fn lossy(width: u16, height: u16, rest: &[u8]) -> Vec<u8> {
    let start = [0x10, 0xff, 0x0f, 0x9d, 0x01, 0x2a];
    chunk(
        b"VP8 ",
        &join(&[&start, &width.to_le_bytes(), &height.to_le_bytes(), rest]),
    )
}

fn frame(place: [u32; 4], inner: &[u8]) -> Vec<u8> {
    let numbers = place.map(three).concat();
    chunk(b"ANMF", &join(&[&numbers, &three(100), &[3], inner]))
}

pub(crate) fn hostile() -> Vec<Hostile> {
    let noise = Xorshift(23).bytes(700);
    let anim = chunk(b"ANIM", &[0; 6]);
    let large = 1 << 24;
    let tiny = lossless(1, 1, &noise);
    let mut all = vec![
        file("nothing", &[]),
        file("noise", &[&noise]),
        file("a canvas alone", &[&canvas(0, 8, 8)]),
        file("an endless canvas", &[&canvas(2, large, large), &anim]),
        file(
            "a wide canvas",
            &[&canvas(2, large, 1), &anim, &frame([0, 0, 0, 0], &tiny)],
        ),
        file(
            "a canvas within limits, beyond memory",
            &[&canvas(2, 16_384, 16_384), &anim, &frame([0; 4], &tiny)],
        ),
        file("an animation without frames", &[&canvas(2, 8, 8), &anim]),
        file(
            "frames without an animation",
            &[&canvas(0, 8, 8), &frame([0; 4], &tiny)],
        ),
        file(
            "a frame beyond the canvas",
            &[&canvas(2, 8, 8), &anim, &frame([90, 90, 7, 7], &tiny)],
        ),
        file(
            "a huge frame",
            &[
                &canvas(2, 8, 8),
                &anim,
                &frame([0, 0, large - 1, large - 1], &tiny),
            ],
        ),
        file(
            "a frame without picture",
            &[&canvas(2, 8, 8), &anim, &frame([0, 0, 7, 7], &[])],
        ),
        file(
            "a frame within a frame",
            &[
                &canvas(2, 8, 8),
                &anim,
                &frame([0, 0, 7, 7], &frame([0, 0, 7, 7], &tiny)),
            ],
        ),
        file(
            "a frame of another size than its picture",
            &[
                &canvas(2, 8, 8),
                &anim,
                &frame([0, 0, 7, 7], &lossless(900, 900, &noise)),
            ],
        ),
        file("alpha alone", &[&canvas(16, 8, 8), &chunk(b"ALPH", &noise)]),
        file(
            "alpha of noise",
            &[
                &canvas(16, 8, 8),
                &chunk(b"ALPH", &noise),
                &lossy(8, 8, &noise),
            ],
        ),
        file(
            "two canvases",
            &[
                &canvas(0, 8, 8),
                &canvas(0, 9000, 9000),
                &lossless(8, 8, &noise),
            ],
        ),
        file(
            "a canvas that its picture does not fill",
            &[&canvas(0, 9000, 9000), &lossless(8, 8, &noise)],
        ),
        file(
            "EXIF that leads away",
            &[
                &canvas(8, 8, 8),
                &lossless(8, 8, &[0; 20]),
                &chunk(b"EXIF", b"MM\0*\xff\xff\xff\xff"),
            ],
        ),
    ];
    for (width, height) in [
        (1, 1),
        (1, 16_384),
        (16_384, 1),
        (16_384, 16_384),
        (3000, 3000),
    ] {
        for (kind, rest) in [
            ("noise", &noise[..]),
            ("zeros", &[0; 700]),
            ("ones", &[255; 700]),
            ("nothing", &[]),
        ] {
            all.push(file(
                format!("lossless {width}x{height} of {kind}"),
                &[&lossless(width, height, rest)],
            ));
        }
    }
    for (width, height) in [
        (0, 0),
        (1, 1),
        (16_383, 16_383),
        (u16::MAX, u16::MAX),
        (3000, 3000),
    ] {
        for (kind, rest) in [
            ("noise", &noise[..]),
            ("zeros", &[0; 700]),
            ("nothing", &[]),
        ] {
            all.push(file(
                format!("lossy {width}x{height} of {kind}"),
                &[&lossy(width, height, rest)],
            ));
        }
    }
    for size in [0, 3, 4, 1 << 30, u32::MAX] {
        let (name, mut bytes) = file(format!("a container of {size}"), &[&tiny]);
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        all.push((name, bytes));
        let (name, mut bytes) = file(format!("a chunk of {size}"), &[&tiny]);
        bytes[16..20].copy_from_slice(&size.to_le_bytes());
        all.push((name, bytes));
    }
    let mut many = [canvas(2, 2000, 2000), anim].concat();
    for _ in 0..2000 {
        many.extend(frame([0, 0, 0, 0], &lossless(1, 1, &[0; 8])));
    }
    all.push(file("2000 frames of four megapixels", &[&many]));
    all
}

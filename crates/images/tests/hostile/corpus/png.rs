//! PNG and APNG: sizes, every depth of every colour type, palettes, data that is too much or too little, frames out of place.

use super::Hostile;
use super::bits::{Xorshift, chunk, ihdr, join, zlib, zlib_zeros};

pub(crate) fn hostile() -> Vec<Hostile> {
    let mut all = sizes();
    all.extend(colors());
    all.extend(data());
    all.extend(chunks());
    all.extend(animations());
    all
}

fn file(name: impl Into<String>, parts: &[&[u8]]) -> Hostile {
    (format!("png {}", name.into()), join(parts))
}

fn sizes() -> Vec<Hostile> {
    let few = zlib(&[0; 64]);
    let sizes: [(u32, u32); 14] = [
        (0, 0),
        (0, 1),
        (1, 0),
        (u32::MAX, u32::MAX),
        (0x7fff_ffff, 0x7fff_ffff),
        (0x7fff_ffff, 1),
        (1, 0x7fff_ffff),
        (0x8000_0000, 1),
        (100_000, 1),
        (1, 100_000),
        (16_384, 16_384),
        (16_384, 1),
        (1, 16_384),
        (4096, 4096),
    ];
    sizes
        .iter()
        .map(|&(width, height)| {
            let head = ihdr(width, height, 8, 6, 0);
            file(format!("{width}x{height}"), &[&head, &chunk(b"IDAT", &few)])
        })
        .collect()
}

/// Every depth with every colour type, of which most do not exist, with and without interlace.
fn colors() -> Vec<Hostile> {
    let mut all = Vec::new();
    let data = chunk(b"IDAT", &zlib(&[7; 512]));
    for color in 0..=7 {
        for depth in [0, 1, 2, 4, 8, 16, 32, 255] {
            let interlace = (color + depth % 3) % 3;
            let head = ihdr(5, 5, depth, color, interlace);
            all.push(file(
                format!("colour {color} depth {depth}"),
                &[&head, &data],
            ));
        }
    }
    all
}

fn data() -> Vec<Hostile> {
    let head = ihdr(3, 3, 8, 2, 0);
    let large = ihdr(2000, 2000, 8, 6, 1);
    let noise = Xorshift(3).bytes(300);
    let bomb = zlib_zeros(256 << 20);
    let half = zlib(&[9; 30]);
    let pieces: Vec<u8> = half
        .iter()
        .flat_map(|&byte| chunk(b"IDAT", &[byte]))
        .collect();
    vec![
        file("no data", &[&head]),
        file("nothing but a signature", &[&head[..8]]),
        file("half a header", &[&head[..20]]),
        file("empty data", &[&head, &chunk(b"IDAT", &[])]),
        file("noise for data", &[&head, &chunk(b"IDAT", &noise)]),
        file(
            "cut data",
            &[&head, &chunk(b"IDAT", &half[..half.len() / 2])],
        ),
        file("a byte of data a chunk", &[&head, &pieces]),
        file("a bomb for three pixels", &[&head, &chunk(b"IDAT", &bomb)]),
        file(
            "a bomb for many pixels, interlaced",
            &[&large, &chunk(b"IDAT", &bomb)],
        ),
        file(
            "wrong filters",
            &[&head, &chunk(b"IDAT", &zlib(&[200; 30]))],
        ),
        file(
            "interlace 2",
            &[&ihdr(3, 3, 8, 2, 2), &chunk(b"IDAT", &half)],
        ),
        file(
            "a length beyond the file",
            &[&head, &[0xff; 4], b"IDAT", &half],
        ),
        file(
            "a length of nearly everything",
            &[&head, &[0x7f, 0xff, 0xff, 0xff], b"IDAT", &half],
        ),
        file(
            "two headers",
            &[
                &head,
                &ihdr(9000, 9000, 8, 6, 0)[8..],
                &chunk(b"IDAT", &half),
            ],
        ),
        file(
            "data behind the end",
            &[&head, &chunk(b"IEND", &[]), &chunk(b"IDAT", &half)],
        ),
    ]
}

fn chunks() -> Vec<Hostile> {
    let palette = ihdr(4, 4, 8, 3, 0);
    let grey = ihdr(4, 4, 8, 0, 0);
    let data = chunk(b"IDAT", &zlib(&[250; 64]));
    let bomb = zlib_zeros(64 << 20);
    let text = |name: &[u8; 4], head: &[u8]| chunk(name, &join(&[head, &bomb]));
    let looped = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\x08";
    let far = b"MM\0*\xff\xff\xff\xf0\0\x01";
    vec![
        file("no palette", &[&palette, &data]),
        file(
            "a palette of two bytes",
            &[&palette, &chunk(b"PLTE", &[1, 2]), &data],
        ),
        file(
            "a palette of 300 colours",
            &[&palette, &chunk(b"PLTE", &[5; 900]), &data],
        ),
        file(
            "colours beyond the palette",
            &[&palette, &chunk(b"PLTE", &[5; 6]), &data],
        ),
        file(
            "transparency before the palette",
            &[&palette, &chunk(b"tRNS", &[0; 300]), &data],
        ),
        file(
            "transparency of one byte",
            &[&grey, &chunk(b"tRNS", &[1]), &data],
        ),
        file(
            "transparency of 99 bytes",
            &[&grey, &chunk(b"tRNS", &[1; 99]), &data],
        ),
        file(
            "a text bomb",
            &[&grey, &text(b"zTXt", b"prompt\0\0"), &data],
        ),
        file(
            "an international bomb",
            &[&grey, &text(b"iTXt", b"prompt\0\x01\0\0\0"), &data],
        ),
        file(
            "a bomb named as XMP",
            &[
                &grey,
                &text(b"iTXt", b"XML:com.adobe.xmp\0\x01\0\0\0"),
                &data,
            ],
        ),
        file(
            "a bomb named as EXIF",
            &[&grey, &text(b"zTXt", b"Raw profile type exif\0\0"), &data],
        ),
        file(
            "a profile bomb",
            &[&grey, &text(b"iCCP", b"icc\0\0"), &data],
        ),
        file(
            "EXIF that leads to itself",
            &[&grey, &chunk(b"eXIf", looped), &data],
        ),
        file(
            "EXIF that leads away",
            &[&grey, &chunk(b"eXIf", far), &data],
        ),
        file(
            "EXIF of four bytes",
            &[&grey, &chunk(b"eXIf", b"MM\0*"), &data],
        ),
    ]
}

/// What `fcTL` says, before delay and disposal.
fn fctl(sequence: u32, (width, height): (u32, u32), (x, y): (u32, u32), ops: [u8; 2]) -> Vec<u8> {
    let numbers = [sequence, width, height, x, y]
        .map(u32::to_be_bytes)
        .concat();
    chunk(b"fcTL", &join(&[&numbers, &[0, 1, 0, 1], &ops]))
}

fn animations() -> Vec<Hostile> {
    let head = ihdr(4, 4, 8, 6, 0);
    let actl = |frames: u32| chunk(b"acTL", &[frames.to_be_bytes(), [0; 4]].concat());
    let pixels = zlib(&[0; 4 * 17]);
    let idat = chunk(b"IDAT", &pixels);
    let fdat = |sequence: u32| chunk(b"fdAT", &join(&[&sequence.to_be_bytes(), &pixels]));
    let first = fctl(0, (4, 4), (0, 0), [0, 0]);
    let second = |size, place, ops| {
        let control = fctl(1, size, place, ops);
        [&head[..], &actl(2), &first, &idat, &control, &fdat(2)].concat()
    };
    let huge = (u32::MAX, u32::MAX);
    let mut all = vec![
        file("no frames", &[&head, &actl(0), &idat]),
        file(
            "frames without end",
            &[&head, &actl(u32::MAX), &first, &idat],
        ),
        file(
            "a frame beyond the canvas",
            &[&second((4, 4), (1, 1), [0, 0])],
        ),
        file("a frame far away", &[&second((4, 4), huge, [0, 1])]),
        file("a frame of no size", &[&second((0, 0), (0, 0), [1, 1])]),
        file("a huge frame", &[&second(huge, (0, 0), [2, 1])]),
        file("unknown disposal", &[&second((4, 4), (0, 0), [9, 9])]),
        file(
            "data before its control",
            &[&head, &actl(2), &idat, &fdat(0)],
        ),
        file(
            "data too short for its number",
            &[&head, &actl(2), &first, &idat, &chunk(b"fdAT", &[0])],
        ),
        file(
            "a first frame outside",
            &[&head, &actl(1), &fctl(0, (4, 4), (3, 3), [0, 0]), &idat],
        ),
    ];
    let mut many = [&head[..], &actl(3000), &first, &idat].concat();
    for frame in 0..3000 {
        let disposal = [(frame % 3) as u8, (frame % 2) as u8];
        many.extend(fctl(frame * 2 + 1, (4, 4), (0, 0), disposal));
        many.extend(fdat(frame * 2 + 2));
    }
    all.push(file("3000 frames", &[&many]));
    let (canvas, zeros) = (ihdr(2000, 2000, 8, 6, 0), zlib_zeros(2000 * 8001));
    let mut wide = join(&[
        &canvas,
        &actl(60),
        &fctl(0, (2000, 2000), (0, 0), [0, 0]),
        &chunk(b"IDAT", &zeros),
    ]);
    for frame in 0..60_u32 {
        wide.extend(fctl(frame * 2 + 1, (2000, 2000), (0, 0), [2, 1]));
        wide.extend(chunk(
            b"fdAT",
            &join(&[&(frame * 2 + 2).to_be_bytes(), &zeros]),
        ));
    }
    all.push(file("60 frames of four megapixels", &[&wide]));
    all
}

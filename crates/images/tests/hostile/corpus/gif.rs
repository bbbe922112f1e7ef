//! GIF: screens and frames that do not fit, codes without end, blocks cut short.

use super::Hostile;
use super::bits::{Xorshift, join};

fn file(name: impl Into<String>, parts: &[&[u8]]) -> Hostile {
    (format!("gif {}", name.into()), join(parts))
}

fn screen(width: u16, height: u16, flags: u8) -> Vec<u8> {
    let palette = match flags & 0x80 {
        0 => Vec::new(),
        _ => vec![90; 3 << ((flags & 7) + 1)],
    };
    join(&[
        b"GIF89a",
        &width.to_le_bytes(),
        &height.to_le_bytes(),
        &[flags, 0, 0],
        &palette,
    ])
}

fn frame([x, y, width, height]: [u16; 4], flags: u8, code_size: u8, codes: &[u8]) -> Vec<u8> {
    let numbers = [x, y, width, height].map(u16::to_le_bytes).concat();
    let blocks: Vec<u8> = codes
        .chunks(255)
        .flat_map(|block| join(&[&[block.len() as u8], block]))
        .collect();
    join(&[b",", &numbers, &[flags, code_size], &blocks, &[0]])
}

pub(crate) fn hostile() -> Vec<Hostile> {
    let small = screen(4, 4, 0x81);
    // Clear, four times the first colour, end: codes of three bits.
    let codes = [0x84, 0x8f, 0x02];
    let place = [0, 0, 4, 4];
    let noise = Xorshift(11).bytes(2000);
    let good = frame(place, 0, 2, &codes);
    let mut all = vec![
        file("nothing but a screen", &[&small]),
        file("a screen of nothing", &[&screen(0, 0, 0x81), &good]),
        file(
            "a screen of everything",
            &[&screen(65_535, 65_535, 0x81), &good],
        ),
        file("a wide screen", &[&screen(65_535, 1, 0x81), &good]),
        file(
            "a screen within limits, beyond memory",
            &[&screen(16_384, 16_384, 0x81), &good],
        ),
        file("no colours at all", &[&screen(4, 4, 0), &good]),
        file(
            "a frame beyond the screen",
            &[&small, &frame([60_000, 60_000, 4, 4], 0, 2, &codes)],
        ),
        file(
            "a frame larger than the screen",
            &[&small, &frame([0, 0, 65_535, 65_535], 0, 2, &codes)],
        ),
        file(
            "a frame of nothing",
            &[&small, &frame([0, 0, 0, 0], 0, 2, &codes)],
        ),
        file(
            "a local palette cut off",
            &[&small, &frame(place, 0x87, 2, &codes)],
        ),
        file("noise for codes", &[&small, &frame(place, 0, 2, &noise)]),
        file(
            "noise for codes, interlaced",
            &[
                &screen(600, 600, 0x87),
                &frame([0, 0, 600, 600], 0x40, 8, &noise),
            ],
        ),
        file("no codes", &[&small, &frame(place, 0, 2, &[])]),
        file("an unknown block", &[&small, b"?", &noise]),
        file("an extension without end", &[&small, b"!\xf9", &[255; 600]]),
        file("only a trailer", &[&small, b";"]),
        file("GIF87a and nothing", &[b"GIF87a"]),
    ];
    for code_size in [0, 1, 9, 12, 13, 255] {
        let frame = frame(place, 0, code_size, &codes);
        all.push(file(
            format!("codes of {code_size} bits"),
            &[&small, &frame],
        ));
    }
    let mut many = small.clone();
    for at in 0..5000_u16 {
        let control = [b'!', 0xf9, 4, (at % 8) as u8 * 4, 0, 0, 0, 0];
        many.extend(control);
        many.extend(&good);
    }
    all.push(file("5000 frames", &[&many]));
    let mut wide = screen(3000, 3000, 0x81);
    for _ in 0..200 {
        wide.extend(&good);
    }
    all.push(file("200 frames of nine megapixels", &[&wide]));
    all
}

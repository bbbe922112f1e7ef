//! JPEG: frames of any size and sampling, tables that make no sense, scans without end.

use super::Hostile;
use super::bits::{Xorshift, join};

fn file(name: impl Into<String>, segments: &[&[u8]]) -> Hostile {
    (
        format!("jpeg {}", name.into()),
        join(&[b"\xff\xd8", &segments.concat(), b"\xff\xd9"]),
    )
}

fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    join(&[
        &[0xff, marker],
        &(data.len() as u16 + 2).to_be_bytes(),
        data,
    ])
}

/// A frame header; each component is its sampling factors, and uses table 0.
fn sof(marker: u8, bits: u8, (width, height): (u16, u16), samplings: &[u8]) -> Vec<u8> {
    let mut data = join(&[
        &[bits],
        &height.to_be_bytes(),
        &width.to_be_bytes(),
        &[samplings.len() as u8],
    ]);
    for (id, sampling) in (1..=255).zip(samplings) {
        data.extend([id, *sampling, 0]);
    }
    segment(marker, &data)
}

/// Quantization and both Huffman tables of number 0; each has two codes.
fn tables() -> Vec<u8> {
    let mut counts = [0; 16];
    counts[1] = 3;
    let huffman =
        |class: u8, symbols: [u8; 3]| segment(0xc4, &join(&[&[class], &counts, &symbols]));
    join(&[
        &segment(0xdb, &join(&[&[0], &[1; 64]])),
        &huffman(0x00, [0, 1, 9]),
        &huffman(0x10, [0x00, 0xf0, 0xe0]),
    ])
}

fn sos(components: u8, [first, last, approximation]: [u8; 3]) -> Vec<u8> {
    let mut data = vec![components];
    for id in 1..=components {
        data.extend([id, 0]);
    }
    data.extend([first, last, approximation]);
    segment(0xda, &data)
}

const WHOLE: [u8; 3] = [0, 63, 0];

pub(crate) fn hostile() -> Vec<Hostile> {
    let noise: Vec<u8> = Xorshift(29)
        .bytes(600)
        .into_iter()
        .map(|byte| byte & 0x7f)
        .collect();
    let tables = tables();
    let one = sos(1, WHOLE);
    let grey = |size| sof(0xc0, 8, size, &[0x11]);
    let mut all = vec![
        file("nothing", &[]),
        file("no tables", &[&grey((16, 16)), &one, &noise]),
        file("no frame", &[&tables, &one, &noise]),
        file("no scan", &[&tables, &grey((16, 16))]),
        file("no data", &[&tables, &grey((16, 16)), &one]),
        file(
            "two frames",
            &[&tables, &grey((16, 16)), &grey((9000, 9000)), &one, &noise],
        ),
        file(
            "a frame after its scan",
            &[
                &tables,
                &grey((16, 16)),
                &one,
                &noise,
                &grey((9000, 9000)),
                &one,
            ],
        ),
        file(
            "a scan of parts that are not there",
            &[&tables, &grey((16, 16)), &sos(4, WHOLE), &noise],
        ),
        file(
            "a scan of nothing",
            &[&tables, &grey((16, 16)), &sos(0, WHOLE), &noise],
        ),
        file(
            "a spectrum upside down",
            &[
                &tables,
                &sof(0xc2, 8, (16, 16), &[0x11]),
                &sos(1, [63, 1, 0]),
                &noise,
            ],
        ),
        file(
            "an approximation of 255",
            &[
                &tables,
                &sof(0xc2, 8, (16, 16), &[0x11]),
                &sos(1, [0, 0, 255]),
                &noise,
            ],
        ),
        file(
            "a restart at every block",
            &[
                &tables,
                &segment(0xdd, &[0, 1]),
                &grey((64, 64)),
                &one,
                &[0xff, 0xd0].repeat(300),
            ],
        ),
        file(
            "restarts alone",
            &[&tables, &grey((64, 64)), &one, &[0xff, 0xd7].repeat(300)],
        ),
        file(
            "quantization of nothing",
            &[&segment(0xdb, &[0]), &grey((16, 16)), &one],
        ),
        file(
            "quantization table 15",
            &[
                &segment(0xdb, &join(&[&[15], &[1; 64]])),
                &grey((16, 16)),
                &one,
            ],
        ),
        file(
            "a table with too many codes",
            &[
                &segment(0xc4, &join(&[&[0], &[255; 16], &[1; 4080]])),
                &grey((16, 16)),
                &one,
                &noise,
            ],
        ),
        file(
            "a table cut off",
            &[&segment(0xc4, &[0, 255, 255]), &grey((16, 16)), &one],
        ),
        file(
            "EXIF that leads to itself",
            &[
                &segment(
                    0xe1,
                    b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x87\x69\0\x04\0\0\0\x01\0\0\0\x08",
                ),
                &tables,
                &grey((16, 16)),
                &one,
                &noise,
            ],
        ),
        file(
            "a segment of no length",
            &[b"\xff\xe0\0\0", &tables, &grey((16, 16)), &one],
        ),
        file("a segment beyond the end", &[b"\xff\xe0\xff\xff", &tables]),
        file("filling without end", &[&[0xff; 5000]]),
    ];
    for size in [
        (0, 0),
        (0, 9),
        (9, 0),
        (65_535, 65_535),
        (16_384, 16_384),
        (65_500, 1),
        (1, 65_500),
    ] {
        all.push(file(
            format!("{}x{}", size.0, size.1),
            &[&tables, &grey(size), &one, &noise],
        ));
        let progressive = sof(0xc2, 8, size, &[0x44, 0x11, 0x11]);
        all.push(file(
            format!("progressive {}x{}", size.0, size.1),
            &[&tables, &progressive, &sos(1, [0, 0, 0]), &noise],
        ));
    }
    for marker in [
        0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xcf,
    ] {
        all.push(file(
            format!("frame {marker:x}"),
            &[&tables, &sof(marker, 8, (40, 40), &[0x11]), &one, &noise],
        ));
    }
    for bits in [0, 1, 7, 12, 16, 255] {
        all.push(file(
            format!("{bits} bits"),
            &[&tables, &sof(0xc1, bits, (40, 40), &[0x11]), &one, &noise],
        ));
    }
    for samplings in [
        &[][..],
        &[0x00],
        &[0xff],
        &[0x14, 0x41, 0x11],
        &[0x31, 0x11, 0x11],
        &[0x11; 5],
        &[0x44; 4],
        &[0x11; 255],
    ] {
        let frame = sof(0xc0, 8, (40, 40), samplings);
        let count = samplings.len().min(4) as u8;
        all.push(file(
            format!("samplings {samplings:x?}"),
            &[&tables, &frame, &sos(count, WHOLE), &noise],
        ));
    }
    // Each scan costs a few bytes and touches every block.
    let scans = join(&[&sos(1, [1, 63, 0]), &noise[..4]]).repeat(20_000);
    let large = sof(0xc2, 8, (1400, 1400), &[0x11]);
    all.push(file("20,000 scans", &[&tables, &large, &scans]));
    all
}

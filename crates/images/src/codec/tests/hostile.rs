//! Thousands of broken and lying files, made from the committed pictures: none may panic, loop, or take more than the limits.

use super::pictures::pictures;
use crate::codec::{Channel, CodecError, Limits, decode, decode_channel, png_text, probe};

/// Small enough that any file that gets past them shows in the process.
const LIMITS: Limits = Limits {
    max_width: 512,
    max_height: 512,
    max_pixels: 1 << 18,
    max_frames: 16,
    max_bytes: 8 << 20,
};

/// Marsaglia's xorshift, so that every run breaks the same bytes.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Decodes in every way there is; answers whether a picture came out. Its size is within the limits.
fn survives(name: &str, bytes: &[u8]) -> bool {
    let _header = probe(bytes, &LIMITS);
    let _text = png_text(bytes, 1 << 16);
    let _alpha = decode_channel(bytes, Channel::Alpha, &LIMITS);
    match decode(bytes, &LIMITS) {
        Ok(loaded) => {
            let frames = loaded.image.frames().iter().chain(loaded.mask.frames());
            let taken: usize = frames.map(|frame| frame.size_bytes()).sum();
            assert!(
                taken as u64 <= LIMITS.max_bytes + 16 * 64 * 64 * 4,
                "{name}: {taken} bytes"
            );
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn a_picture_cut_at_every_sixteenth_is_shown_or_refused() {
    let mut shown = 0;
    let pictures = pictures();
    for (name, bytes, _) in &pictures {
        for sixteenth in 0..16 {
            shown += usize::from(survives(name, &bytes[..bytes.len() * sixteenth / 16]));
        }
    }
    // PNG, JPEG, GIF and BMP show what they have.
    assert!(
        shown > pictures.len() * 4,
        "only {shown} cut pictures were shown"
    );
}

#[test]
fn a_picture_with_flipped_bytes_is_shown_or_refused() {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for (name, bytes, _) in pictures() {
        for round in 0..24 {
            let mut broken = bytes.clone();
            for _ in 0..1 + round / 8 {
                let at = random.below(broken.len());
                broken[at] ^= 1 << random.below(8);
                let at = random.below(broken.len().min(64));
                broken[at] = random.next() as u8;
            }
            survives(&name, &broken);
        }
    }
}

#[test]
fn every_header_byte_may_be_anything() {
    for (name, bytes, _) in pictures().into_iter().step_by(5) {
        for at in 0..bytes.len().min(48) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = value;
                survives(&name, &broken);
            }
        }
    }
}

#[test]
fn noise_behind_every_signature_is_refused_or_harmless() {
    let mut random = Xorshift(7);
    let signatures: [&[u8]; 9] = [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xd8\xff\xc0\0\x11\x08",
        b"\xff\xd8\xff\xdb",
        b"RIFF\xff\0\0\0WEBPVP8X\x0a\0\0\0",
        b"RIFF\xff\0\0\0WEBPVP8L\xf0\0\0\0\x2f",
        b"GIF89a",
        b"BM",
        b"II*\0\x08\0\0\0",
        b"\0\0\x01\0\x01\0",
    ];
    for signature in signatures {
        for _ in 0..40 {
            let noise = (0..256).map(|_| random.next() as u8);
            let file: Vec<u8> = signature.iter().copied().chain(noise).collect();
            survives("noise", &file);
        }
    }
    assert_eq!(decode(b"hello", &LIMITS), Err(CodecError::Unrecognized));
    assert_eq!(decode(b"", &LIMITS), Err(CodecError::Unrecognized));
}

/// The committed picture with bytes written over it.
fn patched(name: &str, patches: &[(usize, &[u8])]) -> Vec<u8> {
    let (_, mut bytes, _) = pictures()
        .into_iter()
        .find(|(picture, ..)| picture == name)
        .unwrap();
    for (at, patch) in patches {
        bytes[*at..at + patch.len()].copy_from_slice(patch);
    }
    bytes
}

#[test]
fn bombs_are_refused_from_their_header() {
    let after = |name: &str, what: &[u8]| {
        let bytes = patched(name, &[]);
        bytes
            .windows(what.len())
            .position(|window| window == what)
            .unwrap()
            + what.len()
    };
    let sof = after("jpeg_grey.jpg", b"\xff\xc0\0\x0b\x08");
    let huge = 0x7fff_ffff_u32;
    let bombs = [
        patched(
            "png_2_8.png",
            &[(16, &huge.to_be_bytes()), (20, &huge.to_be_bytes())],
        ),
        patched("png_0_1_adam7.png", &[(16, &40_000_u32.to_be_bytes())]),
        patched("jpeg_grey.jpg", &[(sof, &[0xff, 0xfe, 0xff, 0xfe])]),
        patched("gif_keep.gif", &[(6, &[0xff; 4])]),
        patched(
            "bmp_24.bmp",
            &[(18, &huge.to_le_bytes()), (22, &huge.to_le_bytes())],
        ),
        patched("bmp_rle8.bmp", &[(18, &huge.to_le_bytes())]),
        patched("webp_anim.webp", &[(24, &[0xff; 6])]),
        patched("webp_lossless.webp", &[(21, &[0xff, 0xff, 0xff, 0x0f])]),
        patched("webp_lossy.webp", &[(26, &[0xff, 0x3f, 0xff, 0x3f])]),
    ];
    for (at, bomb) in bombs.iter().enumerate() {
        for answer in [
            probe(bomb, &LIMITS).map(|_| ()),
            decode(bomb, &LIMITS).map(|_| ()),
        ] {
            assert!(
                matches!(answer, Err(CodecError::TooLarge { .. })),
                "bomb {at}: {answer:?}"
            );
        }
    }
}

#[test]
fn each_limit_is_kept_and_named() {
    let limited = |name: &str, limits: Limits| match decode(&patched(name, &[]), &limits) {
        Err(CodecError::TooLarge { what, limit }) => (what, limit),
        other => panic!("{name}: {other:?}"),
    };
    let limits = Limits::default();
    assert_eq!(
        limited(
            "png_2_8.png",
            Limits {
                max_width: 10,
                ..limits
            }
        ),
        ("pixels in width", 10)
    );
    assert_eq!(
        limited(
            "png_2_8.png",
            Limits {
                max_height: 8,
                ..limits
            }
        ),
        ("pixels in height", 8)
    );
    assert_eq!(
        limited(
            "apng_rgb.png",
            Limits {
                max_frames: 5,
                ..limits
            }
        ),
        ("frames", 5)
    );
    assert_eq!(
        limited(
            "webp_anim.webp",
            Limits {
                max_frames: 3,
                ..limits
            }
        ),
        ("frames", 3)
    );
    assert_eq!(
        limited(
            "tiff_pages.tif",
            Limits {
                max_frames: 2,
                ..limits
            }
        ),
        ("frames", 2)
    );
    assert_eq!(
        limited(
            "gif_keep.gif",
            Limits {
                max_pixels: 400,
                ..limits
            }
        ),
        ("pixels over all frames", 400)
    );
    for (name, ..) in pictures() {
        let tight = Limits {
            max_bytes: 11,
            ..limits
        };
        let answer = decode(&patched(&name, &[]), &tight);
        assert!(
            matches!(answer, Err(CodecError::TooLarge { limit: 11, .. })),
            "{name}: {answer:?}"
        );
    }
}

#[test]
fn text_bombs_stop_at_the_bound() {
    let zeros = fdeflate::compress_to_vec(&vec![0; 1 << 20]);
    let chunk = |name: &[u8], data: &[u8]| {
        [&(data.len() as u32).to_be_bytes(), name, data, &[0; 4]].concat()
    };
    let file = |chunk: Vec<u8>| [b"\x89PNG\r\n\x1a\n".as_slice(), &chunk].concat();
    let ztxt = file(chunk(b"zTXt", &[b"prompt\0\0".as_slice(), &zeros].concat()));
    let itxt = file(chunk(
        b"iTXt",
        &[b"prompt\0\x01\0\0\0".as_slice(), &zeros].concat(),
    ));
    for bomb in [&ztxt, &itxt] {
        let refusal = CodecError::TooLarge {
            what: "bytes of PNG text",
            limit: 1 << 16,
        };
        assert_eq!(png_text(bomb, 1 << 16), Err(refusal));
        assert_eq!(png_text(bomb, 2 << 20).unwrap()[0].text.len(), 1 << 20);
    }
}

/// What the process ever had in memory: a bomb of 16384 pixels a side would take gigabytes.
#[test]
#[cfg(target_os = "linux")]
fn the_whole_corpus_stays_small_in_memory() {
    for (name, bytes, _) in pictures() {
        survives(&name, &bytes);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kilobytes: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 512 * 1024, "{kilobytes} KB");
}

#[test]
fn a_jpeg_is_counted_as_its_result_and_the_bytes_that_it_is_made_of() {
    let (side, rgb) = (64, [90; 64 * 64 * 3]);
    let mut jpeg = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 95);
    let encoded = encoder.encode(&rgb, 64, 64, jpeg_encoder::ColorType::Rgb);
    encoded.expect("a picture of one colour");
    // Three floats and three bytes a pixel; the coefficients are gone before there are floats.
    let needed = side * side * 15;
    let decoded = |max_bytes| {
        decode(
            &jpeg,
            &Limits {
                max_bytes,
                ..LIMITS
            },
        )
    };
    assert!(decoded(needed).is_ok());
    assert!(matches!(
        decoded(needed - 1),
        Err(CodecError::TooLarge { .. })
    ));
}

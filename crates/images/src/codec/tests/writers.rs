//! What SaveImage and the previews write, read back.

use super::goldens::golden;
use crate::codec::chunks::Chunks;
use crate::codec::{
    CodecError, Format, Limits, PngText, decode, encode_jpeg, encode_png, png_text, preview_jpeg,
    probe,
};
use crate::pixels::Frame;

/// Waves over every channel, some of them beyond 0..1.
fn waves(width: usize, height: usize, channels: usize) -> Frame {
    let sample = |at: usize| 0.5 + 0.6 * (at as f32 / 9.0).sin();
    Frame::new(
        height,
        width,
        channels,
        (0..width * height * channels).map(sample).collect(),
    )
}

fn text(keyword: &str, text: &str) -> (String, String) {
    (keyword.to_owned(), text.to_owned())
}

fn names(png: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = Chunks::new(png)
        .map(|chunk| String::from_utf8_lossy(&chunk.name).into_owned())
        .collect();
    names.dedup();
    names
}

#[test]
fn a_png_holds_the_truncated_samples_of_its_frame() {
    for (width, height) in [(1, 1), (7, 5), (64, 64), (300, 2)] {
        for channels in [3, 4] {
            let frame = waves(width, height, channels);
            let loaded = decode(&encode_png(&frame, &[]).unwrap(), &Limits::default()).unwrap();
            let bytes = frame.to_bytes();
            let colors: Vec<u8> = bytes
                .chunks(channels)
                .flat_map(|pixel| &pixel[..3])
                .copied()
                .collect();
            assert_eq!(loaded.image.first().to_bytes(), colors);
            let alpha: Vec<u8> = bytes
                .chunks(channels)
                .map(|pixel| 255 - pixel[channels - 1])
                .collect();
            let mask: Vec<u8> = loaded
                .mask
                .first()
                .data()
                .iter()
                .map(|v| (v * 255.0).round() as u8)
                .collect();
            assert!(channels == 3 || mask == alpha);
        }
        let grey = waves(width, height, 1);
        let loaded = decode(&encode_png(&grey, &[]).unwrap(), &Limits::default()).unwrap();
        assert_eq!(
            loaded.image.first().to_bytes(),
            grey.to_bytes()
                .iter()
                .flat_map(|&v| [v; 3])
                .collect::<Vec<u8>>()
        );
    }
}

#[test]
fn a_png_of_noise_is_hardly_larger_than_its_samples() {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0
    };
    let frame = Frame::new(100, 100, 3, (0..30_000).map(|_| noise()).collect());
    assert!(encode_png(&frame, &[]).unwrap().len() < 30_000 * 102 / 100);
}

#[test]
fn text_stands_between_header_and_pixels_in_order() {
    let texts = [
        text("prompt", "{\"a\": 1}"),
        text("workflow", "caf\u{e9}"),
        text("note", "\u{1f600}"),
    ];
    let png = encode_png(&waves(4, 4, 3), &texts).unwrap();
    assert_eq!(names(&png), ["IHDR", "tEXt", "iTXt", "IDAT"]);
    let read = texts.map(|(keyword, text)| PngText { keyword, text });
    assert_eq!(png_text(&png, 1 << 16).unwrap(), read);
}

#[test]
fn chunks_stand_as_in_a_recorded_file() {
    let Some(recorded) = golden("load_photo_png/out_2_0.png") else {
        return;
    };
    let texts: Vec<(String, String)> = png_text(&recorded, 1 << 20)
        .unwrap()
        .into_iter()
        .map(|text| (text.keyword, text.text))
        .collect();
    assert!(!texts.is_empty());
    let frame = decode(&recorded, &Limits::default()).unwrap().image;
    let ours = encode_png(frame.first(), &texts).unwrap();
    assert_eq!(names(&ours), names(&recorded));
    let text_chunks = |png: &[u8]| {
        Chunks::new(png)
            .filter(|chunk| chunk.name == *b"tEXt")
            .map(|chunk| chunk.data.to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(text_chunks(&ours), text_chunks(&recorded));
}

#[test]
fn frames_that_no_file_can_hold_are_refused() {
    for frame in [
        waves(2, 2, 2),
        waves(2, 2, 5),
        Frame::filled(0, 4, 3, 0.0),
        Frame::filled(4, 0, 3, 0.0),
    ] {
        assert!(
            matches!(encode_png(&frame, &[]), Err(CodecError::Unsupported(_))),
            "{:?}",
            frame.shape()
        );
    }
    assert!(matches!(
        preview_jpeg(&Frame::filled(0, 4, 3, 0.0)),
        Err(CodecError::Unsupported(_))
    ));
}

#[test]
fn a_preview_fits_512_pixels_and_keeps_its_proportions() {
    let sizes = [
        ((100, 80), (100, 80)),
        ((512, 512), (512, 512)),
        ((1024, 256), (512, 128)),
        ((30, 2000), (8, 512)),
        ((4000, 1), (512, 1)),
    ];
    for ((width, height), fitted) in sizes {
        for channels in [1, 3, 4] {
            let jpeg = preview_jpeg(&waves(width, height, channels)).unwrap();
            let header = probe(&jpeg, &Limits::default()).unwrap();
            assert_eq!(
                (header.format, (header.width, header.height)),
                (Format::Jpeg, fitted)
            );
        }
    }
}

#[test]
fn a_preview_shows_the_picture() {
    let ramp = |at: usize| (at / 3 % 900) as f32 / 900.0;
    let frame = Frame::new(600, 900, 3, (0..600 * 900 * 3).map(ramp).collect());
    let shown = decode(&encode_jpeg(&frame, 300, 90).unwrap(), &Limits::default())
        .unwrap()
        .image;
    for (at, &v) in shown.first().data().iter().enumerate() {
        let wanted = ((at / 3 % 300) as f32 + 0.5) / 300.0;
        assert!(
            (v - wanted).abs() < 0.03,
            "sample {at} is {v} instead of {wanted}"
        );
    }
}

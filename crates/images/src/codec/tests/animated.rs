//! Animated files against the recorded ones: frames, timing and metadata.

use std::sync::Arc;

use super::goldens::{golden, recordings};
use crate::codec::chunks::Chunks;
use crate::codec::{Limits, WebpOptions, decode, encode_apng, encode_webp, png_text};
use crate::pixels::Frame;

fn frames_of(file: &[u8]) -> Vec<Vec<u8>> {
    let decoded = decode(file, &Limits::default()).unwrap();
    decoded
        .image
        .frames()
        .iter()
        .map(|frame| frame.to_bytes())
        .collect()
}

fn recorded_batch() -> Option<Vec<Arc<Frame>>> {
    let source = golden("animated/gold_anim.gif")?;
    Some(
        decode(&source, &Limits::default())
            .unwrap()
            .image
            .into_frames(),
    )
}

/// Delays of an APNG: numerator over denominator, in milliseconds.
fn apng_ms(file: &[u8]) -> Vec<u32> {
    let controls = Chunks::new(file).filter(|chunk| chunk.name == *b"fcTL");
    let short = |data: &[u8], at: usize| u32::from(u16::from_be_bytes([data[at], data[at + 1]]));
    controls
        .map(|chunk| short(chunk.data, 20) * 1000 / short(chunk.data, 22))
        .collect()
}

/// Name and contents of every chunk of a WebP file.
fn riff(file: &[u8]) -> Vec<([u8; 4], &[u8])> {
    let mut rest = &file[12..];
    let mut chunks = Vec::new();
    while let Some((name, after)) = rest.split_first_chunk::<4>() {
        let (length, after) = after.split_first_chunk::<4>().unwrap();
        let length = u32::from_le_bytes(*length) as usize;
        chunks.push((*name, &after[..length]));
        rest = &after[length.next_multiple_of(2)..];
    }
    chunks
}

fn webp_ms(file: &[u8]) -> Vec<u32> {
    let frames = riff(file).into_iter().filter(|(name, _)| name == b"ANMF");
    frames
        .map(|(_, data)| u32::from_le_bytes([data[12], data[13], data[14], 0]))
        .collect()
}

fn exif(file: &[u8]) -> Option<Vec<u8>> {
    riff(file)
        .into_iter()
        .find(|(name, _)| name == b"EXIF")
        .map(|(_, data)| data.to_vec())
}

fn plain(side: usize, value: f32) -> Arc<Frame> {
    Arc::new(Frame::filled(side, side, 3, value))
}

fn webp_options(lossless: bool) -> WebpOptions {
    WebpOptions {
        fps: 10.0,
        lossless,
        quality: 80,
        method: 4,
    }
}

#[test]
fn apng_has_the_recorded_frames_timing_and_metadata() {
    let (Some(batch), Some(recorded)) = (recorded_batch(), golden("animated/out_2_0.png")) else {
        return;
    };
    let comf = Chunks::new(&recorded)
        .find(|chunk| chunk.name == *b"comf")
        .unwrap()
        .data;
    let (keyword, text) = std::str::from_utf8(comf).unwrap().split_once('\0').unwrap();
    let ours = encode_apng(&batch, 6.0, 4, &[(keyword.to_owned(), text.to_owned())]).unwrap();
    assert_eq!(frames_of(&ours), frames_of(&recorded));
    assert_eq!(apng_ms(&ours), apng_ms(&recorded));
    let names = |file: &[u8]| {
        Chunks::new(file)
            .map(|chunk| chunk.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&ours), names(&recorded));
    assert_eq!(Chunks::new(&ours).last().unwrap().data, comf);
}

#[test]
fn lossless_webp_has_the_recorded_frames_timing_and_metadata() {
    let (Some(batch), Some(recorded)) = (recorded_batch(), golden("animated/out_3_0.webp")) else {
        return;
    };
    let block = exif(&recorded).unwrap();
    let text = std::str::from_utf8(&block[32..])
        .unwrap()
        .trim_end_matches('\0');
    let (keyword, text) = text.split_once(':').unwrap();
    let ours = encode_webp(
        &batch,
        &webp_options(true),
        &[(keyword.to_owned(), text.to_owned())],
    )
    .unwrap();
    assert_eq!(frames_of(&ours), frames_of(&recorded));
    assert_eq!(webp_ms(&ours), webp_ms(&recorded));
    assert_eq!(exif(&ours), Some(block));
}

#[test]
fn lossy_webp_is_as_near_to_the_source_as_the_recorded_one() {
    let (Some(batch), Some(recorded)) = (recorded_batch(), golden("animated/out_4_0.webp")) else {
        return;
    };
    let options = WebpOptions {
        quality: 60,
        method: 0,
        ..webp_options(false)
    };
    let ours = encode_webp(&batch, &options, &[]).unwrap();
    let source: Vec<Vec<u8>> = batch.iter().map(|frame| frame.to_bytes()).collect();
    let distance = |file: &[u8]| {
        let samples = frames_of(file).concat();
        let total: u32 = samples
            .iter()
            .zip(source.concat())
            .map(|(a, b)| u32::from(a.abs_diff(b)))
            .sum();
        f64::from(total) / samples.len() as f64
    };
    assert!(
        distance(&ours) <= distance(&recorded) * 1.05,
        "{} against {}",
        distance(&ours),
        distance(&recorded)
    );
    assert_eq!(webp_ms(&ours), webp_ms(&recorded));
}

#[test]
fn equal_neighbours_last_longer_instead_of_coming_twice() {
    let batch = [plain(4, 0.0), plain(4, 0.0), plain(4, 1.0)];
    let apng = encode_apng(&batch, 10.0, 4, &[]).unwrap();
    assert_eq!(
        (frames_of(&apng).len(), apng_ms(&apng)),
        (2, vec![200, 100])
    );
    let webp = encode_webp(&batch, &webp_options(true), &[]).unwrap();
    assert_eq!(
        (frames_of(&webp).len(), webp_ms(&webp)),
        (2, vec![200, 100])
    );
}

#[test]
fn one_picture_becomes_a_still_file() {
    let texts = [
        ("prompt".to_owned(), "{}".to_owned()),
        ("workflow".to_owned(), "[1]".to_owned()),
    ];
    let apng = encode_apng(&[plain(3, 0.5)], 8.0, 4, &texts).unwrap();
    assert!(Chunks::new(&apng).all(|chunk| chunk.name != *b"acTL"));
    assert_eq!(frames_of(&apng), [vec![127; 27]]);
    assert_eq!(png_text(&apng, 1 << 16).unwrap(), []);

    let webp = encode_webp(&[plain(3, 0.5)], &webp_options(true), &texts).unwrap();
    let names: Vec<[u8; 4]> = riff(&webp).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [*b"VP8X", *b"VP8L", *b"EXIF"]);
    assert_eq!(frames_of(&webp), [vec![127; 27]]);
    // Entries ascend by tag: the second text's stands first. Its value is longer than four bytes, so it lies behind both.
    let block = exif(&webp).unwrap();
    assert_eq!(block[14..20], [0, 2, 1, 0x0f, 0, 2]);
    assert_eq!(&block[6 + 38..], b"workflow:[1]\0\0prompt:{}\0");
}

#[test]
fn an_rgba_batch_keeps_its_alpha() {
    let frame = |alpha: f32| {
        Arc::new(Frame::new(
            1,
            2,
            4,
            vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, alpha],
        ))
    };
    let batch = [frame(0.5), frame(1.0)];
    for file in [
        encode_apng(&batch, 4.0, 9, &[]).unwrap(),
        encode_webp(&batch, &webp_options(true), &[]).unwrap(),
    ] {
        let decoded = decode(&file, &Limits::default()).unwrap();
        let masks: Vec<Vec<u8>> = decoded
            .mask
            .frames()
            .iter()
            .map(|mask| mask.to_bytes())
            .collect();
        assert_eq!(masks, [[0, 127], [0, 0]]);
    }
}

#[test]
fn what_no_animation_can_hold_is_refused() {
    let grey = [Arc::new(Frame::filled(2, 2, 1, 0.0))];
    let mixed = [plain(2, 0.0), plain(3, 0.0)];
    for batch in [&[] as &[Arc<Frame>], &grey, &mixed] {
        assert!(encode_apng(batch, 8.0, 4, &[]).is_err());
        assert!(encode_webp(batch, &webp_options(true), &[]).is_err());
    }
    assert!(
        encode_webp(
            &[plain(2, 0.0)],
            &WebpOptions {
                quality: 101,
                ..webp_options(true)
            },
            &[]
        )
        .is_err()
    );
}

#[test]
fn recordings_are_found_or_missed_as_a_whole() {
    assert_eq!(
        recordings().is_some(),
        golden("animated/gold_anim.gif").is_some()
    );
}

//! The tools over blobs in memory; pixels are looked at through the decoder.

use std::sync::Arc;

use asset_store::{Blob, BlobHash, BlobStore, MemoryBlobs, SpaceClass};
use bytes::Bytes;
use jiff::Timestamp;
use workflow_core::{
    ImageTools, ImageToolsError, MadePicture, PictureChannel, PictureInfo, PreviewFormat,
    PreviewOptions,
};

use super::{NativeTools, ToolsConfig};
use images::codec::{self, Limits, PngText, Raster};

struct Desk {
    blobs: MemoryBlobs,
    tools: NativeTools,
}

impl Desk {
    fn new(memory_bytes: u64) -> Self {
        let blobs = MemoryBlobs::new(Timestamp::now);
        let config = ToolsConfig {
            threads: 2,
            memory_bytes,
        };
        let tools = NativeTools::new(Arc::new(blobs.clone()), config).expect("threads start");
        Self { blobs, tools }
    }

    async fn put(&self, bytes: impl Into<Bytes>) -> Blob {
        let mut writer = self
            .blobs
            .begin(SpaceClass::Spare)
            .await
            .expect("there is room");
        writer.write(bytes.into()).await.expect("there is room");
        writer.commit().await.expect("there is room")
    }
}

/// A 3x2 picture of these channels, each sample another one.
fn small(channels: usize) -> Raster {
    let data = (0..6 * channels as u8).map(|at| 7 + at * 9).collect();
    Raster::new(3, 2, channels, data)
}

fn png(picture: &Raster) -> Vec<u8> {
    codec::raster_to_png(picture, &[]).expect("a small picture is written")
}

fn pixels(made: &MadePicture) -> Raster {
    codec::decode_first(&made.bytes, &Limits::default()).expect("what is made can be read")
}

/// `colors` of one picture with the alpha of another.
fn joined(colors: &Raster, alpha: impl Fn(usize) -> u8) -> Vec<u8> {
    let pixels = colors.data().chunks_exact(colors.channels()).enumerate();
    pixels
        .flat_map(|(at, pixel)| [pixel[0], pixel[1], pixel[2], alpha(at)])
        .collect()
}

const ROOMY: u64 = 64 << 20;

#[tokio::test]
async fn probing_tells_format_and_size_of_what_is_a_picture() {
    let desk = Desk::new(ROOMY);
    let picture = desk.put(png(&small(3))).await;
    let info = PictureInfo {
        media_type: "image/png",
        width: 3,
        height: 2,
    };
    assert_eq!(desk.tools.probe(picture).await.expect("a picture"), info);
    let text = desk.put("no picture at all").await;
    let error = desk.tools.probe(text).await.expect_err("it is text");
    assert!(matches!(error, ImageToolsError::NotAPicture(_)), "{error}");
    let gone = Blob {
        hash: BlobHash::of(b"never stored"),
        size_bytes: 12,
    };
    let error = desk.tools.probe(gone).await.expect_err("it is nowhere");
    assert!(matches!(error, ImageToolsError::Absent), "{error}");
}

#[tokio::test]
async fn the_alpha_channel_comes_with_black_colours() {
    let desk = Desk::new(ROOMY);
    let grey = committed("png_4_8.png");
    for (file, alpha_at) in [
        (png(&small(4)), Some(3)),
        (grey, Some(1)),
        (png(&small(3)), None),
    ] {
        let picture = codec::decode_first(&file, &Limits::default()).expect("a picture");
        let blob = desk.put(file).await;
        let made = desk.tools.channel(blob, PictureChannel::Alpha).await;
        let made = made.expect("a picture");
        assert_eq!(made.media_type, "image/png");
        let channels = picture.channels();
        assert_eq!(picture.has_alpha(), alpha_at == Some(channels - 1));
        let wanted: Vec<u8> = picture
            .data()
            .chunks_exact(channels)
            .flat_map(|pixel| [0, 0, 0, alpha_at.map_or(255, |at| pixel[at])])
            .collect();
        let wanted = Raster::new(picture.width(), picture.height(), 4, wanted);
        assert_eq!(pixels(&made), wanted);
    }
}

/// A committed picture; `png_4_8.png` is grey with alpha, which no encoder here writes.
fn committed(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../images/testdata");
    std::fs::read(format!("{folder}/{name}")).expect("it is committed")
}

#[tokio::test]
async fn the_colours_come_as_stored_without_alpha() {
    let desk = Desk::new(ROOMY);
    let picture = small(4);
    let blob = desk.put(png(&picture)).await;
    let made = desk.tools.channel(blob, PictureChannel::Rgb).await;
    let colors = picture.data().chunks_exact(4);
    let wanted = colors.flat_map(|pixel| &pixel[..3]).copied().collect();
    assert_eq!(
        pixels(&made.expect("a picture")),
        Raster::new(3, 2, 3, wanted)
    );
}

#[tokio::test]
async fn a_mask_s_alpha_takes_the_place_of_the_picture_s_and_texts_stay() {
    let desk = Desk::new(ROOMY);
    let texts = [("prompt", "{\"1\": {}}"), ("workflow", "Größe ☃")];
    let texts = texts.map(|(keyword, text)| (keyword.to_owned(), text.to_owned()));
    let frame = images::Frame::filled(2, 3, 4, 0.25);
    let original = codec::encode_png(&frame, &texts).expect("a small picture is written");
    let colors = codec::decode_first(&original, &Limits::default()).expect("just written");
    let mask = small(4);
    let original = desk.put(original).await;
    let with_alpha = desk.put(png(&mask)).await;
    let made = desk
        .tools
        .mask(original, with_alpha)
        .await
        .expect("equal sizes");
    assert_eq!(made.media_type, "image/png");
    let wanted = joined(&colors, |at| mask.data()[at * 4 + 3]);
    assert_eq!(pixels(&made), Raster::new(3, 2, 4, wanted));
    let kept = codec::png_text(&made.bytes, 1 << 16).expect("short texts");
    let wanted = texts.map(|(keyword, text)| PngText { keyword, text });
    assert_eq!(kept, wanted);

    let opaque = desk.put(png(&small(3))).await;
    let made = desk
        .tools
        .mask(original, opaque)
        .await
        .expect("equal sizes");
    assert_eq!(pixels(&made).data(), joined(&colors, |_| 255));
}

#[tokio::test]
async fn a_mask_of_another_size_is_refused() {
    let desk = Desk::new(ROOMY);
    let picture = desk.put(png(&small(3))).await;
    let mask = desk.put(png(&Raster::new(2, 3, 4, vec![9; 24]))).await;
    let error = desk
        .tools
        .mask(picture, mask)
        .await
        .expect_err("it is turned");
    assert_eq!(
        error.to_string(),
        "the mask has 2x3 pixels and the picture 3x2; make them the same size"
    );
}

#[tokio::test]
async fn a_thumbnail_fits_and_is_never_enlarged() {
    let desk = Desk::new(ROOMY);
    let wide = Raster::new(600, 200, 4, vec![200; 600 * 200 * 4]);
    let wide = desk.put(png(&wide)).await;
    for (side, wanted) in [(64, (64, 21)), (300, (300, 100)), (1024, (600, 200))] {
        let made = desk.tools.thumbnail(wide, side).await.expect("a picture");
        assert_eq!(made.media_type, "image/jpeg");
        let seen = pixels(&made);
        assert_eq!((seen.width(), seen.height()), wanted);
        let middle = seen.data()[seen.data().len() / 2];
        assert!((195..=205).contains(&middle), "{middle}");
    }
}

#[tokio::test]
async fn previews_keep_size_and_alpha_where_the_format_has_it() {
    let desk = Desk::new(ROOMY);
    let picture = Raster::new(40, 30, 4, [10, 120, 240, 128].repeat(40 * 30));
    let blob = desk.put(png(&picture)).await;
    let options = |format, opaque| PreviewOptions {
        format,
        quality: 90,
        opaque,
    };
    for (options, media_type, channels) in [
        (options(PreviewFormat::Webp, false), "image/webp", 4),
        (options(PreviewFormat::Webp, true), "image/webp", 3),
        (options(PreviewFormat::Jpeg, false), "image/jpeg", 3),
    ] {
        let made = desk.tools.preview(blob, options).await.expect("a picture");
        assert_eq!(made.media_type, media_type);
        let seen = pixels(&made).colored(true);
        assert_eq!((seen.width(), seen.height()), (40, 30));
        let alpha = if channels == 4 { 128 } else { 255 };
        for (seen, wanted) in seen
            .data()
            .iter()
            .zip([10_u8, 120, 240, alpha].iter().cycle())
        {
            assert!(seen.abs_diff(*wanted) < 8, "{seen} instead of {wanted}");
        }
    }
}

#[tokio::test]
async fn tools_see_pictures_turned_as_their_exif_says() {
    let desk = Desk::new(ROOMY);
    let turned = committed("jpeg_exif_6.jpg");
    let stored = codec::probe(&turned, &Limits::default()).expect("a picture");
    let blob = desk.put(turned).await;
    let made = desk.tools.channel(blob, PictureChannel::Rgb).await;
    let seen = pixels(&made.expect("a picture"));
    assert_eq!((seen.width(), seen.height()), (stored.height, stored.width));
}

#[tokio::test]
async fn a_picture_beyond_the_memory_is_refused_from_its_header() {
    let desk = Desk::new(1 << 20);
    let mut bomb = png(&small(3));
    bomb[16..20].copy_from_slice(&16_000_u32.to_be_bytes());
    bomb[20..24].copy_from_slice(&16_000_u32.to_be_bytes());
    let bomb = desk.put(bomb).await;
    let file = desk.put(vec![0; 1 << 20]).await;
    for blob in [bomb, file] {
        let error = desk.tools.thumbnail(blob, 64).await.expect_err("too large");
        assert!(matches!(error, ImageToolsError::TooLarge(_)), "{error}");
    }
}

#[tokio::test]
async fn many_at_once_wait_for_memory_and_all_are_answered() {
    // Room for about two at a time.
    let desk = Desk::new(8 << 20);
    let picture = Raster::new(256, 256, 3, vec![90; 256 * 256 * 3]);
    let blob = desk.put(png(&picture)).await;
    let all = (0..32).map(|_| desk.tools.thumbnail(blob, 64));
    let made = futures_util::future::join_all(all).await;
    let first = made[0].as_ref().expect("a picture");
    for made in &made {
        assert_eq!(made.as_ref().expect("a picture"), first);
    }
}

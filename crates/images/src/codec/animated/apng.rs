//! APNG: the first frame whole, of the others the rectangle that changed.

use std::sync::Arc;

use png::chunk::ChunkType;
use png::{BitDepth, ColorType, DeflateCompression, Encoder, Filter};

use super::{check_batch, frame_ms};
use crate::codec::CodecError;
use crate::pixels::Frame;

/// Encodes a batch of RGB or RGBA frames, each shown `int(1000 / fps)` milliseconds, repeated for ever.
///
/// `compress_level` is SaveAnimatedPNG's 0..=9: 0 stores, up to 6 is fast, above that is small. Keywords and texts follow the
/// frames as `comf` chunks.
///
/// # Errors
/// [`CodecError::Unsupported`] for an empty batch or frames of mixed shapes or another number of channels.
pub fn encode_apng(
    frames: &[Arc<Frame>],
    fps: f64,
    compress_level: u8,
    texts: &[(String, String)],
) -> Result<Vec<u8>, CodecError> {
    let (height, width, channels) = check_batch(frames)?;
    let shown = timeline(frames, fps);
    let side = |side: usize| u32::try_from(side).map_err(unsupported);
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, side(width)?, side(height)?);
    encoder.set_color(if channels == 3 {
        ColorType::Rgb
    } else {
        ColorType::Rgba
    });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_deflate_compression(match compress_level {
        0 => DeflateCompression::NoCompression,
        1..=6 => DeflateCompression::FdeflateUltraFast,
        level => DeflateCompression::Level(level.min(9)),
    });
    encoder.set_filter(if compress_level > 6 {
        Filter::Adaptive
    } else {
        Filter::Up
    });
    if shown.len() > 1 {
        encoder
            .set_animated(side(shown.len())?, 0)
            .map_err(unsupported)?;
    }
    let mut writer = encoder.write_header().map_err(unsupported)?;
    let stride = width * channels;
    let mut before: Option<&[u8]> = None;
    for Shown { bytes, ms } in &shown {
        let area = before.map_or(
            Area {
                x: 0,
                y: 0,
                width,
                height,
            },
            |before| changed(before, bytes, width, channels),
        );
        if shown.len() > 1 {
            let (numerator, denominator) = delay(*ms);
            writer
                .set_frame_delay(numerator, denominator)
                .map_err(unsupported)?;
        }
        if before.is_some() {
            writer.reset_frame_position().map_err(unsupported)?;
            writer
                .set_frame_dimension(side(area.width)?, side(area.height)?)
                .map_err(unsupported)?;
            writer
                .set_frame_position(side(area.x)?, side(area.y)?)
                .map_err(unsupported)?;
        }
        let columns = area.x * channels..(area.x + area.width) * channels;
        let rows = bytes.chunks_exact(stride).skip(area.y).take(area.height);
        let pixels: Vec<u8> = rows
            .flat_map(|row| &row[columns.clone()])
            .copied()
            .collect();
        writer.write_image_data(&pixels).map_err(unsupported)?;
        before = Some(bytes);
    }
    for (keyword, text) in texts {
        let latin_1 = |text: &str| {
            text.chars()
                .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))
                .collect::<Vec<u8>>()
        };
        let data = [latin_1(keyword), vec![0], latin_1(text)].concat();
        writer
            .write_chunk(ChunkType(*b"comf"), &data)
            .map_err(unsupported)?;
    }
    writer.finish().map_err(unsupported)?;
    Ok(file)
}

/// A frame of the file.
struct Shown {
    bytes: Vec<u8>,
    ms: u64,
}

/// The frames as bytes, equal neighbours joined.
fn timeline(frames: &[Arc<Frame>], fps: f64) -> Vec<Shown> {
    let ms = u64::from(frame_ms(fps));
    let mut timeline: Vec<Shown> = Vec::new();
    for frame in frames {
        let bytes = frame.to_bytes();
        match timeline.last_mut() {
            Some(last) if last.bytes == bytes => last.ms += ms,
            _ => timeline.push(Shown { bytes, ms }),
        }
    }
    timeline
}

/// Milliseconds as a fraction of 16-bit numbers, exact up to 65 seconds.
fn delay(ms: u64) -> (u16, u16) {
    match (u16::try_from(ms), u16::try_from(ms / 10)) {
        (Ok(thousandths), _) => (thousandths, 1000),
        (_, Ok(hundredths)) => (hundredths, 100),
        _ => (u16::try_from(ms / 1000).unwrap_or(u16::MAX), 1),
    }
}

/// A rectangle of a frame.
struct Area {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// The smallest rectangle around every pixel that differs; the frames do differ.
fn changed(before: &[u8], after: &[u8], width: usize, channels: usize) -> Area {
    let stride = width * channels;
    let rows = || before.chunks_exact(stride).zip(after.chunks_exact(stride));
    let height = rows().len();
    let top = rows().position(|(a, b)| a != b).unwrap_or(0);
    let bottom = rows().rposition(|(a, b)| a != b).unwrap_or(height - 1);
    let (mut left, mut right) = (width - 1, 0);
    for (a, b) in rows().skip(top).take(bottom + 1 - top) {
        if let Some(first) = a.iter().zip(b).position(|(a, b)| a != b) {
            left = left.min(first / channels);
        }
        if let Some(last) = a.iter().zip(b).rposition(|(a, b)| a != b) {
            right = right.max(last / channels);
        }
    }
    Area {
        x: left,
        y: top,
        width: right + 1 - left.min(right),
        height: bottom + 1 - top,
    }
}

fn unsupported(reason: impl std::fmt::Display) -> CodecError {
    CodecError::Unsupported(format!("this animation ({reason})"))
}

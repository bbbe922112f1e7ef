//! Files taken apart by FFmpeg.

use std::path::Path;
use std::sync::Arc;

use images::{Frame, Image};
use serde_json::Value as Json;

use super::{Video, part};
use crate::program::{Ffmpeg, folder, written};
use crate::sound::Sound;
use crate::{NodeContext, NodeError};

/// What a video is made of.
pub(super) fn parts(
    video: Video,
    context: &NodeContext,
) -> Result<(Image, Option<Sound>, f64), NodeError> {
    let (bytes, start, duration) = match video {
        Video::Parts {
            images,
            sound,
            rate,
        } => return Ok((images, sound, rate)),
        Video::File {
            bytes,
            start,
            duration,
        } => (bytes, start, duration),
    };
    let program = Ffmpeg::installed()?;
    let folder = folder()?;
    let file = folder.path().join("video");
    written(&file, &bytes)?;
    let told = program.probe(&file, context)?;
    let streams = told["streams"].as_array().map_or(&[][..], Vec::as_slice);
    let stream = |kind: &str| streams.iter().find(|stream| stream["codec_type"] == kind);
    let picture = stream("video").ok_or_else(|| {
        NodeError::value("the file has no pictures; choose a file with a video track")
    })?;
    let rate = fraction(&picture["r_frame_rate"]).ok_or_else(|| {
        NodeError::value("the video does not tell how many pictures it has per second")
    })?;
    let part = part(start, duration);
    let part: Vec<&str> = part.iter().map(String::as_str).collect();
    let images = frames(program, &file, picture, &part, context)?;
    let sound = match stream("audio") {
        Some(sound) => heard(program, &file, sound, &part, context)?,
        None => None,
    };
    Ok((images, sound, rate))
}

fn frames(
    program: Ffmpeg,
    file: &Path,
    stream: &Json,
    part: &[&str],
    context: &NodeContext,
) -> Result<Image, NodeError> {
    const MOST: u64 = 16384;
    let side = |name: &str| {
        stream[name]
            .as_u64()
            .filter(|side| (1..=MOST).contains(side))
    };
    let (Some(mut width), Some(mut height)) = (side("width"), side("height")) else {
        return Err(NodeError::value(format!(
            "the pictures of the video must have sides of 1 to {MOST} pixels"
        )));
    };
    // A telephone's video lies on its side and tells so; FFmpeg turns it.
    let turned = stream["side_data_list"][0]["rotation"]
        .as_i64()
        .unwrap_or(0);
    if turned.rem_euclid(180) == 90 {
        (width, height) = (height, width);
    }
    let (width, height) = (width as usize, height as usize);
    let size = width * height * 3;
    let mut frames = Vec::new();
    let options = [
        "-map",
        "0:v:0",
        "-fps_mode",
        "passthrough",
        "-sws_flags",
        "bilinear",
        "-pix_fmt",
        "rgb24",
        "-f",
        "rawvideo",
    ];
    program.read((file, part), &options, size, context, |bytes| {
        // A picture that is cut off is none.
        if bytes.len() < size {
            return Ok(());
        }
        context.reserve((size * size_of::<f32>()) as u64)?;
        frames.push(Arc::new(Frame::from_bytes(height, width, 3, bytes)));
        Ok(())
    })?;
    match frames.is_empty() {
        true => Err(NodeError::value("the video has no picture in that part")),
        false => Ok(Image::new(frames)?),
    }
}

fn heard(
    program: Ffmpeg,
    file: &Path,
    stream: &Json,
    part: &[&str],
    context: &NodeContext,
) -> Result<Option<Sound>, NodeError> {
    const MOST_CHANNELS: u64 = 64;
    let rate = stream["sample_rate"]
        .as_str()
        .and_then(|rate| rate.parse().ok());
    let channels = stream["channels"]
        .as_u64()
        .filter(|channels| (1..=MOST_CHANNELS).contains(channels));
    let (Some(rate), Some(count)) = (rate, channels) else {
        return Ok(None);
    };
    let count = count as usize;
    let mut channels = vec![Vec::new(); count];
    let piece = count * size_of::<f32>();
    let options = ["-map", "0:a:0", "-f", "f32le", "-c:a", "pcm_f32le"];
    program.read((file, part), &options, piece * PIECE, context, |bytes| {
        context.reserve(bytes.len() as u64)?;
        for (at, sample) in bytes.as_chunks().0.iter().enumerate() {
            channels[at % count].push(f32::from_le_bytes(*sample));
        }
        Ok(())
    })?;
    Ok(Some(Sound {
        rate,
        items: vec![channels],
    }))
}

/// Samples of every channel that are read at a time.
const PIECE: usize = 1 << 14;

/// `30000/1001` and the like.
fn fraction(value: &Json) -> Option<f64> {
    let (above, below) = value.as_str()?.split_once('/')?;
    let (above, below): (f64, f64) = (above.parse().ok()?, below.parse().ok()?);
    (above > 0.0 && below > 0.0).then_some(above / below)
}

//! Sounds that FFmpeg decodes, as ComfyUI has them decoded: tracks of videos, and formats that need a program.

use std::path::Path;

use bytes::Bytes;
use serde_json::Value as Json;

use super::Sound;
use crate::program::{Ffmpeg, folder, written};
use crate::{NodeContext, NodeError};

/// Samples of every channel that are read at a time.
const PIECE: usize = 1 << 14;

/// Most channels of a sound.
const MOST_CHANNELS: u64 = 64;

/// Whether a file is decoded here as FFmpeg decodes it: WAV, FLAC and MP3.
pub(super) fn is_plain(file: &[u8]) -> bool {
    let is_wave = file.starts_with(b"RIFF") && file.get(8..12) == Some(b"WAVE");
    // The eleven bits that begin a frame, and a layer that is one.
    let is_frame = file.len() > 1 && file[0] == 0xff && file[1] & 0xe6 >= 0xe2;
    is_wave || is_frame || file.starts_with(b"fLaC") || file.starts_with(b"ID3")
}

/// The first sound of a file; `None` if FFmpeg does not know the file.
///
/// # Errors
/// If the file has no sound, there is no room for it, or the run is to stop.
pub(super) fn decoded(
    program: Ffmpeg,
    file: &Bytes,
    context: &NodeContext,
) -> Result<Option<Sound>, NodeError> {
    let folder = folder()?;
    let path = folder.path().join("sound");
    written(&path, file)?;
    let told = match program.probe(&path, context) {
        Ok(told) => told,
        Err(NodeError::Failed { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let streams = told["streams"].as_array();
    let stream = streams.and_then(|streams| {
        let mut streams = streams.iter();
        streams.find(|stream| stream["codec_type"] == "audio")
    });
    let stream = stream.ok_or_else(|| {
        NodeError::value("the file has no sound; choose a file with an audio track")
    })?;
    heard(program, &path, stream, &[], context)
}

/// The sound of a stream, or of the part of it that these options read.
///
/// # Errors
/// If there is no room for it, or the run is to stop.
pub(crate) fn heard(
    program: Ffmpeg,
    file: &Path,
    stream: &Json,
    part: &[&str],
    context: &NodeContext,
) -> Result<Option<Sound>, NodeError> {
    let rate = stream["sample_rate"]
        .as_str()
        .and_then(|rate| rate.parse().ok())
        .filter(|rate| *rate > 0);
    let channels = stream["channels"]
        .as_u64()
        .filter(|channels| (1..=MOST_CHANNELS).contains(channels));
    let (Some(rate), Some(count), Some(index)) = (rate, channels, stream["index"].as_u64()) else {
        return Ok(None);
    };
    let count = count as usize;
    let mut channels = vec![Vec::new(); count];
    let piece = count * size_of::<f32>();
    let index = format!("0:{index}");
    let options = ["-map", &index, "-f", "f32le", "-c:a", "pcm_f32le"];
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

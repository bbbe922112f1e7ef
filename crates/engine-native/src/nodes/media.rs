//! Videos and sounds, as nodes of embedders make them: files that are handed on and never opened.
//!
//! No class of the engine makes such values, so its own list has none of these; code that offers a class that does offers
//! [`media`] with it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use workflow_core::{NodeDefinition, OutputKind};

use super::save::Prefix;
use crate::define::{link, metadata, modern, modern_combo, named, string_input};
use crate::value::Opaque;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile, Value};

/// The classes for values of the sockets `VIDEO` and `AUDIO`.
#[must_use]
pub fn media() -> Vec<Arc<dyn Node>> {
    vec![Arc::new(SaveVideo), Arc::new(SaveAudio)]
}

/// A video or a sound: a file of a format that is known by its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    format: &'static MediaFormat,
    bytes: Bytes,
}

/// A format of videos or sounds.
#[derive(Debug, PartialEq, Eq)]
struct MediaFormat {
    video: bool,
    extension: &'static str,
    content_type: &'static str,
}

const fn format(video: bool, extension: &'static str, content_type: &'static str) -> MediaFormat {
    MediaFormat {
        video,
        extension,
        content_type,
    }
}

static MP4: MediaFormat = format(true, "mp4", "video/mp4");
static QUICKTIME: MediaFormat = format(true, "mov", "video/quicktime");
static WEBM: MediaFormat = format(true, "webm", "video/webm");
static M4A: MediaFormat = format(false, "m4a", "audio/mp4");
static MP3: MediaFormat = format(false, "mp3", "audio/mpeg");
static WAV: MediaFormat = format(false, "wav", "audio/wav");
static FLAC: MediaFormat = format(false, "flac", "audio/flac");
static OGG: MediaFormat = format(false, "ogg", "audio/ogg");

impl Media {
    /// A video, by its first bytes.
    ///
    /// # Errors
    /// If they are not those of an MP4, QuickTime or WebM file.
    pub fn video(bytes: Bytes) -> Result<Self, NodeError> {
        Self::known(
            bytes,
            true,
            "this is no video in a format that is known here",
        )
    }

    /// A sound, by its first bytes.
    ///
    /// # Errors
    /// If they are not those of an MP3, WAV, FLAC, Ogg or M4A file.
    pub fn audio(bytes: Bytes) -> Result<Self, NodeError> {
        Self::known(
            bytes,
            false,
            "this is no sound in a format that is known here",
        )
    }

    fn known(bytes: Bytes, video: bool, otherwise: &str) -> Result<Self, NodeError> {
        let format = sniffed(&bytes).filter(|format| format.video == video);
        let format = format.ok_or_else(|| NodeError::value(otherwise))?;
        Ok(Self { format, bytes })
    }
}

impl From<Media> for Value {
    fn from(media: Media) -> Self {
        let io_type = if media.format.video { "VIDEO" } else { "AUDIO" };
        let size = media.bytes.len() as u64;
        Opaque::new(io_type, media, size).into()
    }
}

fn sniffed(bytes: &[u8]) -> Option<&'static MediaFormat> {
    if bytes.get(4..8) == Some(b"ftyp") {
        return Some(match bytes.get(8..12) {
            Some(b"M4A " | b"M4B ") => &M4A,
            Some(b"qt  ") => &QUICKTIME,
            Some(_) | None => &MP4,
        });
    }
    let is_wave = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE");
    // The eleven bits that begin a frame, and a layer that is one.
    let is_frame = bytes.len() > 1 && bytes[0] == 0xff && bytes[1] & 0xe6 >= 0xe2;
    match bytes {
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some(&WEBM),
        _ if is_wave => Some(&WAV),
        [b'f', b'L', b'a', b'C', ..] => Some(&FLAC),
        [b'O', b'g', b'g', b'S', ..] => Some(&OGG),
        [b'I', b'D', b'3', ..] => Some(&MP3),
        _ if is_frame => Some(&MP3),
        _ => None,
    }
}

/// A video into a file, as it is.
#[derive(Clone, Copy, Debug)]
struct SaveVideo;

impl Node for SaveVideo {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Video"),
            description: "Saves the input video as it is, without encoding it anew.".to_owned(),
            inputs: vec![
                link("video", "VIDEO"),
                string_input(
                    "filename_prefix",
                    json!({"default": "video/ComfyUI", "multiline": false}),
                ),
                modern_combo("format", &["auto"], json!({"default": "auto"})),
                modern_combo("codec", &["auto"], json!({"default": "auto"})),
            ],
            hidden: metadata(),
            output_node: true,
            ..modern("SaveVideo", "comfy_extras.nodes_video", "image/video")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let media: &Media = inputs.opaque("video")?;
        save(media, &inputs, OutputKind::Video, "images", context)?;
        let ui = [("animated".to_owned(), json!([true]))]
            .into_iter()
            .collect();
        Ok(NodeOutput {
            ui,
            ..NodeOutput::none()
        })
    }
}

/// A sound into a file, as it is.
#[derive(Clone, Copy, Debug)]
struct SaveAudio;

impl Node for SaveAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Audio"),
            description: "Saves the input sound as it is, without encoding it anew.".to_owned(),
            inputs: vec![
                link("audio", "AUDIO"),
                string_input(
                    "filename_prefix",
                    json!({"default": "audio/ComfyUI", "multiline": false}),
                ),
            ],
            hidden: metadata(),
            output_node: true,
            ..modern("SaveAudio", "comfy_extras.nodes_audio", "audio")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let media: &Media = inputs.opaque("audio")?;
        save(media, &inputs, OutputKind::Audio, "audio", context)?;
        Ok(NodeOutput::none())
    }
}

fn save(
    media: &Media,
    inputs: &Inputs,
    kind: OutputKind,
    shown_under: &'static str,
    context: &NodeContext,
) -> Result<(), NodeError> {
    let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
    context.emit(OutputFile {
        kind,
        temp: false,
        name: prefix.whole_batch(media.format.extension),
        content_type: media.format.content_type,
        bytes: media.bytes.clone(),
        shown_under: Some(shown_under),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        let video =
            |bytes: &'static [u8]| Media::video(bytes.into()).map(|media| media.format.extension);
        let audio =
            |bytes: &'static [u8]| Media::audio(bytes.into()).map(|media| media.format.extension);
        assert_eq!(video(b"\0\0\0\x20ftypisom"), Ok("mp4"));
        assert_eq!(video(b"\0\0\0\x14ftypqt  "), Ok("mov"));
        assert_eq!(video(b"\x1a\x45\xdf\xa3"), Ok("webm"));
        assert_eq!(audio(b"\0\0\0\x20ftypM4A "), Ok("m4a"));
        assert_eq!(audio(b"ID3\x04"), Ok("mp3"));
        assert_eq!(audio(b"\xff\xfb\x90"), Ok("mp3"));
        assert_eq!(audio(b"RIFF\0\0\0\0WAVE"), Ok("wav"));
        assert_eq!(audio(b"fLaC"), Ok("flac"));
        assert_eq!(audio(b"OggS"), Ok("ogg"));
        for other in [&b""[..], b"\xff", b"\xff\xd8\xff", b"<html>", b"\x89PNG"] {
            assert!(Media::video(other.into()).is_err() && Media::audio(other.into()).is_err());
        }
        assert!(Media::audio(b"\x1a\x45\xdf\xa3"[..].into()).is_err());
    }

    #[test]
    fn they_travel_on_links_of_their_own() {
        let video = Media::video(b"\0\0\0\x20ftypisom"[..].into()).expect("it is one");
        assert_eq!(Value::from(video).io_type(), "VIDEO");
        let audio = Media::audio(b"fLaC"[..].into()).expect("it is one");
        assert_eq!(Value::from(audio).io_type(), "AUDIO");
    }
}

//! Videos and sounds, as nodes of embedders make them: files that are handed on, and opened only by nodes that look into them.

use bytes::Bytes;
use workflow_core::OutputKind;

use super::save::Prefix;
use crate::value::Opaque;
use crate::{NodeError, OutputFile, Value};

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
static MATROSKA: MediaFormat = format(true, "mkv", "video/x-matroska");
static M4A: MediaFormat = format(false, "m4a", "audio/mp4");
static MP3: MediaFormat = format(false, "mp3", "audio/mpeg");
static WAV: MediaFormat = format(false, "wav", "audio/wav");
static FLAC: MediaFormat = format(false, "flac", "audio/flac");
static OGG: MediaFormat = format(false, "ogg", "audio/ogg");

impl Media {
    /// A video, by its first bytes.
    ///
    /// # Errors
    /// If they are not those of an MP4, QuickTime, WebM or Matroska file.
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

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Whether it is an MP4 file.
    pub(super) fn is_mp4(&self) -> bool {
        self.format == &MP4
    }

    /// Whether it is a Matroska file that is no WebM file.
    pub(super) fn is_matroska(&self) -> bool {
        self.format == &MATROSKA
    }

    /// The file as it is, shown under `list`.
    pub(super) fn output(&self, prefix: &Prefix, list: &'static str) -> OutputFile {
        OutputFile {
            kind: match self.format.video {
                true => OutputKind::Video,
                false => OutputKind::Audio,
            },
            temp: false,
            name: prefix.whole_batch(self.format.extension),
            content_type: self.format.content_type,
            bytes: self.bytes.clone(),
            shown_under: Some(list),
        }
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
        [0x1a, 0x45, 0xdf, 0xa3, ..] if is_matroska(bytes) => Some(&MATROSKA),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some(&WEBM),
        _ if is_wave => Some(&WAV),
        [b'f', b'L', b'a', b'C', ..] => Some(&FLAC),
        [b'O', b'g', b'g', b'S', ..] => Some(&OGG),
        [b'I', b'D', b'3', ..] => Some(&MP3),
        _ if is_frame => Some(&MP3),
        _ => None,
    }
}

/// Whether the head of an EBML file calls itself `matroska`; that of a WebM file says `webm` in this place.
fn is_matroska(bytes: &[u8]) -> bool {
    const HEAD: usize = 64;
    const DOCTYPE: &[u8] = b"matroska";
    let head = &bytes[..bytes.len().min(HEAD)];
    head.windows(DOCTYPE.len()).any(|part| part == DOCTYPE)
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
        let matroska = b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska";
        assert_eq!(video(matroska), Ok("mkv"));
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

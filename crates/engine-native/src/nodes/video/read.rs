//! Files taken apart by FFmpeg.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use images::{Frame, Image};
use serde_json::Value as Json;

use super::{Crop, Video, part};
use crate::program::{Ffmpeg, folder, written};
use crate::sound::Sound;
use crate::{NodeContext, NodeError};

/// How FFmpeg writes pictures to be read here: three bytes a pixel, one after the other.
pub(super) const RAW_PICTURES: [&str; 6] = [
    "-sws_flags",
    "bilinear",
    "-pix_fmt",
    "rgb24",
    "-f",
    "rawvideo",
];

/// What a video is made of.
pub(super) fn parts(
    video: Video,
    context: &NodeContext,
) -> Result<(Image, Option<Sound>, f64), NodeError> {
    let (bytes, start, duration, crop) = match video {
        Video::Parts {
            images,
            sound,
            rate,
        } => return Ok((images, sound, rate)),
        Video::File {
            bytes,
            start,
            duration,
            crop,
        } => (bytes, start, duration, crop),
    };
    let opened = Opened::of(&bytes, context)?;
    let picture = opened.pictures()?;
    let rate = fraction(&picture["r_frame_rate"]).ok_or_else(no_rate)?;
    let part = part(start, duration);
    let part: Vec<&str> = part.iter().map(String::as_str).collect();
    let images = opened.frames(&part, crop, None, context)?;
    let sound = match opened.stream("audio") {
        Some(sound) => heard(opened.program, &opened.file, sound, &part, context)?,
        None => None,
    };
    Ok((images, sound, rate))
}

/// How many pictures a video has, and how many a second, as its file tells without being decoded. What tells nothing has none.
pub(super) fn told(video: &Video, context: &NodeContext) -> Result<(u64, f64), NodeError> {
    let (bytes, start, duration) = match video {
        Video::Parts { images, rate, .. } => return Ok((images.frames().len() as u64, *rate)),
        Video::File {
            bytes,
            start,
            duration,
            crop: _,
        } => (bytes, *start, *duration),
    };
    let opened = Opened::of(bytes, context)?;
    let picture = opened.pictures()?;
    let rate = fraction(&picture["avg_frame_rate"]).or_else(|| fraction(&picture["r_frame_rate"]));
    let rate = rate.ok_or_else(no_rate)?;
    let number = |value: &Json| value.as_str()?.parse::<f64>().ok();
    let whole = start == 0.0 && duration.is_none();
    if let Some(count) = number(&picture["nb_frames"]).filter(|count| whole && *count > 0.0) {
        return Ok((count as u64, rate));
    }
    let all = number(&picture["duration"]).or_else(|| number(&opened.told["format"]["duration"]));
    let rest = (all.unwrap_or(0.0) - start).max(0.0);
    let seconds = duration.map_or(rest, |duration| duration.min(rest));
    Ok(((seconds * rate).round_ties_even() as u64, rate))
}

/// The pictures of a video at these places, which rise.
pub(super) fn chosen(
    video: Video,
    places: &[usize],
    context: &NodeContext,
) -> Result<Image, NodeError> {
    let (bytes, start, duration, crop) = match video {
        Video::Parts { images, .. } => {
            let frames = places
                .iter()
                .filter_map(|place| images.frames().get(*place));
            return Ok(Image::new(frames.cloned().collect())?);
        }
        Video::File {
            bytes,
            start,
            duration,
            crop,
        } => (bytes, start, duration, crop),
    };
    let part = part(start, duration);
    let part: Vec<&str> = part.iter().map(String::as_str).collect();
    let images = Opened::of(&bytes, context)?.frames(&part, crop, Some(places), context)?;
    match images.frames().len() == places.len() {
        true => Ok(images),
        false => Err(NodeError::value(
            "the video has fewer pictures than its file tells; convert it to MP4 before",
        )),
    }
}

/// Columns and rows of a video's pictures.
pub(super) fn size(video: &Video, context: &NodeContext) -> Result<(usize, usize), NodeError> {
    match video {
        Video::Parts { images, .. } => Ok((images.first().width(), images.first().height())),
        Video::File {
            crop: Some(crop), ..
        } => Ok((crop.width, crop.height)),
        Video::File {
            bytes, crop: None, ..
        } => Opened::of(bytes, context)?.size(),
    }
}

impl Crop {
    /// FFmpeg's filter for it.
    pub(super) fn filter(&self) -> String {
        let Self {
            x,
            y,
            width,
            height,
        } = self;
        format!("crop={width}:{height}:{x}:{y}")
    }
}

/// A file where FFmpeg reads it, and what it tells of itself.
struct Opened {
    program: Ffmpeg,
    file: PathBuf,
    told: Json,
    /// Where the file lies; gone with this.
    _folder: tempfile::TempDir,
}

fn no_rate() -> NodeError {
    NodeError::value("the video does not tell how many pictures it has per second")
}

impl Opened {
    fn of(bytes: &[u8], context: &NodeContext) -> Result<Self, NodeError> {
        let program = Ffmpeg::installed()?;
        let folder = folder()?;
        let file = folder.path().join("video");
        written(&file, bytes)?;
        let told = program.probe(&file, context)?;
        Ok(Self {
            program,
            file,
            told,
            _folder: folder,
        })
    }

    /// The first stream of a kind.
    fn stream(&self, kind: &str) -> Option<&Json> {
        let mut streams = self.told["streams"].as_array()?.iter();
        streams.find(|stream| stream["codec_type"] == kind)
    }

    fn pictures(&self) -> Result<&Json, NodeError> {
        self.stream("video").ok_or_else(|| {
            NodeError::value("the file has no pictures; choose a file with a video track")
        })
    }

    /// Columns and rows of its pictures as they are shown.
    fn size(&self) -> Result<(usize, usize), NodeError> {
        const MOST: u64 = 16384;
        let stream = self.pictures()?;
        let side = |name: &str| {
            stream[name]
                .as_u64()
                .filter(|side| (1..=MOST).contains(side))
        };
        let (Some(width), Some(height)) = (side("width"), side("height")) else {
            return Err(NodeError::value(format!(
                "the pictures of the video must have sides of 1 to {MOST} pixels"
            )));
        };
        // A telephone's video lies on its side and tells so; FFmpeg turns it.
        let turned = stream["side_data_list"][0]["rotation"]
            .as_i64()
            .unwrap_or(0);
        let (width, height) = (width as usize, height as usize);
        Ok(match turned.rem_euclid(180) {
            90 => (height, width),
            _ => (width, height),
        })
    }

    /// Its pictures: all of them, or those at `places`, which rise.
    fn frames(
        &self,
        part: &[&str],
        crop: Option<Crop>,
        places: Option<&[usize]>,
        context: &NodeContext,
    ) -> Result<Image, NodeError> {
        let (width, height) = match crop {
            Some(crop) => (crop.width, crop.height),
            None => self.size()?,
        };
        let crop = crop.map(|crop| crop.filter());
        let crop: Vec<&str> = crop.iter().flat_map(|crop| ["-vf", crop]).collect();
        let size = width * height * 3;
        let mut frames = Vec::new();
        // Nothing is decoded that comes after the last one.
        let last = places.and_then(|places| places.last());
        let most = last.map(|last| (last + 1).to_string());
        let most: Vec<&str> = match &most {
            Some(most) => vec!["-frames:v", most],
            None => Vec::new(),
        };
        let mut at = 0;
        let each = ["-map", "0:v:0", "-fps_mode", "passthrough"];
        let options = [&most[..], &crop[..], &each[..], &RAW_PICTURES[..]].concat();
        self.program
            .read((&self.file, part), &options, size, context, |bytes| {
                let is_wanted = places.is_none_or(|places| places.binary_search(&at).is_ok());
                at += 1;
                // A picture that is cut off is none.
                if bytes.len() < size || !is_wanted {
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

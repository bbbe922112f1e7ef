//! Files taken apart by FFmpeg.

use std::path::PathBuf;
use std::sync::Arc;

use images::{Frame, Image};
use serde_json::Value as Json;

use super::{Crop, Video, part};
use crate::program::{Ffmpeg, folder, written};
use crate::sound::{Sound, heard};
use crate::{NodeContext, NodeError};

/// Formats of pixels that ComfyUI reads as levels of 8 bits. All others it reads as floats, of which FFmpeg computes 16 bits.
const LEVELS: [&str; 6] = ["yuvj420p", "yuvj422p", "yuvj444p", "rgb24", "rgba", "pal8"];

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
            is_deep: _,
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
    let sound = match opened.sound() {
        Some(sound) => heard(opened.program, &opened.file, sound, &part, context)?,
        None => None,
    };
    Ok((images, sound, rate))
}

/// How many bits a sample of a video has, and the colours that it tells, by the names that classes have for them.
pub(super) fn samples(
    video: &Video,
    context: &NodeContext,
) -> Result<(i128, &'static str), NodeError> {
    let bytes = match video {
        Video::Parts { is_deep, .. } => return Ok((if *is_deep { 10 } else { 8 }, "sRGB")),
        Video::File { bytes, .. } => bytes,
    };
    let opened = Opened::of(bytes, context)?;
    let colors = match opened.pictures()?["color_transfer"].as_str() {
        Some("arib-std-b67") => "HDR",
        Some("smpte2084") => "HDR PQ",
        Some(_) | None => "sRGB",
    };
    Ok((opened.bits()?, colors))
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
            "the video has fewer pictures than its file says; convert it to MP4 first",
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
pub(super) struct Opened {
    pub(super) program: Ffmpeg,
    pub(super) file: PathBuf,
    pub(super) told: Json,
    /// Where the file lies; gone with this.
    _folder: tempfile::TempDir,
}

fn no_rate() -> NodeError {
    NodeError::value("the video's number of pictures per second is unknown")
}

impl Opened {
    pub(super) fn of(bytes: &[u8], context: &NodeContext) -> Result<Self, NodeError> {
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

    /// What is heard: of several tracks the last one that can be decoded, as in ComfyUI.
    pub(super) fn sound(&self) -> Option<&Json> {
        let mut streams = self.told["streams"].as_array()?.iter().rev();
        streams.find(|stream| stream["codec_type"] == "audio" && stream["codec_name"].is_string())
    }

    /// The first stream of pictures.
    pub(super) fn pictures(&self) -> Result<&Json, NodeError> {
        let streams = self.told["streams"].as_array();
        let mut streams = streams.into_iter().flatten();
        let pictures = streams.find(|stream| stream["codec_type"] == "video");
        pictures.ok_or_else(|| {
            NodeError::value("the file has no pictures; choose a file with a video track")
        })
    }

    /// How many bits a sample of its pictures has.
    pub(super) fn bits(&self) -> Result<i128, NodeError> {
        const MORE: [(&str, i128); 8] = [
            ("p9", 9),
            ("10", 10),
            ("12", 12),
            ("14", 14),
            ("16", 16),
            ("48", 16),
            ("64", 16),
            ("f32", 32),
        ];
        let pixels = self.pictures()?["pix_fmt"].as_str().unwrap_or_default();
        // The number of a format with two planes counts the bits of a whole pixel, and that of 4:1:0 the samples of colour.
        let is_plain = pixels.starts_with("nv") || ["yuv410p", "yuvj410p"].contains(&pixels);
        let found = MORE.iter().find(|(name, _)| pixels.contains(name));
        Ok(found.filter(|_| !is_plain).map_or(8, |(_, bits)| *bits))
    }

    /// Columns and rows of its pictures as they are stored.
    fn stored(&self) -> Result<(usize, usize), NodeError> {
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
        Ok((width as usize, height as usize))
    }

    /// Columns and rows of its pictures as they are shown.
    fn size(&self) -> Result<(usize, usize), NodeError> {
        let (width, height) = self.stored()?;
        Ok(match self.quarters()? {
            1 | 3 => (height, width),
            _ => (width, height),
        })
    }

    /// By how many quarters its pictures are turned to the left to be shown: a telephone's video lies on its side and tells so.
    fn quarters(&self) -> Result<i64, NodeError> {
        let told = self.pictures()?["side_data_list"].as_array();
        let turned = told.and_then(|told| told.iter().find_map(|told| told["rotation"].as_i64()));
        Ok(turned.unwrap_or(0).div_euclid(90).rem_euclid(4))
    }

    /// FFmpeg's filters that make what nodes get of its pictures, and whether that has 16 bits: planes of green, blue and red.
    /// Otherwise it is bytes of red, green and blue. The steps and their order are those of ComfyUI.
    fn filters(&self, crop: Option<Crop>) -> Result<(String, bool), NodeError> {
        let (width, height) = self.stored()?;
        let stream = self.pictures()?;
        let told = |name: &str| stream[name].as_str().unwrap_or_default();
        let is_deep = !LEVELS.contains(&told("pix_fmt"));
        let is_padded = is_deep && !width.is_multiple_of(32);
        let mut filters = Vec::new();
        if is_padded {
            // Colours near a side depend on what lies past it, and that is then the same for every processor.
            // FFmpeg continues a picture by no more than its own size.
            let border = |side: usize| (side.next_multiple_of(32) - side).min(side);
            let (right, bottom) = (border(width), border(height));
            let (wide, high) = (width + right, height + bottom);
            filters.push(format!("pad={wide}:{high}:0:0"));
            filters.push(format!(
                "fillborders=right={right}:bottom={bottom}:mode=smear"
            ));
        }
        // Where the samples of colour lie among those of brightness.
        let place = match told("chroma_location") {
            "left" => ":in_h_chr_pos=0",
            "topleft" => ":in_h_chr_pos=0:in_v_chr_pos=0",
            _ => "",
        };
        let format = if is_deep { "gbrp16le" } else { "rgb24" };
        filters.push(format!("scale=flags=bilinear{place},format={format}"));
        if is_padded {
            filters.push(format!("crop={width}:{height}:0:0"));
        }
        let turn = match self.quarters()? {
            1 => Some("transpose=cclock"),
            2 => Some("hflip,vflip"),
            3 => Some("transpose=clock"),
            _ => None,
        };
        filters.extend(turn.map(str::to_owned));
        filters.extend(crop.map(|crop| crop.filter()));
        Ok((filters.join(","), is_deep))
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
        let (filters, is_deep) = self.filters(crop)?;
        let samples = width * height * 3;
        let size = samples * if is_deep { 2 } else { 1 };
        let mut frames = Vec::new();
        // Nothing is decoded that comes after the last one.
        let last = places.and_then(|places| places.last());
        let most = last.map(|last| (last + 1).to_string());
        let most: Vec<&str> = match &most {
            Some(most) => vec!["-frames:v", most],
            None => Vec::new(),
        };
        let mut at = 0;
        let each = [
            "-map",
            "0:v:0",
            "-fps_mode",
            "passthrough",
            "-vf",
            &filters,
            "-f",
            "rawvideo",
        ];
        let options = [&most[..], &each[..]].concat();
        let part = [&["-noautorotate"], part].concat();
        self.program
            .read((&self.file, &part), &options, size, context, |bytes| {
                let is_wanted = places.is_none_or(|places| places.binary_search(&at).is_ok());
                at += 1;
                // A picture that is cut off is none.
                if bytes.len() < size || !is_wanted {
                    return Ok(());
                }
                context.reserve((samples * size_of::<f32>()) as u64)?;
                frames.push(Arc::new(match is_deep {
                    true => of_planes(height, width, bytes),
                    false => Frame::from_bytes(height, width, 3, bytes),
                }));
                Ok(())
            })?;
        match frames.is_empty() {
            true => Err(NodeError::value("the video has no picture in that part")),
            false => Ok(Image::new(frames)?),
        }
    }
}

/// A picture of planes of green, blue and red with 16 bits.
fn of_planes(height: usize, width: usize, bytes: &[u8]) -> Frame {
    const STEP: f32 = 1.0 / 65535.0;
    let (green, rest) = bytes.as_chunks::<2>().0.split_at(height * width);
    let (blue, red) = rest.split_at(height * width);
    let mut data = Vec::with_capacity(height * width * 3);
    for ((red, green), blue) in red.iter().zip(green).zip(blue) {
        data.extend([red, green, blue].map(|word| f32::from(u16::from_le_bytes(*word)) * STEP));
    }
    Frame::new(height, width, 3, data)
}

/// `30000/1001` and the like.
fn fraction(value: &Json) -> Option<f64> {
    let (above, below) = value.as_str()?.split_once('/')?;
    let (above, below): (f64, f64) = (above.parse().ok()?, below.parse().ok()?);
    (above > 0.0 && below > 0.0).then_some(above / below)
}

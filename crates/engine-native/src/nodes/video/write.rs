//! Files made by FFmpeg.

use std::path::Path;

use images::Image;
use serde_json::Value as Json;

use super::read::Opened;
use super::{Video, part};
use crate::program::{Ffmpeg, folder, tags, written};
use crate::sound::{self, Sound};
use crate::{NodeContext, NodeError};

/// What a file tells of the colours of its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colors {
    /// That they are sRGB, which players show as it is meant.
    Srgb,
    /// High dynamic range with the curve of broadcasts (HLG).
    Hlg,
    /// High dynamic range with the curve of screens (PQ).
    Pq,
    /// Nothing.
    Untold,
}

/// What holds the tracks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Mp4,
    Mkv,
    WebM,
}

/// How a file is made.
#[derive(Clone, Debug)]
pub(super) struct How {
    pub(super) container: Container,
    /// The encoder and its options.
    pub(super) codec: Vec<String>,
    /// The format of pixels with 8 bits a sample, and that with 10.
    pub(super) pixels: (&'static str, &'static str),
    /// What the file tells of pictures that were in no file before; `None` of a file keeps what it tells.
    pub(super) colors: Option<Colors>,
}

/// Formats of pixels without transparency.
pub(super) const OPAQUE: (&str, &str) = ("yuv420p", "yuv420p10le");

impl How {
    /// H.264 in MP4, with options of the encoder.
    pub(super) fn h264(options: &[&str]) -> Self {
        let codec = ["-c:v", "libx264"].iter().chain(options);
        Self {
            container: Container::Mp4,
            codec: codec.map(|option| (*option).to_owned()).collect(),
            pixels: OPAQUE,
            colors: None,
        }
    }
}

impl Container {
    /// How names of its files end, and what they are called in HTTP.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Mp4 => ("mp4", "video/mp4"),
            Self::Mkv => ("mkv", "video/x-matroska"),
            Self::WebM => ("webm", "video/webm"),
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Mp4 => &["-movflags", "+faststart+use_metadata_tags", "-f", "mp4"],
            Self::Mkv => &["-f", "matroska"],
            Self::WebM => &["-f", "webm"],
        }
    }

    /// The encoder of its sounds: WebM takes Opus, which has 48000 samples a second.
    fn sound(self) -> &'static [&'static str] {
        match self {
            Self::Mp4 | Self::Mkv => &["-c:a", "aac"],
            Self::WebM => &["-c:a", "libopus", "-ar", "48000"],
        }
    }
}

impl Colors {
    pub(super) fn is_high(self) -> bool {
        matches!(self, Self::Hlg | Self::Pq)
    }

    /// The options of an encoder that tell them.
    fn tags(self) -> Vec<&'static str> {
        let (matrix, primaries, curve) = match self {
            Self::Srgb => ("bt709", "bt709", "iec61966-2-1"),
            Self::Hlg => ("bt2020nc", "bt2020", "arib-std-b67"),
            Self::Pq => ("bt2020nc", "bt2020", "smpte2084"),
            Self::Untold => return Vec::new(),
        };
        vec![
            "-colorspace",
            matrix,
            "-color_primaries",
            primaries,
            "-color_trc",
            curve,
            "-color_range",
            "tv",
        ]
    }

    /// The matrix that makes brightness and colour of red, green and blue, for FFmpeg's filter.
    fn matrix(self) -> &'static str {
        match self {
            Self::Srgb => ":out_color_matrix=bt709",
            Self::Hlg | Self::Pq => ":out_color_matrix=bt2020",
            Self::Untold => "",
        }
    }
}

/// The video as a file.
pub(super) fn encoded(
    video: Video,
    how: &How,
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    match video {
        Video::File {
            bytes,
            start,
            duration,
            crop,
        } => {
            let opened = Opened::of(&bytes, context)?;
            let part = part(start, duration);
            let part: Vec<&str> = part.iter().map(String::as_str).collect();
            let crop = crop.map(|crop| crop.filter());
            let crop = crop.iter().flat_map(|crop| ["-vf", crop]);
            let colors = how.colors.map(Colors::tags).unwrap_or_default();
            let is_high = how.colors.is_some_and(Colors::is_high);
            let is_deep = opened.bits()? > 8 || is_high;
            let pixels = if is_deep { how.pixels.1 } else { how.pixels.0 };
            let options: Vec<&str> = crop
                .chain(["-pix_fmt", pixels])
                .chain(colors)
                .chain(how.codec.iter().map(String::as_str))
                .chain(how.container.sound().iter().copied())
                .collect();
            opened.write(&part, &options, how.container, context)
        }
        Video::Parts {
            images,
            sound,
            rate,
            is_deep,
        } => of_parts(&images, sound.as_ref(), (rate, is_deep), how, context),
    }
}

/// The tracks of a file as they are, in another container.
pub(super) fn copied(
    opened: &Opened,
    container: Container,
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    opened.write(&[], &["-c", "copy"], container, context)
}

impl Opened {
    /// Its pictures and what is heard, in another file.
    fn write(
        &self,
        part: &[&str],
        options: &[&str],
        container: Container,
        context: &NodeContext,
    ) -> Result<Vec<u8>, NodeError> {
        let index = |stream: &Json| stream["index"].as_u64().map(|index| format!("0:{index}"));
        let tracks = [Some(self.pictures()?), self.sound()];
        let tracks: Vec<String> = tracks.into_iter().flatten().filter_map(index).collect();
        let tags = tags(context);
        let options: Vec<&str> = tracks
            .iter()
            .flat_map(|track| ["-map", track])
            .chain(tags.iter().map(String::as_str))
            .chain(options.iter().copied())
            .chain(container.options().iter().copied())
            .collect();
        self.program
            .write(&[(self.file.as_path(), part)], &options, context)
    }
}

fn of_parts(
    images: &Image,
    sound: Option<&Sound>,
    (rate, is_deep): (f64, bool),
    how: &How,
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    const THOUSAND: f64 = 1000.0;
    let program = Ffmpeg::installed()?;
    let folder = folder()?;
    let file = folder.path().join("video");
    let colors = how.colors.unwrap_or(Colors::Srgb);
    let is_deep = is_deep || colors.is_high();
    let pixels = if is_deep { how.pixels.1 } else { how.pixels.0 };
    let samples = match (is_deep, pixels.starts_with("yuva")) {
        (true, _) => Samples::Words,
        (false, true) => Samples::Transparent,
        (false, false) => Samples::Bytes,
    };
    raw(&file, images, samples, context)?;
    let size = format!("{}x{}", images.first().width(), images.first().height());
    let thousandths = (rate * THOUSAND).round_ties_even();
    let rate = format!("{thousandths}/{THOUSAND}");
    let layout = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        samples.name(),
        "-s",
        &size,
        "-r",
        &rate,
    ];
    let mut inputs: Vec<(&Path, &[&str])> = vec![(file.as_path(), layout.as_slice())];
    let track = folder.path().join("sound");
    if let Some(sound) = sound {
        let seconds = images.frames().len() as f64 * THOUSAND / thousandths;
        // No more is heard than there is to see.
        let most = (seconds * f64::from(sound.rate)).ceil() as usize;
        let cut = |channel: &Vec<f32>| channel[..channel.len().min(most)].to_vec();
        let channels: Vec<Vec<f32>> = sound.channels().iter().map(cut).collect();
        context.reserve(2 * sound::bytes(channels.len(), most.min(sound.length())))?;
        written(&track, &sound::wave(&channels, sound.rate))?;
        inputs.push((track.as_path(), &[]));
    }
    // Chroma has half the sides: an odd one is cut.
    const EVEN: &str = "crop=trunc(iw/2)*2:trunc(ih/2)*2";
    let filters = format!(
        "{EVEN},scale=flags=bilinear{},format={pixels}",
        colors.matrix()
    );
    let tags = tags(context);
    let options: Vec<&str> = ["-vf", &filters]
        .into_iter()
        .chain(colors.tags())
        .chain(tags.iter().map(String::as_str))
        .chain(how.codec.iter().map(String::as_str))
        .chain(how.container.sound().iter().copied())
        .chain(how.container.options().iter().copied())
        .collect();
    program.write(&inputs, &options, context)
}

/// How pictures lie in a file of nothing but samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    /// Red, green and blue of 8 bits.
    Bytes,
    /// The same with how opaque each pixel is.
    Transparent,
    /// Red, green and blue of 16 bits.
    Words,
}

impl Samples {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "rgb24",
            Self::Transparent => "rgba",
            Self::Words => "rgb48le",
        }
    }
}

/// Pictures as samples in a row.
pub(super) fn raw(
    path: &Path,
    images: &Image,
    samples: Samples,
    context: &NodeContext,
) -> Result<(), NodeError> {
    use std::io::Write as _;
    let broken = |_| {
        NodeError::new(
            "OSError",
            "the server cannot keep the pictures of this video now; try again later",
        )
    };
    let mut file = std::io::BufWriter::new(std::fs::File::create_new(path).map_err(broken)?);
    for frame in images.frames() {
        context.check()?;
        let channels = frame.channels();
        let level = |pixel: &[f32], at: usize, most: f32| {
            let sample = match at {
                3 => pixel.get(3).copied().unwrap_or(1.0),
                at => pixel[at.min(channels - 1)],
            };
            (sample * most).clamp(0.0, most)
        };
        for pixel in frame.data().chunks_exact(channels) {
            let written = match samples {
                Samples::Bytes => {
                    file.write_all(&[0, 1, 2].map(|at| level(pixel, at, 255.0) as u8))
                }
                Samples::Transparent => {
                    file.write_all(&[0, 1, 2, 3].map(|at| level(pixel, at, 255.0) as u8))
                }
                Samples::Words => {
                    let words =
                        [0, 1, 2].map(|at| (level(pixel, at, 65535.0) as u16).to_le_bytes());
                    file.write_all(words.as_flattened())
                }
            };
            written.map_err(broken)?;
        }
    }
    file.flush().map_err(broken)
}

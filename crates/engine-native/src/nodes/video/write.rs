//! Files made by FFmpeg.

use std::path::Path;

use images::Image;

use super::{Video, part};
use crate::program::{Ffmpeg, folder, written};
use crate::sound;
use crate::{NodeContext, NodeError};

/// What a file tells of the colours of pictures that were in none before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colors {
    /// That they are sRGB, which players show as it is meant.
    Srgb,
    /// Nothing.
    Untold,
}

/// The video as a file that FFmpeg makes with these options.
pub(super) fn encoded(
    video: Video,
    colors: Colors,
    options: &[&str],
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    let program = Ffmpeg::installed()?;
    let metadata = context.metadata();
    let told = metadata
        .iter()
        .flat_map(|(key, text)| ["-metadata".to_owned(), format!("{key}={text}")]);
    // Programs take arguments of a bounded length: a larger graph is left out.
    const MOST: usize = 100_000;
    let told: Vec<String> = match metadata.iter().map(|(_, text)| text.len()).sum::<usize>() {
        0..MOST => told.collect(),
        _ => Vec::new(),
    };
    let told = told.iter().map(String::as_str);
    let folder = folder()?;
    let file = folder.path().join("video");
    match video {
        Video::File {
            bytes,
            start,
            duration,
            crop,
        } => {
            written(&file, &bytes)?;
            let part = part(start, duration);
            let part: Vec<&str> = part.iter().map(String::as_str).collect();
            let crop = crop.map(|crop| crop.filter());
            let crop = crop.iter().flat_map(|crop| ["-vf", crop]);
            let options: Vec<&str> = crop.chain(told).chain(options.iter().copied()).collect();
            program.write(&[(file.as_path(), part.as_slice())], &options, context)
        }
        Video::Parts {
            images,
            sound,
            rate,
        } => {
            raw(&file, &images, context)?;
            let size = format!("{}x{}", images.first().width(), images.first().height());
            let rate = rate.to_string();
            let how = [
                "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size, "-r", &rate,
            ];
            let mut inputs: Vec<(&Path, &[&str])> = vec![(file.as_path(), how.as_slice())];
            let track = folder.path().join("sound");
            if let Some(sound) = &sound {
                written(&track, &sound::flac(sound.channels(), sound.rate, &[])?)?;
                inputs.push((track.as_path(), &[]));
            }
            // Chroma has half the sides: an odd one is cut.
            const EVEN: &str = "crop=trunc(iw/2)*2:trunc(ih/2)*2";
            let (matrix, tags) = match colors {
                Colors::Srgb => (":out_color_matrix=bt709", &SRGB[..]),
                Colors::Untold => ("", &[][..]),
            };
            let filters = format!("{EVEN},scale=flags=bilinear{matrix}");
            let options: Vec<&str> = ["-vf", &filters, "-shortest"]
                .into_iter()
                .chain(tags.iter().copied())
                .chain(told)
                .chain(options.iter().copied())
                .collect();
            program.write(&inputs, &options, context)
        }
    }
}

/// sRGB, as the options of an encoder tell it.
const SRGB: [&str; 8] = [
    "-colorspace",
    "bt709",
    "-color_primaries",
    "bt709",
    "-color_trc",
    "iec61966-2-1",
    "-color_range",
    "tv",
];

/// Pictures as bytes in a row, red, green and blue.
pub(super) fn raw(path: &Path, images: &Image, context: &NodeContext) -> Result<(), NodeError> {
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
        for pixel in frame.data().chunks_exact(channels) {
            let color =
                [0, 1, 2].map(|at| (pixel[at.min(channels - 1)] * 255.0).clamp(0.0, 255.0) as u8);
            file.write_all(&color).map_err(broken)?;
        }
    }
    file.flush().map_err(broken)
}

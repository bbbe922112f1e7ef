//! Files made by FFmpeg.

use std::path::Path;

use images::Image;

use super::{Video, part};
use crate::program::{Ffmpeg, folder, written};
use crate::sound;
use crate::{NodeContext, NodeError};

/// The video as a file that FFmpeg makes with these options.
pub(super) fn encoded(
    video: Video,
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
            let even = ["-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2", "-shortest"];
            let options: Vec<&str> = even
                .into_iter()
                .chain(told)
                .chain(options.iter().copied())
                .collect();
            program.write(&inputs, &options, context)
        }
    }
}

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

//! Finding the recordings beside the repository, and reading them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::kernel::channel;
use crate::pixels::{Frame, Image, Mask};

/// The directory of the recordings, or `None` with a line that says so: a lone clone does not have them.
#[expect(
    clippy::print_stderr,
    reason = "a test that checks nothing must say so"
)]
pub(super) fn directory() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens");
    if directory.join("index.json").exists() {
        return Some(directory);
    }
    eprintln!(
        "skipped: there are no recordings at {}",
        directory.display()
    );
    None
}

pub(super) fn json(path: &Path) -> Value {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An 8-bit picture as LoadImage gives it: RGB, and a mask of 1 - alpha or 64x64 zeros.
pub(super) fn load(path: &Path) -> (Image, Mask) {
    let Saved {
        width,
        height,
        channels,
        samples,
    } = saved(path);
    let image = Image::single(Frame::from_bytes(height, width, channels, &samples));
    if channels == 4 {
        return channel::split_alpha(image).expect("there are colours");
    }
    let mask = Mask::new(vec![Frame::filled(64, 64, 1, 0.0).into()]);
    (image, mask.expect("one channel"))
}

/// An output as it was saved.
pub(super) struct Saved {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    pub(super) samples: Vec<u8>,
}

/// Reads an 8-bit RGB or RGBA file.
pub(super) fn saved(path: &Path) -> Saved {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = png::Decoder::new(BufReader::new(file))
        .read_info()
        .expect("a PNG file");
    let mut samples = vec![0; reader.output_buffer_size().expect("a small picture")];
    let info = reader.next_frame(&mut samples).expect("a whole picture");
    let (width, height) = (info.width as usize, info.height as usize);
    Saved {
        width,
        height,
        channels: samples.len() / width / height,
        samples,
    }
}

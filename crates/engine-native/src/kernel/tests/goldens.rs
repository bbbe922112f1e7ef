//! Finding the recordings beside the repository, and reading them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::kernel::point;
use crate::value::{Frame, Image, Mask};

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
    let picture = image::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let rgb = point::from_bytes(height, width, 3, &picture.to_rgb8());
    let mask = match picture.color().has_alpha() {
        true => {
            let alpha: Vec<f32> = picture
                .to_rgba8()
                .pixels()
                .map(|p| 1.0 - f32::from(p.0[3]) / 255.0)
                .collect();
            Frame::new(height, width, 1, alpha)
        }
        false => Frame::filled(64, 64, 1, 0.0),
    };
    (
        Image::single(rgb),
        Mask::new(vec![mask.into()]).expect("one channel"),
    )
}

/// An output as it was saved.
pub(super) struct Saved {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    pub(super) samples: Vec<u8>,
}

pub(super) fn saved(path: &Path) -> Saved {
    let picture = image::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    match picture.color().has_alpha() {
        true => Saved {
            width,
            height,
            channels: 4,
            samples: picture.to_rgba8().into_raw(),
        },
        false => Saved {
            width,
            height,
            channels: 3,
            samples: picture.to_rgb8().into_raw(),
        },
    }
}

//! Writes batches as animated files: SaveAnimatedPNG's APNG and SaveAnimatedWEBP's WebP.
//!
//! A frame that equals the one before it only makes that one last longer, and a batch that is one picture becomes a still file,
//! as in the original; so the frames of a file may be fewer than those of the batch, but never its time.

mod apng;
mod riff;
mod webp;

pub use self::apng::encode_apng;
pub use self::webp::{WebpOptions, encode_webp, raster_to_webp};

use super::CodecError;

/// Milliseconds that a frame is shown at `fps` frames a second: `int(1000 / fps)`.
fn frame_ms(fps: f64) -> u32 {
    (1000.0 / fps) as u32
}

/// Refuses what no animated file can hold.
fn check_batch(
    frames: &[std::sync::Arc<crate::pixels::Frame>],
) -> Result<(usize, usize, usize), CodecError> {
    let shape = frames
        .first()
        .ok_or_else(|| CodecError::Unsupported("a batch without pictures".to_owned()))?
        .shape();
    match shape {
        (0, ..) | (_, 0, _) => Err(CodecError::Unsupported("an empty picture".to_owned())),
        (.., 3 | 4) if frames.iter().all(|frame| frame.shape() == shape) => Ok(shape),
        (.., channels) => Err(CodecError::Unsupported(format!(
            "an animation of pictures with {channels} channels"
        ))),
    }
}

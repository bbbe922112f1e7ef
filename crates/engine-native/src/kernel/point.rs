//! Operations on each sample by itself, and the step between 8-bit levels and floats.

use super::rows::fill_bands;
use crate::value::Frame;

/// Reads 8-bit samples: `level / 255`.
#[must_use]
pub fn from_bytes(height: usize, width: usize, channels: usize, bytes: &[u8]) -> Frame {
    let mut data = vec![0.0; bytes.len()];
    fill_bands(&mut data, 1, |first, band| {
        band.iter_mut()
            .zip(&bytes[first..])
            .for_each(|(sample, &level)| *sample = f32::from(level) / 255.0);
    });
    Frame::new(height, width, channels, data)
}

/// Writes 8-bit samples: `trunc(clip(255 * v, 0, 255))`; not a number becomes 0.
#[must_use]
pub fn to_bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = vec![0; frame.data().len()];
    fill_bands(&mut bytes, 1, |first, band| {
        to_levels(&frame.data()[first..], band)
    });
    bytes
}

/// [`to_bytes`] of a slice.
pub(super) fn to_levels(samples: &[f32], levels: &mut [u8]) {
    for (level, &sample) in levels.iter_mut().zip(samples) {
        *level = (255.0 * sample) as u8;
    }
}

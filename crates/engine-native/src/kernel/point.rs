//! Operations on each sample by itself, and the step between 8-bit levels and floats.

use super::KernelError;
use super::frames::{each, each_mask};
use super::rows::{fill_bands, map_samples};
use crate::codec;
use crate::value::{Frame, Image, Mask, unwritten};

/// Reads 8-bit samples: `level / 255`.
///
/// # Panics
/// If `bytes` does not hold `height * width * channels` samples: that is a bug of the caller, never of its input.
#[must_use]
pub fn from_bytes(height: usize, width: usize, channels: usize, bytes: &[u8]) -> Frame {
    let mut data = unwritten(bytes.len());
    fill_bands(&mut data, 1, |first, band| {
        codec::bytes_to_samples(&bytes[first..], band)
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
    codec::samples_to_bytes(samples, levels);
}

/// ImageInvert: `1 - v`, alpha too.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn invert(image: Image) -> Result<Image, KernelError> {
    each(image, |frame| Ok(map_samples(frame, |v| 1.0 - v)))
}

/// InvertMask: `1 - v`.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn invert_mask(mask: Mask) -> Result<Mask, KernelError> {
    each_mask(mask, |frame| Ok(map_samples(frame, |v| 1.0 - v)))
}

/// ThresholdMask: 1 where the mask is strictly greater than `value`, else 0.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn threshold(mask: Mask, value: f64) -> Result<Mask, KernelError> {
    let value = value as f32;
    each_mask(mask, |frame| {
        Ok(map_samples(frame, |v| f32::from(u8::from(v > value))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_survive_the_way_to_floats_and_back() {
        let levels: Vec<u8> = (0..=255).collect();
        assert_eq!(to_bytes(&from_bytes(16, 16, 1, &levels)), levels);
    }

    #[test]
    fn writing_truncates_and_clips() {
        let frame = Frame::new(
            1,
            8,
            1,
            vec![0.0, 0.5, 0.999, 1.0, 1.2, -0.1, f32::NAN, f32::INFINITY],
        );
        assert_eq!(to_bytes(&frame), [0, 127, 254, 255, 255, 0, 0, 255]);
    }

    #[test]
    fn the_threshold_itself_is_not_above() {
        let mask =
            Mask::new(vec![Frame::new(1, 3, 1, vec![0.25, 0.5, 0.75]).into()]).expect("a mask");
        assert_eq!(
            threshold(mask, 0.5).expect("same shape").first().data(),
            [0.0, 0.0, 1.0]
        );
    }

    #[test]
    fn inverting_twice_gives_the_picture_back() {
        let image = Image::single(Frame::new(1, 1, 4, vec![0.0, 0.25, 1.0, 0.5]));
        let once = invert(image.clone()).expect("same shape");
        assert_eq!(once.first().data(), [1.0, 0.75, 0.0, 0.5]);
        assert_eq!(invert(once).expect("same shape"), image);
    }
}

//! Operations on each sample by itself.

use super::KernelError;
use super::frames::{each, each_mask};
use super::rows::map_samples;
use crate::pixels::{Image, Mask};

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
    use crate::pixels::Frame;

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

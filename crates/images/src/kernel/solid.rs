//! Pictures and masks of one value: made once, however many the batch holds.

use std::sync::Arc;

use super::KernelError;
use super::frames::{batch_length, unwritten};
use crate::pixels::{Frame, Image, Mask};

/// EmptyImage: `batch` frames of one colour, given as `0xRRGGBB`.
///
/// # Errors
/// If there is no frame or too many, or a frame has no pixels.
pub fn empty_image(
    width: usize,
    height: usize,
    batch: usize,
    color: u32,
) -> Result<Image, KernelError> {
    let mut data = unwritten(height, width, 3)?;
    let [_, red, green, blue] = color.to_be_bytes();
    let pixel = [red, green, blue].map(|level| f32::from(level) / 255.0);
    data.as_chunks_mut().0.fill(pixel);
    let frame = Arc::new(Frame::new(height, width, 3, data));
    Ok(Image::new(vec![frame; batch_length(batch)?])?)
}

/// SolidMask: one mask of `value`.
///
/// # Errors
/// If it has no pixels.
pub fn solid_mask(value: f64, width: usize, height: usize) -> Result<Mask, KernelError> {
    let mut data = unwritten(height, width, 1)?;
    data.fill(value as f32);
    Ok(Mask::new(vec![Arc::new(Frame::new(
        height, width, 1, data,
    ))])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_one_colour_is_one_frame() {
        let image = empty_image(2, 1, 4096, 0xFF_00_33).expect("a legal size");
        assert_eq!(image.frames().len(), 4096);
        assert_eq!(image.first().data(), [1.0, 0.0, 0.2, 1.0, 0.0, 0.2]);
        assert!(Arc::ptr_eq(&image.frames()[0], &image.frames()[4095]));
    }

    #[test]
    fn nothing_is_not_a_picture() {
        assert_eq!(
            empty_image(0, 3, 1, 0),
            Err(KernelError::EmptyResult {
                width: 0,
                height: 3
            })
        );
        assert_eq!(
            solid_mask(1.0, 3, 0),
            Err(KernelError::EmptyResult {
                width: 3,
                height: 0
            })
        );
    }
}

//! Joining, taking and repeating batches: pointers move, pixels do not.

use super::KernelError;
use super::channel::with_channels;
use super::frames::{batch_length, cycle, each};
use super::scale::{self, Crop, Method};
use crate::value::Image;

/// ImageBatch: the frames of `image1`, then those of `image2` brought to its size (bilinear, centre crop). Both get the greater
/// number of channels; missing ones are 1.
///
/// # Errors
/// If the common shape is beyond one frame, or there are too many frames.
pub fn join(image1: Image, image2: Image) -> Result<Image, KernelError> {
    batch_length(image1.frames().len() + image2.frames().len())?;
    let channels = image1.first().channels().max(image2.first().channels());
    let image1 = each(image1, |frame| with_channels(frame, channels))?;
    let image2 = each(image2, |frame| with_channels(frame, channels))?;
    let (height, width, _) = image1.first().shape();
    let image2 = scale::common_upscale(image2, width, height, Method::Bilinear, Crop::Center)?;
    let mut frames = image1.into_frames();
    frames.extend(image2.into_frames());
    Ok(Image::new(frames)?)
}

/// ImageFromBatch: `length` frames from `index` on; both are brought into the batch, so there is always at least one.
///
/// # Errors
/// If `length` is 0.
pub fn take(image: &Image, index: usize, length: usize) -> Result<Image, KernelError> {
    let frames = image.frames();
    let first = index.min(frames.len() - 1);
    Ok(Image::new(
        frames.iter().skip(first).take(length).cloned().collect(),
    )?)
}

/// RepeatImageBatch: the whole batch `amount` times.
///
/// # Errors
/// If `amount` is 0 or there would be too many frames.
pub fn repeat(image: &Image, amount: usize) -> Result<Image, KernelError> {
    let length = batch_length(image.frames().len().saturating_mul(amount))?;
    Ok(Image::new(cycle(image.frames(), length))?)
}

/// RebatchImages: all frames in order, in batches of `size`; the last may be smaller.
///
/// # Errors
/// If frames of different shapes would meet in one batch.
pub fn rebatch(images: &[Image], size: usize) -> Result<Vec<Image>, KernelError> {
    let frames: Vec<_> = images.iter().flat_map(Image::frames).cloned().collect();
    frames
        .chunks(size.max(1))
        .map(|batch| Ok(Image::new(batch.to_vec())?))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::value::{Frame, ShapeError};

    fn batch(values: &[f32]) -> Image {
        Image::new(
            values
                .iter()
                .map(|&v| Arc::new(Frame::filled(1, 2, 3, v)))
                .collect(),
        )
        .expect("a batch")
    }

    fn values(image: &Image) -> Vec<f32> {
        image.frames().iter().map(|frame| frame.data()[0]).collect()
    }

    #[test]
    fn joining_brings_the_second_to_the_shape_of_the_first() {
        let second = Image::single(Frame::filled(6, 4, 4, 0.5));
        let out = join(batch(&[0.1, 0.2]), second).expect("it fits");
        assert_eq!(out.first().shape(), (1, 2, 4));
        assert_eq!(values(&out), [0.1, 0.2, 0.5]);
        assert_eq!(
            (out.frames()[0].data()[3], out.frames()[2].data()[3]),
            (1.0, 0.5)
        );
    }

    #[test]
    fn taking_stays_inside_the_batch() {
        let image = batch(&[0.0, 1.0, 2.0]);
        assert_eq!(values(&take(&image, 1, 1).expect("not empty")), [1.0]);
        assert_eq!(
            values(&take(&image, 1, 4096).expect("not empty")),
            [1.0, 2.0]
        );
        assert_eq!(values(&take(&image, 4095, 4096).expect("not empty")), [2.0]);
    }

    #[test]
    fn repeating_repeats_the_whole_batch_without_copying_it() {
        let image = batch(&[0.0, 1.0]);
        let out = repeat(&image, 3).expect("not empty");
        assert_eq!(values(&out), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
        assert!(Arc::ptr_eq(&out.frames()[4], &image.frames()[0]));
    }

    #[test]
    fn repeating_what_was_repeated_has_an_end() {
        let many = repeat(&batch(&[0.0]), 1 << 20).expect("just so many");
        assert_eq!(repeat(&many, 2), Err(KernelError::TooManyFrames(1 << 21)));
        assert_eq!(
            repeat(&many, usize::MAX),
            Err(KernelError::TooManyFrames(usize::MAX))
        );
        assert_eq!(
            join(many, batch(&[0.0])),
            Err(KernelError::TooManyFrames((1 << 20) + 1))
        );
    }

    #[test]
    fn rebatching_flattens_first() {
        let out = rebatch(&[batch(&[0.0, 1.0]), batch(&[2.0, 3.0, 4.0])], 3).expect("one shape");
        assert_eq!(
            out.iter().map(values).collect::<Vec<_>>(),
            [vec![0.0, 1.0, 2.0], vec![3.0, 4.0]]
        );
        let other = Image::single(Frame::filled(1, 1, 3, 0.0));
        let mixed = rebatch(&[batch(&[0.0]), other.clone()], 2);
        assert_eq!(
            mixed,
            Err(KernelError::Batch(ShapeError::Mixed(1, 2, 3, 1, 1, 3)))
        );
        assert_eq!(
            rebatch(&[batch(&[0.0]), other], 1)
                .expect("never meet")
                .len(),
            2
        );
    }
}

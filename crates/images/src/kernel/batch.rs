//! Joining, taking and repeating batches: pointers move, pixels do not.

use super::KernelError;
use super::channel::with_channels;
use super::frames::{batch_length, cycle, each};
use super::scale::{self, Crop, Method};
use crate::pixels::{Image, Mask};

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

/// The frames of all batches in order, brought to the size of the first (bilinear, centre crop). A picture with fewer channels than
/// another gets one more, which is 1.
///
/// # Errors
/// If there is no batch, if one lacks more than a channel, or as [`join`].
pub fn join_all(images: Vec<Image>) -> Result<Image, KernelError> {
    batch_length(images.iter().map(|image| image.frames().len()).sum())?;
    let most = images.iter().map(|image| image.first().channels()).max();
    let most = most.unwrap_or(0);
    let mut size = None;
    let mut frames = Vec::new();
    for image in images {
        let channels = image.first().channels();
        if channels + 1 < most {
            return Err(KernelError::ChannelMismatch(channels, most));
        }
        let image = each(image, |frame| with_channels(frame, most))?;
        let (width, height) =
            *size.get_or_insert_with(|| (image.first().width(), image.first().height()));
        let image = scale::common_upscale(image, width, height, Method::Bilinear, Crop::Center)?;
        frames.extend(image.into_frames());
    }
    Ok(Image::new(frames)?)
}

/// The masks of all batches in order, brought to the size of the first (bilinear, centre crop).
///
/// # Errors
/// If there is no batch, or there are too many frames.
pub fn join_masks(masks: Vec<Mask>) -> Result<Mask, KernelError> {
    let images = masks.into_iter().map(|mask| Image::new(mask.into_frames()));
    let joined = join_all(images.collect::<Result<_, _>>()?)?;
    Ok(Mask::new(joined.into_frames())?)
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
mod tests;

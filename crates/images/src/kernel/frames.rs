//! Walking over the frames of a batch, and the limit of one frame.
//!
//! A repeated batch holds the same frame many times; it is computed once and stays one frame.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::KernelError;
use crate::parallel::{spread, threads};
use crate::pixels::{self, Frame, Image, Mask};

/// What one frame may hold: 16384 x 16384 RGBA, the largest size that the node definitions let anybody ask for.
pub const MAX_FRAME_SAMPLES: usize = 16384 * 16384 * 4;

/// What one batch may hold, far beyond what anybody saves: repeating moves pointers, but repeating what was repeated makes
/// numbers that no memory holds.
pub const MAX_BATCH_FRAMES: usize = 1 << 20;

/// Bytes that a batch takes if no two of its frames are shared; for checking a budget before a kernel runs.
#[must_use]
pub fn output_bytes(frames: usize, height: usize, width: usize, channels: usize) -> u64 {
    [height, width, channels, size_of::<f32>()]
        .iter()
        .fold(frames as u64, |bytes, &n| bytes.saturating_mul(n as u64))
}

/// Samples of a new frame, of any value: the kernel writes all of them.
///
/// # Errors
/// If the frame would be empty or beyond [`MAX_FRAME_SAMPLES`].
pub(super) fn unwritten(
    height: usize,
    width: usize,
    channels: usize,
) -> Result<Vec<f32>, KernelError> {
    Ok(pixels::unwritten(samples(height, width, channels)?))
}

/// The number of samples of a frame that may be made.
///
/// # Errors
/// As [`unwritten`].
pub(super) fn samples(height: usize, width: usize, channels: usize) -> Result<usize, KernelError> {
    if height == 0 || width == 0 {
        return Err(KernelError::EmptyResult { width, height });
    }
    height
        .checked_mul(width)
        .and_then(|pixels| pixels.checked_mul(channels))
        .filter(|&samples| samples <= MAX_FRAME_SAMPLES)
        .ok_or(KernelError::TooLarge {
            width,
            height,
            channels,
        })
}

/// Whether a batch of `frames` may be made.
///
/// # Errors
/// If there are more than [`MAX_BATCH_FRAMES`].
pub(super) fn batch_length(frames: usize) -> Result<usize, KernelError> {
    match frames {
        0..=MAX_BATCH_FRAMES => Ok(frames),
        _ => Err(KernelError::TooManyFrames(frames)),
    }
}

/// Applies `f` to every distinct frame of a batch.
pub(super) fn each(
    image: Image,
    f: impl Fn(Arc<Frame>) -> Result<Arc<Frame>, KernelError> + Sync,
) -> Result<Image, KernelError> {
    Ok(Image::new(map_distinct(image.into_frames(), f)?)?)
}

/// Applies `f` to every distinct frame of a batch of masks.
pub(super) fn each_mask(
    mask: Mask,
    f: impl Fn(Arc<Frame>) -> Result<Arc<Frame>, KernelError> + Sync,
) -> Result<Mask, KernelError> {
    Ok(Mask::new(map_distinct(mask.into_frames(), f)?)?)
}

/// Applies `f` once to every distinct item and puts the result wherever the item stood.
pub(super) fn map_distinct<T: Shared, R: Clone + Send>(
    items: Vec<T>,
    f: impl Fn(T) -> Result<R, KernelError> + Sync,
) -> Result<Vec<R>, KernelError> {
    let (distinct, places) = distinct(items);
    let results = map(distinct, &f)?;
    Ok(places
        .into_iter()
        .map(|place| results[place].clone())
        .collect())
}

/// The distinct items, and for every item which of them it is.
fn distinct<T: Shared>(items: Vec<T>) -> (Vec<T>, Vec<usize>) {
    let mut seen = HashMap::new();
    let mut distinct = Vec::new();
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        let next = distinct.len();
        let place = *seen.entry(item.identity()).or_insert(next);
        if place == next {
            distinct.push(item);
        }
        places.push(place);
    }
    (distinct, places)
}

/// Compiled once for a type of items instead of once for every kernel.
fn map<T: Send, R: Send>(
    items: Vec<T>,
    f: &(dyn Fn(T) -> Result<R, KernelError> + Sync),
) -> Result<Vec<R>, KernelError> {
    if items.len() == 1 || threads() == 1 {
        return items.into_iter().map(f).collect();
    }
    // Whichever thread fails first, the error is that of the first item that fails.
    let results: Vec<Result<R, KernelError>> = spread(|| items.into_par_iter().map(f).collect());
    results.into_iter().collect()
}

/// A frame of one batch and the frame of another that goes with it.
pub(super) type Pair = (Arc<Frame>, Arc<Frame>);

/// Pairs two batches for an operation that broadcasts: equal lengths, or one of them a single frame.
///
/// # Errors
/// If the lengths can be paired neither way.
pub(super) fn broadcast(a: Vec<Arc<Frame>>, b: Vec<Arc<Frame>>) -> Result<Vec<Pair>, KernelError> {
    match (a.len(), b.len()) {
        (n, m) if n == m => Ok(a.into_iter().zip(b).collect()),
        (1, _) => Ok(b.into_iter().map(|b| (Arc::clone(&a[0]), b)).collect()),
        (_, 1) => Ok(a.into_iter().map(|a| (a, Arc::clone(&b[0]))).collect()),
        (n, m) => Err(KernelError::BatchMismatch(n, m)),
    }
}

/// Repeats a batch from its start, or cuts it, to `length` frames.
pub(super) fn cycle(frames: &[Arc<Frame>], length: usize) -> Vec<Arc<Frame>> {
    frames.iter().cycle().take(length).cloned().collect()
}

/// Values whose equal addresses mean equal contents.
pub(super) trait Shared: Send {
    /// What tells two distinct values apart.
    fn identity(&self) -> [usize; 4];
}

impl Shared for Arc<Frame> {
    fn identity(&self) -> [usize; 4] {
        [Arc::as_ptr(self).addr(), 0, 0, 0]
    }
}

impl Shared for Pair {
    fn identity(&self) -> [usize; 4] {
        [
            Arc::as_ptr(&self.0).addr(),
            Arc::as_ptr(&self.1).addr(),
            0,
            0,
        ]
    }
}

#[cfg(test)]
mod tests;

//! One picture over another, by a mask or by their alphas.

mod porter_duff;

use std::sync::Arc;

pub use porter_duff::{PorterDuffMode, porter_duff};

use super::KernelError;
use super::channel::with_channels;
use super::frames::{Shared, cycle, each, map_distinct};
use super::rows::change_chunks;
use super::scale::{self, Crop, Method};
use crate::pixels::{Frame, Image, Mask};

/// Where and how a source is put on a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Columns from the left side of the destination.
    pub x: usize,
    /// Rows from its top.
    pub y: usize,
    /// Whether the source is stretched (bilinear) to the size of the destination first.
    pub resize_source: bool,
}

/// ImageCompositeMasked: `source mask + destination (1 - mask)` where the source lies, cut at the border of the destination.
///
/// The source gets the channels of the destination and, like the mask, is repeated or cut to its batch; the mask is stretched
/// to the source.
///
/// # Errors
/// If a stretched picture would be beyond one frame.
pub fn image_composite_masked(
    destination: Image,
    source: Image,
    placement: Placement,
    mask: Option<Mask>,
) -> Result<Image, KernelError> {
    let (height, width, channels) = destination.first().shape();
    let mut source = each(source, |frame| with_channels(frame, channels))?;
    if placement.resize_source {
        source = scale::common_upscale(source, width, height, Method::Bilinear, Crop::Disabled)?;
    }
    let length = destination.frames().len();
    let masks = match mask {
        None => vec![None; length],
        Some(mask) => {
            let mask = scale::resize_mask(mask, source.first().width(), source.first().height())?;
            cycle(mask.frames(), length).into_iter().map(Some).collect()
        }
    };
    let sources = cycle(source.frames(), length);
    let layers = destination
        .into_frames()
        .into_iter()
        .zip(sources)
        .zip(masks);
    let layers = layers
        .map(|((destination, source), mask)| Layers {
            destination,
            source,
            mask,
        })
        .collect();
    Ok(Image::new(map_distinct(layers, |layers| {
        Ok(layers.composed(placement.x, placement.y))
    })?)?)
}

struct Layers {
    destination: Arc<Frame>,
    source: Arc<Frame>,
    mask: Option<Arc<Frame>>,
}

impl Shared for Layers {
    fn identity(&self) -> [usize; 4] {
        let address = |frame: &Arc<Frame>| Arc::as_ptr(frame).addr();
        [
            address(&self.destination),
            address(&self.source),
            self.mask.as_ref().map_or(0, address),
            0,
        ]
    }
}

impl Layers {
    fn composed(self, x: usize, y: usize) -> Arc<Frame> {
        let channels = self.destination.channels();
        let stride = self.destination.width() * channels;
        if x >= self.destination.width() || y >= self.destination.height() {
            return self.destination;
        }
        change_chunks(self.destination, stride, |row_y, row| {
            let Some(from) = row_y
                .checked_sub(y)
                .filter(|&from| from < self.source.height())
            else {
                return;
            };
            let covered = &mut row[x * channels..];
            let source = self.source.row(from);
            match &self.mask {
                None => {
                    let length = covered.len().min(source.len());
                    covered[..length].copy_from_slice(&source[..length]);
                }
                Some(mask) => mix(covered, source, mask.row(from), channels),
            }
        })
    }
}

fn mix(covered: &mut [f32], source: &[f32], mask: &[f32], channels: usize) {
    match channels {
        3 => mix_pixels::<3>(covered, source, mask),
        4 => mix_pixels::<4>(covered, source, mask),
        _ => {
            let pixels = covered
                .chunks_exact_mut(channels)
                .zip(source.chunks_exact(channels));
            for ((pixel, from), &share) in pixels.zip(mask) {
                pixel
                    .iter_mut()
                    .zip(from)
                    .for_each(|(a, &b)| *a = share * b + (1.0 - share) * *a);
            }
        }
    }
}

fn mix_pixels<const C: usize>(covered: &mut [f32], source: &[f32], mask: &[f32]) {
    let pixels = covered
        .as_chunks_mut::<C>()
        .0
        .iter_mut()
        .zip(source.as_chunks::<C>().0);
    for ((pixel, from), &share) in pixels.zip(mask) {
        let rest = 1.0 - share;
        for c in 0..C {
            pixel[c] = share * from[c] + rest * pixel[c];
        }
    }
}

#[cfg(test)]
mod tests;

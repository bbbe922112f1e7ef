//! Latents as nodes work on them: what a diffusion model computes with, held without any model.

mod file;
mod operation;
mod resize;
mod tensor;

use crate::value::Opaque;
use crate::{NodeError, Value};

pub(crate) use file::{read, written};
pub(crate) use operation::LatentOperation;
pub(crate) use resize::{LatentMethod, resized};
pub use tensor::Tensor;

/// The value of a `LATENT` socket: a batch of samples, and what the nodes that made it note about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    /// `[batch, channels, ...]`, and after these `[length]` for sounds, `[height, width]` for pictures and
    /// `[frames, height, width]` for videos.
    pub samples: Tensor,
    /// Where a sampler works: `[batch, 1, height, width]`, in pixels of the picture.
    pub noise_mask: Option<Tensor>,
    /// The number that the noise of each item is drawn for.
    pub batch_index: Option<Vec<i64>>,
    /// Whether it is marked as a sound.
    pub is_audio: bool,
}

impl Latent {
    /// A latent of samples alone.
    #[must_use]
    pub fn new(samples: Tensor) -> Self {
        Self {
            samples,
            noise_mask: None,
            batch_index: None,
            is_audio: false,
        }
    }

    /// The same notes with other samples.
    pub(crate) fn with(&self, samples: Tensor) -> Self {
        Self {
            samples,
            ..self.clone()
        }
    }

    /// Items of the batch.
    pub(crate) fn count(&self) -> usize {
        self.samples.side(0)
    }

    /// The numbers of its items: from 0 where none are noted.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let counted = || (0..self.count()).map(|number| number as i64).collect();
        self.batch_index.clone().unwrap_or_else(counted)
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let mask = self.noise_mask.as_ref().map_or(0, Tensor::size_bytes);
        let numbers = self
            .batch_index
            .as_ref()
            .map_or(0, |numbers| size_of_val(&**numbers));
        self.samples.size_bytes() + mask + numbers as u64
    }
}

impl From<Latent> for Value {
    fn from(latent: Latent) -> Self {
        let size = latent.size_bytes();
        Opaque::new("LATENT", latent, size).into()
    }
}

/// What is said of latents whose shapes do not fit each other.
pub(crate) fn unfit(one: &[usize], other: &[usize]) -> NodeError {
    NodeError::value(format!(
        "latents of the shapes {one:?} and {other:?} do not fit each other; use latents of one kind of model and one size"
    ))
}

//! What can be done to a latent later: the value of a `LATENT_OPERATION` socket.

use super::tensor::room;
use super::{Tensor, unfit};
use crate::value::Opaque;
use crate::{NodeContext, NodeError, Value};

/// Something to do to a latent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LatentOperation {
    /// Mixes another latent in.
    Blend {
        /// The other one.
        reference: Tensor,
        /// How much of it: nothing at 0, nothing else at 1.
        strength: f64,
    },
    /// Compresses the lengths of the channels' vectors towards what is usual in the latent.
    Tonemap {
        /// How far from the usual length the curve ends.
        multiplier: f64,
    },
    /// Sharpens the directions of the channels' vectors and leaves their lengths.
    Sharpen {
        /// Samples on each side of one that count for it.
        radius: usize,
        /// The width of the bell, relative to the radius.
        sigma: f64,
        /// How strongly.
        alpha: f64,
    },
}

impl LatentOperation {
    /// Does it.
    ///
    /// # Errors
    /// If the latent is none of pictures, is smaller than the radius, does not fit the one that is mixed in, or there is no room.
    pub(crate) fn apply(
        &self,
        samples: &Tensor,
        context: &NodeContext,
    ) -> Result<Tensor, NodeError> {
        match self {
            Self::Blend {
                reference,
                strength,
            } => blend(samples, reference, *strength as f32, context),
            Self::Tonemap { multiplier } => {
                needs_picture(samples)?;
                tonemap(samples, *multiplier, context)
            }
            Self::Sharpen {
                radius,
                sigma,
                alpha,
            } => {
                needs_picture(samples)?;
                let weights = weights(*radius, *sigma, *alpha);
                sharpen(samples, &weights, *radius, context)
            }
        }
    }
}

fn needs_picture(samples: &Tensor) -> Result<(), NodeError> {
    match samples.sides() {
        4 => Ok(()),
        _ => Err(NodeError::value(
            "this operation works on latents of pictures: [batch, channels, height, width]",
        )),
    }
}

impl From<LatentOperation> for Value {
    fn from(operation: LatentOperation) -> Self {
        let held = match &operation {
            LatentOperation::Blend { reference, .. } => reference.size_bytes(),
            LatentOperation::Tonemap { .. } | LatentOperation::Sharpen { .. } => 0,
        };
        let size = held + size_of::<LatentOperation>() as u64;
        Opaque::new("LATENT_OPERATION", operation, size).into()
    }
}

fn blend(
    samples: &Tensor,
    reference: &Tensor,
    strength: f32,
    context: &NodeContext,
) -> Result<Tensor, NodeError> {
    if strength == 0.0 {
        return Ok(samples.clone());
    }
    if reference.sides() != samples.sides() || reference.side(1) != samples.side(1) {
        return Err(unfit(samples.shape(), reference.shape()));
    }
    let mut other = reference.clone();
    for side in 2..samples.sides() {
        other = nearest(&other, side, samples.side(side), context)?;
    }
    let other = other.of_count(samples.side(0), context)?;
    // From the nearer end, in one rounding: what the reference is at 1 it is to the bit.
    samples.zip(&other, context, |sample, other| match strength < 0.5 {
        true => strength.mul_add(other - sample, sample),
        false => (strength - 1.0).mul_add(other - sample, other),
    })
}

/// One side in another length: each place has the sample at or before where it lies.
fn nearest(
    samples: &Tensor,
    side: usize,
    length: usize,
    context: &NodeContext,
) -> Result<Tensor, NodeError> {
    let (_, own, inner) = samples.around(side);
    if own == length {
        return Ok(samples.clone());
    }
    let scale = own as f32 / length as f32;
    let place = |at: usize| ((at as f32 * scale) as usize).min(own - 1);
    let mut shape = samples.shape().to_vec();
    shape[side] = length;
    let mut data = room(&shape, context)?;
    for block in samples.data().chunks_exact(own * inner) {
        context.check()?;
        for at in 0..length {
            data.extend_from_slice(&block[place(at) * inner..][..inner]);
        }
    }
    Ok(Tensor::new(shape, data))
}

/// The lengths of the vectors as a channel of their own, a little longer than they are so that nothing is divided by 0.
fn lengths(samples: &Tensor, more: f32, context: &NodeContext) -> Result<Tensor, NodeError> {
    let norm = samples
        .norm(context)?
        .map(context, |length| length + more)?;
    let mut shape = norm.shape().to_vec();
    shape.insert(1, 1);
    Ok(norm.reshaped(shape))
}

fn tonemap(samples: &Tensor, multiplier: f64, context: &NodeContext) -> Result<Tensor, NodeError> {
    let lengths = lengths(samples, 1e-10, context)?;
    let directions = samples.zip(&lengths, context, |sample, length| sample / length)?;
    let (batch, count, _) = {
        let (batch, _, inner) = lengths.around(1);
        (batch, inner, ())
    };
    let mut data = room(lengths.shape(), context)?;
    for item in lengths.data().chunks_exact(count).take(batch) {
        let mean = item.iter().map(|length| f64::from(*length)).sum::<f64>() / count as f64;
        let squares = item
            .iter()
            .map(|length| (f64::from(*length) - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count as f64 - 1.0)).sqrt() as f32;
        let top = (deviation * 5.0 + mean as f32) * multiplier as f32;
        let inverse = 1.0 / top;
        data.extend(item.iter().map(|length| {
            let length = length * inverse;
            length / (length + 1.0) * top
        }));
    }
    let lengths = Tensor::new(lengths.shape().to_vec(), data);
    directions.zip(&lengths, context, |direction, length| direction * length)
}

/// The kernel, row by row: a bell turned upside down, with what is missing to 1 in its middle.
fn weights(radius: usize, sigma: f64, alpha: f64) -> Vec<f32> {
    let side = radius * 2 + 1;
    let step = 2.0 / (side as f64 - 1.0);
    let coordinate = |at: usize| (at as f64 * step - 1.0) as f32;
    let variance = (2.0 * sigma * sigma) as f32;
    let mut weights: Vec<f32> = (0..side * side)
        .map(|at| {
            let (x, y) = (coordinate(at % side), coordinate(at / side));
            (-(x * x + y * y) / variance).exp()
        })
        .collect();
    let sum = weights.iter().map(|weight| f64::from(*weight)).sum::<f64>() as f32;
    let factor = (alpha * -10.0) as f32;
    weights
        .iter_mut()
        .for_each(|weight| *weight = *weight / sum * factor);
    let sum = weights.iter().map(|weight| f64::from(*weight)).sum::<f64>() as f32;
    let middle = weights.len() / 2;
    weights[middle] = weights[middle] - sum + 1.0;
    weights
}

fn sharpen(
    samples: &Tensor,
    weights: &[f32],
    radius: usize,
    context: &NodeContext,
) -> Result<Tensor, NodeError> {
    let (height, width) = (samples.side(2), samples.side(3));
    if radius >= height || radius >= width {
        return Err(NodeError::value(format!(
            "the radius {radius} must be smaller than the latent, which is {width} x {height} samples; choose a smaller radius"
        )));
    }
    let lengths = lengths(samples, 1e-6, context)?;
    let directions = samples.zip(&lengths, context, |sample, length| sample / length)?;
    let side = radius * 2 + 1;
    // Beyond the border the picture goes on as in a mirror that stands on the last sample.
    let mirrored = |at: usize, length: usize| match at.checked_sub(radius) {
        None => radius - at,
        Some(at) if at < length => at,
        Some(at) => 2 * (length - 1) - at,
    };
    let columns: Vec<usize> = (0..width + 2 * radius)
        .map(|x| mirrored(x, width))
        .collect();
    let mut data = room(samples.shape(), context)?;
    let mut padded = vec![0.0_f32; side * columns.len()];
    let mut sums = vec![0.0_f32; width];
    for plane in directions.data().chunks_exact(height * width) {
        for y in 0..height {
            context.check()?;
            for (row, padded) in padded.chunks_exact_mut(columns.len()).enumerate() {
                let source = &plane[mirrored(y + row, height) * width..][..width];
                for (sample, column) in padded.iter_mut().zip(&columns) {
                    *sample = source[*column];
                }
            }
            sums.fill(0.0);
            for (weights, padded) in weights
                .chunks_exact(side)
                .zip(padded.chunks_exact(columns.len()))
            {
                for (shift, weight) in weights.iter().enumerate() {
                    for (sum, sample) in sums.iter_mut().zip(&padded[shift..]) {
                        *sum += sample * weight;
                    }
                }
            }
            data.extend_from_slice(&sums);
        }
    }
    let sharpened = Tensor::new(samples.shape().to_vec(), data);
    sharpened.zip(&lengths, context, |direction, length| direction * length)
}

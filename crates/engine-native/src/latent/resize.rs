//! Latents in another size: each channel as a picture of its own, or the vectors of all channels turned towards each other.

use std::sync::Arc;

use super::Tensor;
use super::tensor::room;
use crate::{NodeContext, NodeError};
use images::Frame;
use images::kernel::scale::{self, Crop, Method};

/// How a sample of the result is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LatentMethod {
    /// As in pictures, channel by channel.
    Plain(Method),
    /// On the arc between the vectors of two places, along the rows first, then across them.
    Bislerp,
}

/// Resizes the last two sides to exactly `width` x `height`.
///
/// # Errors
/// If the latent has no width and height, the size is 0, or there is no room.
pub(crate) fn resized(
    samples: &Tensor,
    (width, height): (usize, usize),
    method: LatentMethod,
    crop: Crop,
    context: &NodeContext,
) -> Result<Tensor, NodeError> {
    let sides = samples.sides();
    if sides < 4 {
        return Err(NodeError::value(
            "only a latent of pictures or videos can be resized; this one has no width and height",
        ));
    }
    let mut shape = samples.shape().to_vec();
    let (own_height, own_width) = (shape[sides - 2], shape[sides - 1]);
    shape[sides - 2] = height;
    shape[sides - 1] = width;
    let mut data = room(&shape, context)?;
    match method {
        LatentMethod::Plain(method) => {
            for plane in samples.data().chunks_exact(own_height * own_width) {
                context.check()?;
                let frame = Arc::new(Frame::new(own_height, own_width, 1, plane.to_vec()));
                let resized = scale::resize(frame, width, height, method, crop)?;
                data.extend_from_slice(resized.data());
            }
            Ok(Tensor::new(shape, data))
        }
        LatentMethod::Bislerp => {
            let cropped = match crop {
                Crop::Disabled => samples.clone(),
                Crop::Center => {
                    let (x, y) = scale::center_crop(own_width, own_height, width, height);
                    let rows = samples.part(sides - 2, y..own_height - y, context)?;
                    rows.part(sides - 1, x..own_width - x, context)?
                }
            };
            let wide = turned(&cropped, sides - 1, width, context)?;
            turned(&wide, sides - 2, height, context)
        }
    }
}

/// Resizes one side by turning the vector of one place towards that of the next.
fn turned(
    samples: &Tensor,
    side: usize,
    length: usize,
    context: &NodeContext,
) -> Result<Tensor, NodeError> {
    let places = places(samples.side(side), length)?;
    let mut shape = samples.shape().to_vec();
    shape[side] = length;
    let (batch, channels, _) = samples.around(1);
    // What lies between the channels and the side, and what after it.
    let between: usize = shape[2..side].iter().product();
    let after: usize = shape[side + 1..].iter().product();
    let own = samples.side(side);
    let mut data = room(&shape, context)?;
    data.resize(shape.iter().product(), 0.0);
    let (mut from, mut to, mut made) = (
        vec![0.0; channels],
        vec![0.0; channels],
        vec![0.0; channels],
    );
    for item in 0..batch {
        for row in 0..between {
            context.check()?;
            let at = |channel: usize, sides: usize, place: usize| {
                (((item * channels + channel) * between + row) * sides + place) * after
            };
            for (place, &(first, second, ratio)) in places.iter().enumerate() {
                for column in 0..after {
                    for channel in 0..channels {
                        from[channel] = samples.data()[at(channel, own, first) + column];
                        to[channel] = samples.data()[at(channel, own, second) + column];
                    }
                    slerp(&from, &to, ratio, &mut made);
                    for channel in 0..channels {
                        data[at(channel, length, place) + column] = made[channel];
                    }
                }
            }
        }
    }
    Ok(Tensor::new(shape, data))
}

/// For every place of the result two of the source, and how far it lies towards the second.
fn places(own: usize, length: usize) -> Result<Vec<(usize, usize, f32)>, NodeError> {
    let line = |values: Vec<f32>| {
        let frame = Arc::new(Frame::new(1, own, 1, values));
        scale::resize(frame, length, 1, Method::Bilinear, Crop::Disabled)
    };
    let numbers = || (0..own).map(|number| number as f32);
    let first = line(numbers().collect())?;
    let last = own.saturating_sub(1) as f32;
    let second = line(numbers().map(|number| (number + 1.0).min(last)).collect())?;
    let places = first.data().iter().zip(second.data());
    Ok(places
        .map(|(first, second)| (*first as usize, *second as usize, first - first.floor()))
        .collect())
}

/// Vectors this near to each other, or to opposites, are not turned.
const NEAR: f32 = 1e-5;

/// The vector at `ratio` of the way from one to the other: its direction on the arc between theirs, its length between theirs.
fn slerp(from: &[f32], to: &[f32], ratio: f32, made: &mut [f32]) {
    let norm = |vector: &[f32]| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    let (from_norm, to_norm) = (norm(from), norm(to));
    let unit = |x: f32, norm: f32| if norm == 0.0 { 0.0 } else { x / norm };
    let dot: f32 = from
        .iter()
        .zip(to)
        .map(|(a, b)| unit(*a, from_norm) * unit(*b, to_norm))
        .sum();
    if dot > 1.0 - NEAR {
        made.copy_from_slice(from);
        return;
    }
    let back = 1.0 - ratio;
    if dot < NEAR - 1.0 {
        for ((made, a), b) in made.iter_mut().zip(from).zip(to) {
            *made = a * back + b * ratio;
        }
        return;
    }
    let angle = dot.acos();
    let sine = angle.sin();
    let (one, other) = ((back * angle).sin() / sine, (ratio * angle).sin() / sine);
    let length = from_norm * back + to_norm * ratio;
    for ((made, a), b) in made.iter_mut().zip(from).zip(to) {
        *made = (one * unit(*a, from_norm) + other * unit(*b, to_norm)) * length;
    }
}

//! Latents added, multiplied, mixed and put beside each other.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::{Class, given, gives_latent, latent, one};
use crate::define::{core, float_input, latest, modern_combo, named};
use crate::latent::{Latent, LatentMethod, Tensor, resized};
use crate::{Inputs, NodeContext, NodeError, NodeOutput};
use images::kernel::scale::{Crop, Method};

pub(super) const CLASSES: &[Class] = &[
    (
        || pair("LatentAdd"),
        |inputs, context| joined(inputs, context, |a, b| a + b),
    ),
    (
        || pair("LatentSubtract"),
        |inputs, context| joined(inputs, context, |a, b| a - b),
    ),
    (multiply_definition, multiply),
    (interpolate_definition, interpolate),
    (blend_definition, blend),
    (concat_definition, concat),
];

const MODULE: &str = "comfy_extras.nodes_latent";
const ADVANCED: &str = "latent/advanced";

fn pair(class: &str) -> NodeDefinition {
    let inputs = vec![latent("samples1"), latent("samples2")];
    gives_latent(latest(class, MODULE, ADVANCED, json!({})), inputs)
}

fn joined(
    inputs: &Inputs,
    context: &NodeContext,
    join: fn(f32, f32) -> f32,
) -> Result<NodeOutput, NodeError> {
    let (first, second) = (given(inputs, "samples1")?, given(inputs, "samples2")?);
    let other = fitted(&first.samples, &second.samples, context)?;
    let samples = first.samples.zip(&other, context, join)?;
    Ok(one(first.with(samples)))
}

/// A latent with the width, height and batch of another.
fn fitted(to: &Tensor, samples: &Tensor, context: &NodeContext) -> Result<Tensor, NodeError> {
    sized(to, samples, context)?.of_count(to.side(0), context)
}

/// A latent with the width and height of another.
pub(super) fn sized(
    to: &Tensor,
    samples: &Tensor,
    context: &NodeContext,
) -> Result<Tensor, NodeError> {
    if samples.shape()[1..] == to.shape()[1..] {
        return Ok(samples.clone());
    }
    let [.., height, width] = *to.shape() else {
        return Ok(samples.clone());
    };
    let bilinear = LatentMethod::Plain(Method::Bilinear);
    resized(samples, (width, height), bilinear, Crop::Center, context)
}

fn multiply_definition() -> NodeDefinition {
    let multiplier = json!({"default": 1.0, "min": -10.0, "max": 10.0, "step": 0.01});
    let inputs = vec![latent("samples"), float_input("multiplier", multiplier)];
    gives_latent(
        latest("LatentMultiply", MODULE, ADVANCED, json!({})),
        inputs,
    )
}

fn multiply(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let multiplier = inputs.float("multiplier")? as f32;
    let samples = latent.samples.map(context, |sample| sample * multiplier)?;
    Ok(one(latent.with(samples)))
}

fn interpolate_definition() -> NodeDefinition {
    let ratio = json!({"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01});
    let inputs = vec![
        latent("samples1"),
        latent("samples2"),
        float_input("ratio", ratio),
    ];
    gives_latent(
        latest("LatentInterpolate", MODULE, ADVANCED, json!({})),
        inputs,
    )
}

/// The directions of the channels' vectors are mixed, and their lengths apart from them. As recorded, the lengths have no side
/// of channels, so several items of a batch fit only where there are as many channels.
fn interpolate(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (first, second) = (given(inputs, "samples1")?, given(inputs, "samples2")?);
    let ratio = inputs.float("ratio")?;
    let (part, rest) = (ratio as f32, (1.0 - ratio) as f32);
    let mix = |a: f32, b: f32| a * part + b * rest;
    let other = fitted(&first.samples, &second.samples, context)?;
    let (own_norm, other_norm) = (first.samples.norm(context)?, other.norm(context)?);
    let own = first.samples.zip(&own_norm, context, direction)?;
    let other = other.zip(&other_norm, context, direction)?;
    let mixed = own.zip(&other, context, mix)?;
    let mixed = mixed.zip(&mixed.norm(context)?, context, direction)?;
    let norm = own_norm.zip(&other_norm, context, mix)?;
    let samples = mixed.zip(&norm, context, |direction, norm| direction * norm)?;
    Ok(one(first.with(samples)))
}

/// A part of a vector without its length; where it has none, 0.
fn direction(sample: f32, norm: f32) -> f32 {
    let part = sample / norm;
    match part.is_nan() {
        true => 0.0,
        false => part.clamp(f32::MIN, f32::MAX),
    }
}

fn blend_definition() -> NodeDefinition {
    let factor = json!({"default": 0.5, "min": 0, "max": 1, "step": 0.01});
    let inputs = vec![
        latent("samples1"),
        latent("samples2"),
        float_input("blend_factor", factor),
    ];
    let definition = NodeDefinition {
        display_name: named("Latent Blend"),
        ..core("LatentBlend", "nodes", "_for_testing", json!({}))
    };
    gives_latent(definition, inputs)
}

fn blend(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (first, second) = (given(inputs, "samples1")?, given(inputs, "samples2")?);
    let factor = inputs.float("blend_factor")?;
    let (part, rest) = (factor as f32, (1.0 - factor) as f32);
    let own = &first.samples;
    let other = match own.shape() == second.samples.shape() {
        true => second.samples.clone(),
        false => {
            let size = (own.side(3), own.side(2));
            let bicubic = LatentMethod::Plain(Method::Bicubic);
            resized(&second.samples, size, bicubic, Crop::Center, context)?
        }
    };
    let samples = own.zip(&other, context, |a, b| a * part + b * rest)?;
    Ok(one(first.with(samples)))
}

fn concat_definition() -> NodeDefinition {
    let sides = modern_combo("dim", &["x", "-x", "y", "-y", "t", "-t"], json!({}));
    let inputs = vec![latent("samples1"), latent("samples2"), sides];
    gives_latent(latest("LatentConcat", MODULE, ADVANCED, json!({})), inputs)
}

fn concat(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (first, second) = (given(inputs, "samples1")?, given(inputs, "samples2")?);
    let (is_reversed, side) = inputs.choice("dim", |word| {
        let side = word.strip_prefix('-');
        Some((side.is_some(), from_end(side.unwrap_or(word))?))
    })?;
    let side = counted_from_end(first, side)?;
    let other = second.samples.of_count(first.count(), context)?;
    let parts = match is_reversed {
        true => [&other, &first.samples],
        false => [&first.samples, &other],
    };
    Ok(one(first.with(Tensor::joined(&parts, side, context)?)))
}

/// A side as it is counted from the last: columns, rows, frames.
pub(super) fn from_end(word: &str) -> Option<usize> {
    match word {
        "x" => Some(1),
        "y" => Some(2),
        "t" => Some(3),
        _ => None,
    }
}

/// The number of a side that is counted from the last.
pub(super) fn counted_from_end(latent: &Latent, side: usize) -> Result<usize, NodeError> {
    latent.samples.sides().checked_sub(side).ok_or_else(|| {
        NodeError::value("the latent has no such side; choose another one in \"dim\"")
    })
}

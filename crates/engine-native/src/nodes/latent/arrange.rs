//! Latents resized, cut, turned and mirrored.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::arithmetic::{counted_from_end, from_end};
use super::{Class, given, gives_latent, latent, needs_area, one};
use crate::define::{core, float_input, int_input, latest, listed_combo, modern_combo, named};
use crate::latent::{LatentMethod, Tensor, resized};
use crate::nodes::scale::method;
use crate::{Inputs, NodeContext, NodeError, NodeOutput};
use images::kernel::scale::{self, Crop};

pub(super) const CLASSES: &[Class] = &[
    (upscale_definition, upscale),
    (upscale_by_definition, upscale_by),
    (rotate_definition, rotate),
    (flip_definition, flip),
    (crop_definition, crop),
    (cut_definition, cut),
    (cut_to_batch_definition, cut_to_batch),
    (trim_definition, trim),
];

const METHODS: [&str; 5] = ["nearest-exact", "bilinear", "area", "bicubic", "bislerp"];

/// The least pixels of a side that is asked for.
const LEAST: usize = 64;

/// Pixels of a side for each sample.
const SCALE: usize = 8;

fn old(class: &str, display_name: &str, category: &str) -> NodeDefinition {
    NodeDefinition {
        display_name: named(display_name),
        ..core(class, "nodes", category, json!({}))
    }
}

fn upscale_definition() -> NodeDefinition {
    let side = || json!({"default": 512, "min": 0, "max": 16384, "step": 8});
    let inputs = vec![
        latent("samples"),
        listed_combo("upscale_method", &METHODS, json!({})),
        int_input("width", side()),
        int_input("height", side()),
        listed_combo("crop", &["disabled", "center"], json!({})),
    ];
    gives_latent(old("LatentUpscale", "Upscale Latent", "latent"), inputs)
}

fn upscale(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    needs_area(latent)?;
    let method = inputs.choice("upscale_method", latent_method)?;
    let crop = inputs.choice("crop", |word| match word {
        "disabled" => Some(Crop::Disabled),
        "center" => Some(Crop::Center),
        _ => None,
    })?;
    let [.., own_height, own_width] = *latent.samples.shape() else {
        return Ok(one(latent.clone()));
    };
    let ratio = |own: usize, to: usize, of: usize| {
        let side = (own as f64 * to as f64 / of as f64).round_ties_even();
        (side as usize).max(LEAST)
    };
    let (width, height) = match (inputs.int("width")?, inputs.int("height")?) {
        (0, 0) => return Ok(one(latent.clone())),
        (0, height) => {
            let height = LEAST.max(height);
            (ratio(own_width, height, own_height), height)
        }
        (width, 0) => {
            let width = LEAST.max(width);
            (width, ratio(own_height, width, own_width))
        }
        (width, height) => (LEAST.max(width), LEAST.max(height)),
    };
    let size = (width / SCALE, height / SCALE);
    Ok(one(latent.with(resized(
        &latent.samples,
        size,
        method,
        crop,
        context,
    )?)))
}

fn latent_method(word: &str) -> Option<LatentMethod> {
    match word {
        "bislerp" => Some(LatentMethod::Bislerp),
        "lanczos" => None,
        word => method(word).map(LatentMethod::Plain),
    }
}

fn upscale_by_definition() -> NodeDefinition {
    let factor = json!({"default": 1.5, "min": 0.01, "max": 8.0, "step": 0.01});
    let inputs = vec![
        latent("samples"),
        listed_combo("upscale_method", &METHODS, json!({})),
        float_input("scale_by", factor),
    ];
    gives_latent(
        old("LatentUpscaleBy", "Upscale Latent By", "latent"),
        inputs,
    )
}

fn upscale_by(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    needs_area(latent)?;
    let method = inputs.choice("upscale_method", latent_method)?;
    let [.., height, width] = *latent.samples.shape() else {
        return Ok(one(latent.clone()));
    };
    let size = scale::scaled_by(width, height, inputs.float("scale_by")?)?;
    let samples = resized(&latent.samples, size, method, Crop::Disabled, context)?;
    Ok(one(latent.with(samples)))
}

fn rotate_definition() -> NodeDefinition {
    let turns = ["none", "90 degrees", "180 degrees", "270 degrees"];
    let inputs = vec![
        latent("samples"),
        listed_combo("rotation", &turns, json!({})),
    ];
    gives_latent(
        old("LatentRotate", "Rotate Latent", "latent/transform"),
        inputs,
    )
}

fn rotate(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    needs_area(latent)?;
    let quarters = inputs.choice("rotation", |word| match word {
        "none" => Some(0),
        "90 degrees" => Some(1),
        "180 degrees" => Some(2),
        "270 degrees" => Some(3),
        _ => None,
    })?;
    // As recorded, the third and the fourth side turn: of a video these are frames and rows.
    let samples = match quarters {
        1 => latent.samples.flipped(2, context)?.transposed(context)?,
        2 => latent.samples.flipped(2, context)?.flipped(3, context)?,
        3 => latent.samples.flipped(3, context)?.transposed(context)?,
        _ => latent.samples.clone(),
    };
    Ok(one(latent.with(samples)))
}

fn flip_definition() -> NodeDefinition {
    let ways = ["x-axis: vertically", "y-axis: horizontally"];
    let inputs = vec![
        latent("samples"),
        listed_combo("flip_method", &ways, json!({})),
    ];
    gives_latent(old("LatentFlip", "Flip Latent", "latent/transform"), inputs)
}

fn flip(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    needs_area(latent)?;
    let side = inputs.choice("flip_method", |word| match word {
        "x-axis: vertically" => Some(2),
        "y-axis: horizontally" => Some(3),
        _ => None,
    })?;
    Ok(one(latent.with(latent.samples.flipped(side, context)?)))
}

fn crop_definition() -> NodeDefinition {
    let side = || json!({"default": 512, "min": 64, "max": 16384, "step": 8});
    let place = || json!({"default": 0, "min": 0, "max": 16384, "step": 8});
    let inputs = vec![
        latent("samples"),
        int_input("width", side()),
        int_input("height", side()),
        int_input("x", place()),
        int_input("y", place()),
    ];
    gives_latent(old("LatentCrop", "Crop Latent", "latent/transform"), inputs)
}

/// At least 8 samples of each side stay, where there are as many.
fn crop(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    needs_area(latent)?;
    let mut samples = latent.samples.clone();
    for (side, place, length) in [(2, "y", "height"), (3, "x", "width")] {
        let own = samples.side(side) as i64;
        let place = (inputs.int::<i64>(place)? / SCALE as i64).min(own - SCALE as i64);
        let end = place + inputs.int::<i64>(length)? / SCALE as i64;
        samples = samples.part(side, slice(place, end, own as usize), context)?;
    }
    Ok(one(latent.with(samples)))
}

/// What Python takes for `start:end` of a row: negative places count from its end.
pub(super) fn slice(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let place = |at: i64| {
        let length = length as i64;
        let at = if at < 0 { at + length } else { at };
        at.clamp(0, length) as usize
    };
    let start = place(start);
    start..place(end).max(start)
}

fn cut_definition() -> NodeDefinition {
    let inputs = vec![
        latent("samples"),
        modern_combo("dim", &["x", "y", "t"], json!({})),
        int_input(
            "index",
            json!({"default": 0, "min": -16384, "max": 16384, "step": 1}),
        ),
        int_input(
            "amount",
            json!({"default": 1, "min": 1, "max": 16384, "step": 1}),
        ),
    ];
    let module = "comfy_extras.nodes_latent";
    gives_latent(
        latest("LatentCut", module, "latent/advanced", json!({})),
        inputs,
    )
}

fn cut(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let side = counted_from_end(latent, inputs.choice("dim", from_end)?)?;
    let own = latent.samples.side(side) as i64;
    let (index, amount): (i64, i64) = (inputs.int("index")?, inputs.int("amount")?);
    let start = match index {
        0.. => index.min(own - 1),
        _ => index.max(-own) + own,
    };
    let end = own.min(start.saturating_add(amount));
    let range = slice(start, end, own as usize);
    Ok(one(latent.with(latent.samples.part(side, range, context)?)))
}

fn cut_to_batch_definition() -> NodeDefinition {
    let inputs = vec![
        latent("samples"),
        modern_combo("dim", &["t", "x", "y"], json!({})),
        int_input(
            "slice_size",
            json!({"default": 1, "min": 1, "max": 16384, "step": 1}),
        ),
    ];
    let module = "comfy_extras.nodes_latent";
    gives_latent(
        latest("LatentCutToBatch", module, "latent/advanced", json!({})),
        inputs,
    )
}

/// Slices of one side become items of the batch; what is too short for one is left out.
fn cut_to_batch(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let side = counted_from_end(latent, inputs.choice("dim", from_end)?)?;
    let size: usize = inputs.int("slice_size")?;
    if side < 2 {
        return Ok(one(latent.clone()));
    }
    let own = latent.samples.side(side);
    let size = size.clamp(1, own);
    let mut slices = Vec::new();
    for item in 0..latent.count() {
        let item = latent.samples.part(0, item..item + 1, context)?;
        for number in 0..own / size {
            let range = number * size..(number + 1) * size;
            slices.push(item.part(side, range, context)?);
        }
    }
    let slices: Vec<&Tensor> = slices.iter().collect();
    Ok(one(latent.with(Tensor::joined(&slices, 0, context)?)))
}

fn trim_definition() -> NodeDefinition {
    let amount = json!({"default": 0, "min": 0, "max": 99999});
    let inputs = vec![latent("samples"), int_input("trim_amount", amount)];
    let module = "comfy_extras.nodes_wan";
    gives_latent(
        latest("TrimVideoLatent", module, "latent/video", json!({})),
        inputs,
    )
}

fn trim(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let frames = latent.samples.side(2);
    let from = frames.min(inputs.int("trim_amount")?);
    Ok(one(latent.with(latent.samples.part(
        2,
        from..frames,
        context,
    )?)))
}

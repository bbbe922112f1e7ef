//! One latent laid on another.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::arrange::slice;
use super::batch::samples_of;
use super::{Class, given, gives_latent, latent, needs_area, one};
use crate::define::{boolean_input, core, int_input, latest, link, named, optional};
use crate::latent::{LatentMethod, Tensor, resized};
use crate::{Inputs, NodeContext, NodeError, NodeOutput};
use images::kernel::scale::{Crop, Method};

pub(super) const CLASSES: &[Class] = &[
    (feathered_definition, feathered),
    (masked_definition, masked),
];

/// Pixels of a side for each sample.
const SCALE: usize = 8;

const BILINEAR: LatentMethod = LatentMethod::Plain(Method::Bilinear);

fn feathered_definition() -> NodeDefinition {
    let pixels = |name: &str| {
        int_input(
            name,
            json!({"default": 0, "min": 0, "max": 16384, "step": 8}),
        )
    };
    let inputs = vec![
        latent("samples_to"),
        latent("samples_from"),
        pixels("x"),
        pixels("y"),
        pixels("feather"),
    ];
    let definition = NodeDefinition {
        display_name: named("Latent Composite"),
        ..core("LatentComposite", "nodes", "latent", json!({}))
    };
    gives_latent(definition, inputs)
}

/// The borders that lie inside fade over so many samples.
fn feathered(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (to, from) = (given(inputs, "samples_to")?, given(inputs, "samples_from")?);
    needs_area(to)?;
    needs_area(from)?;
    let place = |name: &str| inputs.int::<usize>(name).map(|pixels| pixels / SCALE);
    let (x, y, feather) = (place("x")?, place("y")?, place("feather")?);
    let (height, width) = (to.samples.side(2), to.samples.side(3));
    if x >= width || y >= height {
        context.text("nothing of the latent lies inside the other one, which stays as it is");
        return Ok(one(to.clone()));
    }
    let rows = from
        .samples
        .part(2, 0..from.samples.side(2).min(height - y), context)?;
    let part = rows.part(3, 0..rows.side(3).min(width - x), context)?;
    let (high, wide) = (part.side(2), part.side(3));
    let under = to.samples.part(2, y..y + high, context)?;
    let under = under.part(3, x..x + wide, context)?;
    let laid = match feather {
        0 => part.expanded(under.shape(), context)?,
        feather => {
            let inside = Inside {
                left: x != 0,
                top: y != 0,
                right: x + wide < width,
                bottom: y + high < height,
            };
            let mut sides = vec![1; part.sides()];
            (sides[2], sides[3]) = (high, wide);
            let mask = Tensor::new(sides, fade(high, wide, feather, &inside));
            let over = part.zip(&mask, context, |sample, mask| sample * mask)?;
            let under = under.zip(&mask, context, |sample, mask| sample * (1.0 - mask))?;
            let sum = over.zip(&under, context, |over, under| over + under)?;
            sum.expanded(under.shape(), context)?
        }
    };
    let mut at = vec![0; laid.sides()];
    (at[2], at[3]) = (y, x);
    Ok(one(to.with(to.samples.replaced(&at, &laid, context)?)))
}

/// Which borders of a part lie inside of what it is laid on.
struct Inside {
    left: bool,
    top: bool,
    right: bool,
    bottom: bool,
}

/// How much of each sample of a part stays.
fn fade(high: usize, wide: usize, feather: usize, inside: &Inside) -> Vec<f32> {
    let mut mask = vec![1.0_f32; high * wide];
    // The real one steps on beyond the other border, and then counts from the end again; so does this.
    for step in 0..feather.min(2 * high.max(wide)) {
        let factor = (1.0 / feather as f64 * (step as f64 + 1.0)) as f32;
        let step = step as i64;
        let fall = |length: usize| slice(length as i64 - 1 - step, length as i64 - step, length);
        let mut rows = |rows: std::ops::Range<usize>| {
            let samples = &mut mask[rows.start * wide..rows.end * wide];
            samples.iter_mut().for_each(|sample| *sample *= factor);
        };
        if inside.top {
            rows(slice(step, step + 1, high));
        }
        if inside.bottom {
            rows(fall(high));
        }
        let mut columns = |columns: std::ops::Range<usize>| {
            for row in mask.chunks_exact_mut(wide) {
                row[columns.clone()]
                    .iter_mut()
                    .for_each(|sample| *sample *= factor);
            }
        };
        if inside.left {
            columns(slice(step, step + 1, wide));
        }
        if inside.right {
            columns(fall(wide));
        }
    }
    mask
}

fn masked_definition() -> NodeDefinition {
    let pixels = |name: &str| {
        int_input(
            name,
            json!({"default": 0, "min": 0, "max": 16384, "step": 8}),
        )
    };
    let inputs = vec![
        latent("destination"),
        latent("source"),
        pixels("x"),
        pixels("y"),
        boolean_input("resize_source", json!({"default": false})),
        optional(link("mask", "MASK")),
    ];
    let module = "comfy_extras.nodes_mask";
    gives_latent(
        latest("LatentCompositeMasked", module, "latent", json!({})),
        inputs,
    )
}

fn masked(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let mask = match inputs.has("mask") {
        true => Some(samples_of(&inputs.mask("mask")?, context)?),
        false => None,
    };
    let (to, from) = (given(inputs, "destination")?, given(inputs, "source")?);
    needs_area(to)?;
    needs_area(from)?;
    let sides = to.samples.sides();
    let (down, across) = (sides - 2, sides - 1);
    let (height, width) = (to.samples.side(down), to.samples.side(across));
    let mut source = from.samples.clone();
    if source.sides() != sides {
        return Err(crate::latent::unfit(to.samples.shape(), source.shape()));
    }
    if inputs.boolean("resize_source")? {
        if sides != 4 {
            return Err(NodeError::value(
                "only latents of pictures can be resized here; switch \"resize_source\" off",
            ));
        }
        source = resized(&source, (width, height), BILINEAR, Crop::Disabled, context)?;
    }
    let source = source.of_count(to.count(), context)?;
    let place = |name: &str, most: usize| -> Result<usize, NodeError> {
        Ok(inputs.int::<usize>(name)?.min(most * SCALE) / SCALE)
    };
    let (x, y) = (place("x", width)?, place("y", height)?);
    let (high, wide) = (
        source.side(down).min(height - y),
        source.side(across).min(width - x),
    );
    if high == 0 || wide == 0 {
        return Ok(one(to.clone()));
    }
    let inside = |samples: &Tensor, x: usize, y: usize| {
        let sides = samples.sides();
        let rows = samples.part(sides - 2, y..y + high, context)?;
        rows.part(sides - 1, x..x + wide, context)
    };
    let mask = match mask {
        Some(mask) => {
            let size = (source.side(across), source.side(down));
            let mask = resized(&mask, size, BILINEAR, Crop::Disabled, context)?;
            let mask = inside(&mask.of_count(source.side(0), context)?, 0, 0)?;
            let mut shape = mask.shape().to_vec();
            shape.splice(1..1, vec![1; sides - 4]);
            mask.reshaped(shape)
        }
        None => Tensor::filled(&vec![1; sides], 1.0, context)?,
    };
    let over = inside(&source, 0, 0)?.zip(&mask, context, |sample, mask| mask * sample)?;
    let under = inside(&to.samples, x, y)?;
    let rest = under.zip(&mask, context, |sample, mask| (1.0 - mask) * sample)?;
    let sum = over.zip(&rest, context, |over, rest| over + rest)?;
    let sum = sum.expanded(under.shape(), context)?;
    let mut at = vec![0; sides];
    (at[down], at[across]) = (y, x);
    Ok(one(to.with(to.samples.replaced(&at, &sum, context)?)))
}

//! Empty latents of shapes in three dimensions.

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition};

use super::{Class, gives_latent, one};
use crate::define::{int_input, latest};
use crate::latent::{Latent, Tensor};
use crate::{Inputs, NodeContext, NodeError, NodeOutput};

pub(super) const CLASSES: &[Class] = &[
    (
        || {
            let resolution = json!({"default": 3072, "min": 1, "max": 8192});
            empty(
                ["EmptyLatentHunyuan3Dv2", "hunyuan3d", "hunyuan 3d"],
                vec![int_input("resolution", resolution)],
            )
        },
        |inputs, context| {
            let resolution = inputs.count("resolution")?;
            zeros(inputs, &[64, resolution], context)
        },
    ),
    (
        || {
            empty(
                ["EmptyTrellis2LatentStructure", "trellis2", "trellis"],
                Vec::new(),
            )
        },
        |inputs, context| zeros(inputs, &[32, 16, 16, 16], context),
    ),
];

fn empty([class, module, category]: [&str; 3], inputs: Vec<InputDefinition>) -> NodeDefinition {
    let batch: Json = json!({
        "tooltip": "The number of latent images in the batch.",
        "default": 1, "min": 1, "max": 4096,
    });
    let mut inputs = inputs;
    inputs.push(int_input("batch_size", batch));
    let definition = latest(
        class,
        &format!("comfy_extras.nodes_{module}"),
        &format!("model/latent/{category}"),
        json!({}),
    );
    gives_latent(definition, inputs)
}

fn zeros(inputs: &Inputs, item: &[usize], context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let mut shape = vec![inputs.count("batch_size")?];
    shape.extend_from_slice(item);
    Ok(one(Latent::new(Tensor::filled(&shape, 0.0, context)?)))
}

//! Operations that are made here and done later, to a latent or by a sampler.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::{Class, given, gives_latent, latent, one};
use crate::define::{float_input, int_input, latest, link, named, output};
use crate::latent::LatentOperation;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] = &[
    (apply_definition, apply),
    (blend_definition, blend),
    (tonemap_definition, tonemap),
    (sharpen_definition, sharpen),
];

fn experimental(class: &str) -> NodeDefinition {
    latest(
        class,
        "comfy_extras.nodes_latent",
        "latent/advanced/operations",
        json!({"experimental": true}),
    )
}

fn apply_definition() -> NodeDefinition {
    let inputs = vec![latent("samples"), link("operation", "LATENT_OPERATION")];
    gives_latent(experimental("LatentApplyOperation"), inputs)
}

fn apply(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let latent = given(inputs, "samples")?;
    let operation: &LatentOperation = inputs.opaque("operation")?;
    Ok(one(latent.with(operation.apply(&latent.samples, context)?)))
}

fn blend_definition() -> NodeDefinition {
    let strength = json!({"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.0001});
    NodeDefinition {
        display_name: named("Latent Operation Blend"),
        inputs: vec![latent("reference"), float_input("strength", strength)],
        outputs: vec![output("LATENT_OPERATION")],
        ..latest(
            "LatentOperationBlend",
            "comfy_extras.nodes_latent",
            "model/latent/advanced/operations",
            json!({"experimental": true}),
        )
    }
}

fn blend(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let operation = LatentOperation::Blend {
        reference: given(inputs, "reference")?.samples.clone(),
        strength: inputs.float("strength")?,
    };
    Ok(Value::from(operation).into())
}

fn tonemap_definition() -> NodeDefinition {
    let multiplier = json!({"default": 1.0, "min": 0.0, "max": 100.0, "step": 0.01});
    NodeDefinition {
        inputs: vec![float_input("multiplier", multiplier)],
        outputs: vec![output("LATENT_OPERATION")],
        ..experimental("LatentOperationTonemapReinhard")
    }
}

fn tonemap(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let multiplier = inputs.float("multiplier")?;
    Ok(Value::from(LatentOperation::Tonemap { multiplier }).into())
}

fn sharpen_definition() -> NodeDefinition {
    NodeDefinition {
        inputs: vec![
            int_input(
                "sharpen_radius",
                json!({"default": 9, "min": 1, "max": 31, "step": 1}),
            ),
            float_input(
                "sigma",
                json!({"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.1}),
            ),
            float_input(
                "alpha",
                json!({"default": 0.1, "min": 0.0, "max": 5.0, "step": 0.01}),
            ),
        ],
        outputs: vec![output("LATENT_OPERATION")],
        ..experimental("LatentOperationSharpen")
    }
}

fn sharpen(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let operation = LatentOperation::Sharpen {
        radius: inputs.int("sharpen_radius")?,
        sigma: inputs.float("sigma")?,
        alpha: inputs.float("alpha")?,
    };
    Ok(Value::from(operation).into())
}

//! Pictures and masks of one colour.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{classic, float_input, int_input, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::{output_bytes, solid};

/// A picture of one colour.
#[derive(Clone, Copy, Debug)]
pub struct EmptyImage;

impl Node for EmptyImage {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                int_input(
                    "width",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input(
                    "height",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input("batch_size", json!({"default": 1, "min": 1, "max": 4096})),
                int_input(
                    "color",
                    json!({"default": 0, "min": 0, "max": 16777215, "step": 1, "display": "color"}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("EmptyImage", "nodes", "image")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (width, height) = (inputs.int("width")?, inputs.int("height")?);
        // The frames of the batch are one frame.
        context.reserve(output_bytes(1, height, width, 3))?;
        let image = solid::empty_image(
            width,
            height,
            inputs.int("batch_size")?,
            (inputs.int::<i128>("color")? & 0xff_ffff) as u32,
        )?;
        Ok(image.into())
    }
}

/// A mask of one value.
#[derive(Clone, Copy, Debug)]
pub struct SolidMask;

impl Node for SolidMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                float_input(
                    "value",
                    json!({"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01}),
                ),
                int_input(
                    "width",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input(
                    "height",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
            ],
            outputs: vec![output("MASK")],
            ..classic("SolidMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (width, height) = (inputs.int("width")?, inputs.int("height")?);
        context.reserve(output_bytes(1, height, width, 1))?;
        Ok(solid::solid_mask(inputs.float("value")?, width, height)?.into())
    }
}

//! Noise.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{classic, float_input, int_input, link, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::noise;

/// A picture with noise, the same for the same seed.
#[derive(Clone, Copy, Debug)]
pub struct ImageAddNoise;

impl Node for ImageAddNoise {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "seed",
                    json!({
                        "default": 0,
                        "min": 0,
                        "max": u64::MAX,
                        "control_after_generate": true,
                        "tooltip": "The random seed used for creating the noise.",
                    }),
                ),
                float_input(
                    "strength",
                    json!({"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageAddNoise", "comfy_extras.nodes_images", "image")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        // Every frame gets noise of its own, so none stays shared.
        let frames = image.frames().len() as u64;
        context.reserve(frames.saturating_mul(image.first().size_bytes() as u64))?;
        Ok(noise::add_noise(image, inputs.seed("seed")?, inputs.float("strength")?)?.into())
    }
}

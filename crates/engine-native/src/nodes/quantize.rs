//! Pictures of few colours.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{int_input, link, modern, modern_combo, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::quantize::{self, BayerOrder, Dither};

/// A picture of at most so many colours.
#[derive(Clone, Copy, Debug)]
pub struct ImageQuantize;

impl Node for ImageQuantize {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "colors",
                    json!({"default": 256, "min": 1, "max": 256, "step": 1}),
                ),
                modern_combo(
                    "dither",
                    &[
                        "none",
                        "floyd-steinberg",
                        "bayer-2",
                        "bayer-4",
                        "bayer-8",
                        "bayer-16",
                    ],
                    json!({}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern(
                "ImageQuantize",
                "comfy_extras.nodes_post_processing",
                "image/postprocessing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let dither = inputs.choice("dither", |word| match word {
            "none" => Some(Dither::None),
            "floyd-steinberg" => Some(Dither::FloydSteinberg),
            "bayer-2" => Some(Dither::Bayer(BayerOrder::Two)),
            "bayer-4" => Some(Dither::Bayer(BayerOrder::Four)),
            "bayer-8" => Some(Dither::Bayer(BayerOrder::Eight)),
            "bayer-16" => Some(Dither::Bayer(BayerOrder::Sixteen)),
            _ => None,
        })?;
        context.reserve(image.size_bytes())?;
        let colors = inputs.int("colors")?;
        if !(1..=256).contains(&colors) {
            let message = format!("{colors} is no number of colors; use 1 to 256");
            return Err(NodeError::value(message));
        }
        Ok(quantize::quantize(image, colors, dither)?.into())
    }
}

//! Two pictures to compare.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::save::{Prefix, emit_png};
use crate::define::{latest, link, modern_metadata, named, optional, widget};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};

/// Two batches, shown with a slider between them.
#[derive(Clone, Copy, Debug)]
pub struct ImageCompare;

impl Node for ImageCompare {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Compare Images"),
            inputs: vec![
                widget("compare_view", "IMAGECOMPARE", json!({"socketless": true})),
                optional(link("image_a", "IMAGE")),
                optional(link("image_b", "IMAGE")),
            ],
            hidden: modern_metadata(),
            output_node: true,
            ..latest(
                "ImageCompare",
                "comfy_extras.nodes_image_compare",
                "image",
                json!({"essentials_category": "Image Tools", "experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut output = NodeOutput::none();
        for (input, list, part) in [
            ("image_a", "a_images", "compare_a"),
            ("image_b", "b_images", "compare_b"),
        ] {
            if inputs.has(input) {
                let image = inputs.image(input)?;
                emit_png(
                    &image,
                    &Prefix::temp_part(context, part),
                    true,
                    list,
                    context,
                )?;
            } else {
                output.ui.insert(list.to_owned(), json!([]));
            }
        }
        Ok(output)
    }
}

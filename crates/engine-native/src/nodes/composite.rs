//! One picture over another, by a mask or by their alphas.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{
    boolean_input, classic, int_input, link, modern, modern_combo, named, optional, output,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::composite::{self, Placement, PorterDuffMode};

/// A picture put on another, where a mask says so.
#[derive(Clone, Copy, Debug)]
pub struct ImageCompositeMasked;

impl Node for ImageCompositeMasked {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("destination", "IMAGE"),
                link("source", "IMAGE"),
                int_input(
                    "x",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "y",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                boolean_input("resize_source", json!({"default": false})),
                optional(link("mask", "MASK")),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageCompositeMasked", "comfy_extras.nodes_mask", "image")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (destination, source) = (inputs.image("destination")?, inputs.image("source")?);
        let placement = Placement {
            x: inputs.int("x")?,
            y: inputs.int("y")?,
            resize_source: inputs.boolean("resize_source")?,
        };
        let mask = if inputs.has("mask") {
            Some(inputs.mask("mask")?)
        } else {
            None
        };
        // The result, the source in the size of the destination, and the mask in that of the source.
        let frames = destination.frames().len() as u64;
        let result = frames.saturating_mul(destination.first().size_bytes() as u64);
        context.reserve(result.saturating_mul(2).saturating_add(source.size_bytes()))?;
        Ok(composite::image_composite_masked(destination, source, placement, mask)?.into())
    }
}

/// Two pictures with alphas composed.
#[derive(Clone, Copy, Debug)]
pub struct PorterDuffImageComposite;

impl Node for PorterDuffImageComposite {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Porter-Duff Image Composite"),
            inputs: vec![
                link("source", "IMAGE"),
                link("source_alpha", "MASK"),
                link("destination", "IMAGE"),
                link("destination_alpha", "MASK"),
                modern_combo(
                    "mode",
                    &[
                        "ADD", "CLEAR", "DARKEN", "DST", "DST_ATOP", "DST_IN", "DST_OUT",
                        "DST_OVER", "LIGHTEN", "MULTIPLY", "OVERLAY", "SCREEN", "SRC", "SRC_ATOP",
                        "SRC_IN", "SRC_OUT", "SRC_OVER", "XOR",
                    ],
                    json!({"default": "DST"}),
                ),
            ],
            outputs: vec![output("IMAGE"), output("MASK")],
            ..modern(
                "PorterDuffImageComposite",
                "comfy_extras.nodes_compositing",
                "mask/compositing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (source, source_alpha) = (inputs.image("source")?, inputs.mask("source_alpha")?);
        let (destination, destination_alpha) = (
            inputs.image("destination")?,
            inputs.mask("destination_alpha")?,
        );
        let mode = inputs.choice("mode", porter_duff_mode)?;
        let frames = source.frames().len().min(destination.frames().len()) as u64;
        // Two premultiplied pictures and the result.
        context.reserve(
            frames
                .saturating_mul(destination.first().size_bytes() as u64)
                .saturating_mul(3),
        )?;
        let (image, mask) = composite::porter_duff(
            &source,
            &source_alpha,
            &destination,
            &destination_alpha,
            mode,
        )?;
        Ok(NodeOutput::of([image.into(), mask.into()]))
    }
}

fn porter_duff_mode(word: &str) -> Option<PorterDuffMode> {
    Some(match word {
        "ADD" => PorterDuffMode::Add,
        "CLEAR" => PorterDuffMode::Clear,
        "DARKEN" => PorterDuffMode::Darken,
        "DST" => PorterDuffMode::Dst,
        "DST_ATOP" => PorterDuffMode::DstAtop,
        "DST_IN" => PorterDuffMode::DstIn,
        "DST_OUT" => PorterDuffMode::DstOut,
        "DST_OVER" => PorterDuffMode::DstOver,
        "LIGHTEN" => PorterDuffMode::Lighten,
        "MULTIPLY" => PorterDuffMode::Multiply,
        "OVERLAY" => PorterDuffMode::Overlay,
        "SCREEN" => PorterDuffMode::Screen,
        "SRC" => PorterDuffMode::Src,
        "SRC_ATOP" => PorterDuffMode::SrcAtop,
        "SRC_IN" => PorterDuffMode::SrcIn,
        "SRC_OUT" => PorterDuffMode::SrcOut,
        "SRC_OVER" => PorterDuffMode::SrcOver,
        "XOR" => PorterDuffMode::Xor,
        _ => return None,
    })
}

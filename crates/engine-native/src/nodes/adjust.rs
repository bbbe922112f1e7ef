//! Brightness, contrast and levels.

use std::sync::Arc;

use images::Image;
use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{float_input, latest, link, named, named_output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};

/// A picture brighter or darker.
#[derive(Clone, Copy, Debug)]
pub struct AdjustBrightness;

impl Node for AdjustBrightness {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Adjust Brightness"),
            inputs: vec![
                link("images", "IMAGE"),
                float_input("factor", json!({"default": 1.0, "min": 0.0, "max": 2.0})),
            ],
            outputs: vec![named_output("IMAGE", "images")],
            ..latest(
                "AdjustBrightness",
                "comfy_extras.nodes_dataset",
                "image/adjustments",
                json!({"search_aliases": ["brightness"], "experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let factor = inputs.float("factor")? as f32;
        changed(inputs.image("images")?, context, |sample| {
            (sample * factor).clamp(0.0, 1.0)
        })
    }
}

/// A picture with more or less contrast.
#[derive(Clone, Copy, Debug)]
pub struct AdjustContrast;

impl Node for AdjustContrast {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Adjust Contrast"),
            inputs: vec![
                link("images", "IMAGE"),
                float_input("factor", json!({"default": 1.0, "min": 0.0, "max": 2.0})),
            ],
            outputs: vec![named_output("IMAGE", "images")],
            ..latest(
                "AdjustContrast",
                "comfy_extras.nodes_dataset",
                "image/adjustments",
                json!({"search_aliases": ["contrast"], "experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let factor = inputs.float("factor")? as f32;
        changed(inputs.image("images")?, context, |sample| {
            ((sample - 0.5) * factor + 0.5).clamp(0.0, 1.0)
        })
    }
}

/// A picture whose levels have another mean and deviation.
#[derive(Clone, Copy, Debug)]
pub struct NormalizeImages;

impl Node for NormalizeImages {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Normalize Image Colors"),
            inputs: vec![
                link("images", "IMAGE"),
                float_input(
                    "mean",
                    json!({"advanced": true, "default": 0.5, "min": 0.0, "max": 1.0}),
                ),
                float_input(
                    "std",
                    json!({"advanced": true, "default": 0.5, "min": 0.001, "max": 1.0}),
                ),
            ],
            outputs: vec![named_output("IMAGE", "images")],
            ..latest(
                "NormalizeImages",
                "comfy_extras.nodes_dataset",
                "image/color",
                json!({"search_aliases": ["normalize", "normalize colors"], "experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (mean, deviation) = (inputs.float("mean")? as f32, inputs.float("std")? as f32);
        changed(inputs.image("images")?, context, |sample| {
            (sample - mean) / deviation
        })
    }
}

/// Changes every sample, in place where nobody else holds the frame.
fn changed(
    image: Image,
    context: &NodeContext,
    change: impl Fn(f32) -> f32,
) -> Result<NodeOutput, NodeError> {
    context.reserve(image.size_bytes())?;
    let image = image.map(|mut frame| {
        let samples = Arc::make_mut(&mut frame).data_mut();
        samples
            .iter_mut()
            .for_each(|sample| *sample = change(*sample));
        frame
    })?;
    Ok(image.into())
}

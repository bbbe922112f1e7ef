//! Pictures blended, blurred and sharpened.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{classic, float_input, int_input, link, modern, modern_combo, named, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::blend::{self, BlendMode};
use images::kernel::{blur, output_bytes, point};

/// A picture as its negative.
#[derive(Clone, Copy, Debug)]
pub struct ImageInvert;

impl Node for ImageInvert {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Invert Image"),
            inputs: vec![link("image", "IMAGE")],
            outputs: vec![output("IMAGE")],
            ..classic("ImageInvert", "nodes", "image")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes())?;
        Ok(point::invert(image)?.into())
    }
}

/// One picture blended over another.
#[derive(Clone, Copy, Debug)]
pub struct ImageBlend;

impl Node for ImageBlend {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image1", "IMAGE"),
                link("image2", "IMAGE"),
                float_input(
                    "blend_factor",
                    json!({"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
                ),
                modern_combo(
                    "blend_mode",
                    &[
                        "normal",
                        "multiply",
                        "screen",
                        "overlay",
                        "soft_light",
                        "difference",
                    ],
                    json!({}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern(
                "ImageBlend",
                "comfy_extras.nodes_post_processing",
                "image/postprocessing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (image1, image2) = (inputs.image("image1")?, inputs.image("image2")?);
        let mode = inputs.choice("blend_mode", |word| match word {
            "normal" => Some(BlendMode::Normal),
            "multiply" => Some(BlendMode::Multiply),
            "screen" => Some(BlendMode::Screen),
            "overlay" => Some(BlendMode::Overlay),
            "soft_light" => Some(BlendMode::SoftLight),
            "difference" => Some(BlendMode::Difference),
            _ => None,
        })?;
        let (height, width, channels) = image1.first().shape();
        // The second picture in the size of the first, and the result.
        let frames = image1.distinct().max(image2.distinct()) + image2.distinct();
        context.reserve(output_bytes(frames, height, width, channels))?;
        Ok(blend::blend(image1, image2, inputs.float("blend_factor")?, mode)?.into())
    }
}

/// A picture out of focus.
#[derive(Clone, Copy, Debug)]
pub struct ImageBlur;

impl Node for ImageBlur {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "blur_radius",
                    json!({"default": 1, "min": 1, "max": 31, "step": 1}),
                ),
                float_input(
                    "sigma",
                    json!({"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.1}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern(
                "ImageBlur",
                "comfy_extras.nodes_post_processing",
                "image/postprocessing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes())?;
        Ok(blur::blur(image, inputs.int("blur_radius")?, inputs.float("sigma")?)?.into())
    }
}

/// A picture with stronger edges.
#[derive(Clone, Copy, Debug)]
pub struct ImageSharpen;

impl Node for ImageSharpen {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "sharpen_radius",
                    json!({"default": 1, "min": 1, "max": 31, "step": 1}),
                ),
                float_input(
                    "sigma",
                    json!({"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.01}),
                ),
                float_input(
                    "alpha",
                    json!({"default": 1.0, "min": 0.0, "max": 5.0, "step": 0.01}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern(
                "ImageSharpen",
                "comfy_extras.nodes_post_processing",
                "image/postprocessing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes())?;
        let (radius, sigma) = (inputs.int("sharpen_radius")?, inputs.float("sigma")?);
        Ok(blur::sharpen(image, radius, sigma, inputs.float("alpha")?)?.into())
    }
}

//! Edges, shapes and planes of pictures.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{
    float_input, int_input, link, modern, modern_combo, named, named_output, output,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::canny;
use images::kernel::morphology::{self, Morphology as Operation};
use images::kernel::yuv::{self, Planes};

/// The edges of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Canny;

impl Node for Canny {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                float_input(
                    "low_threshold",
                    json!({"default": 0.4, "min": 0.01, "max": 0.99, "step": 0.01}),
                ),
                float_input(
                    "high_threshold",
                    json!({"default": 0.8, "min": 0.01, "max": 0.99, "step": 0.01}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern("Canny", "comfy_extras.nodes_canny", "image/preprocessors")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        // Grey, blurred, two slopes, and the result of three channels.
        let pixels = image.first().width() * image.first().height();
        context.reserve((image.distinct() as u64).saturating_mul(pixels as u64 * 4 * 8))?;
        let (low, high) = (
            inputs.float("low_threshold")?,
            inputs.float("high_threshold")?,
        );
        Ok(canny::canny(image, low, high)?.into())
    }
}

/// A picture eroded, dilated, or both.
#[derive(Clone, Copy, Debug)]
pub struct Morphology;

impl Node for Morphology {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("ImageMorphology"),
            inputs: vec![
                link("image", "IMAGE"),
                modern_combo(
                    "operation",
                    &[
                        "erode",
                        "dilate",
                        "open",
                        "close",
                        "gradient",
                        "bottom_hat",
                        "top_hat",
                    ],
                    json!({}),
                ),
                int_input(
                    "kernel_size",
                    json!({"default": 3, "min": 3, "max": 999, "step": 1}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern(
                "Morphology",
                "comfy_extras.nodes_morphology",
                "image/postprocessing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let operation = inputs.choice("operation", |word| match word {
            "erode" => Some(Operation::Erode),
            "dilate" => Some(Operation::Dilate),
            "open" => Some(Operation::Open),
            "close" => Some(Operation::Close),
            "gradient" => Some(Operation::Gradient),
            "bottom_hat" => Some(Operation::BottomHat),
            "top_hat" => Some(Operation::TopHat),
            _ => None,
        })?;
        context.reserve(image.size_bytes().saturating_mul(2))?;
        Ok(morphology::morphology(image, operation, inputs.int("kernel_size")?)?.into())
    }
}

/// Luma and the two colour differences of a picture.
#[derive(Clone, Copy, Debug)]
pub struct ImageRGBToYUV;

impl Node for ImageRGBToYUV {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![link("image", "IMAGE")],
            outputs: vec![
                named_output("IMAGE", "Y"),
                named_output("IMAGE", "U"),
                named_output("IMAGE", "V"),
            ],
            ..modern(
                "ImageRGBToYUV",
                "comfy_extras.nodes_morphology",
                "image/batch",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes().saturating_mul(3))?;
        let Planes { y, u, v } = yuv::rgb_to_yuv(&image)?;
        Ok(NodeOutput::of([y.into(), u.into(), v.into()]))
    }
}

/// A picture out of luma and the two colour differences.
#[derive(Clone, Copy, Debug)]
pub struct ImageYUVToRGB;

impl Node for ImageYUVToRGB {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![link("Y", "IMAGE"), link("U", "IMAGE"), link("V", "IMAGE")],
            outputs: vec![output("IMAGE")],
            ..modern(
                "ImageYUVToRGB",
                "comfy_extras.nodes_morphology",
                "image/batch",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let planes = Planes {
            y: inputs.image("Y")?,
            u: inputs.image("U")?,
            v: inputs.image("V")?,
        };
        context.reserve(
            planes
                .y
                .size_bytes()
                .max(planes.u.size_bytes())
                .max(planes.v.size_bytes()),
        )?;
        Ok(yuv::yuv_to_rgb(&planes)?.into())
    }
}

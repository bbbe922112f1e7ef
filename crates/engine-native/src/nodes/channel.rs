//! Between pictures and masks.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{classic, int_input, link, listed_combo, modern, named, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::KernelError;
use images::kernel::channel::{self, Channel};

/// A mask as a grey picture.
#[derive(Clone, Copy, Debug)]
pub struct MaskToImage;

impl Node for MaskToImage {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Convert Mask to Image"),
            inputs: vec![link("mask", "MASK")],
            outputs: vec![output("IMAGE")],
            ..classic("MaskToImage", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        context.reserve(mask.size_bytes().saturating_mul(3))?;
        Ok(channel::mask_to_image(mask)?.into())
    }
}

/// One channel of a picture, as a mask.
#[derive(Clone, Copy, Debug)]
pub struct ImageToMask;

impl Node for ImageToMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Convert Image to Mask"),
            inputs: vec![
                link("image", "IMAGE"),
                listed_combo("channel", &["red", "green", "blue", "alpha"], json!({})),
            ],
            outputs: vec![output("MASK")],
            ..classic("ImageToMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let channel = inputs.choice("channel", |word| match word {
            "red" => Some(Channel::Red),
            "green" => Some(Channel::Green),
            "blue" => Some(Channel::Blue),
            "alpha" => Some(Channel::Alpha),
            _ => None,
        })?;
        if channel == Channel::Alpha && image.first().channels() < 4 {
            let message = "the picture has no alpha; choose red, green or blue";
            return Err(NodeError::new("IndexError", message));
        }
        context.reserve(image.size_bytes())?;
        let made = channel::image_to_mask(image, channel);
        // As in Python, where a channel is an index of the picture.
        let failed = |error: KernelError| match matches!(error, KernelError::MissingChannels { .. })
        {
            true => NodeError::new("IndexError", error.to_string()),
            false => error.into(),
        };
        Ok(made.map_err(failed)?.into())
    }
}

/// Where a picture has a colour, as a mask.
#[derive(Clone, Copy, Debug)]
pub struct ImageColorToMask;

impl Node for ImageColorToMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "color",
                    json!({"default": 0, "min": 0, "max": 16777215, "step": 1, "display": "color"}),
                ),
            ],
            outputs: vec![output("MASK")],
            ..classic("ImageColorToMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes())?;
        // What is no colour is nowhere in a picture.
        let color = inputs.int("color").unwrap_or(u32::MAX);
        Ok(channel::color_to_mask(image, color)?.into())
    }
}

/// A picture without its alpha, and its alpha as a mask.
#[derive(Clone, Copy, Debug)]
pub struct SplitImageWithAlpha;

impl Node for SplitImageWithAlpha {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Split Image with Alpha"),
            inputs: vec![link("image", "IMAGE")],
            outputs: vec![output("IMAGE"), output("MASK")],
            ..modern(
                "SplitImageWithAlpha",
                "comfy_extras.nodes_compositing",
                "mask/compositing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes().saturating_mul(2))?;
        let (image, mask) = channel::split_alpha(image)?;
        Ok(NodeOutput::of([image.into(), mask.into()]))
    }
}

/// A picture with a mask as its alpha.
#[derive(Clone, Copy, Debug)]
pub struct JoinImageWithAlpha;

impl Node for JoinImageWithAlpha {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Join Image with Alpha"),
            inputs: vec![link("image", "IMAGE"), link("alpha", "MASK")],
            outputs: vec![output("IMAGE")],
            ..modern(
                "JoinImageWithAlpha",
                "comfy_extras.nodes_compositing",
                "mask/compositing",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (image, alpha) = (inputs.image("image")?, inputs.mask("alpha")?);
        context.reserve(image.size_bytes().saturating_mul(2))?;
        Ok(channel::join_alpha(image, alpha)?.into())
    }
}

//! Pictures cut, turned and mirrored.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::slices::span;
use crate::define::{classic, int_input, link, listed_combo, named, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::transform::{self, Flip, Rotation};

/// A rectangle of a picture.
#[derive(Clone, Copy, Debug)]
pub struct ImageCrop;

impl Node for ImageCrop {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Image Crop"),
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "width",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input(
                    "height",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input(
                    "x",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "y",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageCrop", "comfy_extras.nodes_images", "image/transform")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        context.reserve(image.size_bytes())?;
        let (height, width, _) = image.first().shape();
        let from = |name: &str, own: usize| {
            let place: i128 = inputs.int(name)?;
            Ok::<_, NodeError>(place.min(own as i128 - 1))
        };
        let (x, width) = span(from("x", width)?, inputs.int("width")?, width);
        let (y, height) = span(from("y", height)?, inputs.int("height")?, height);
        Ok(transform::crop(image, width, height, x, y)?.into())
    }
}

/// A picture turned clockwise.
#[derive(Clone, Copy, Debug)]
pub struct ImageRotate;

impl Node for ImageRotate {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                listed_combo(
                    "rotation",
                    &["none", "90 degrees", "180 degrees", "270 degrees"],
                    json!({}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic(
                "ImageRotate",
                "comfy_extras.nodes_images",
                "image/transform",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let rotation = inputs.choice("rotation", |word| match word {
            "none" => Some(Rotation::None),
            "90 degrees" => Some(Rotation::Quarter),
            "180 degrees" => Some(Rotation::Half),
            "270 degrees" => Some(Rotation::ThreeQuarters),
            _ => None,
        })?;
        context.reserve(image.size_bytes())?;
        Ok(transform::rotate(image, rotation)?.into())
    }
}

/// A picture mirrored.
#[derive(Clone, Copy, Debug)]
pub struct ImageFlip;

impl Node for ImageFlip {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                listed_combo(
                    "flip_method",
                    &["x-axis: vertically", "y-axis: horizontally"],
                    json!({}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageFlip", "comfy_extras.nodes_images", "image/transform")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let direction = inputs.choice("flip_method", |word| match word {
            "x-axis: vertically" => Some(Flip::Vertical),
            "y-axis: horizontally" => Some(Flip::Horizontal),
            _ => None,
        })?;
        context.reserve(image.size_bytes())?;
        Ok(transform::flip(image, direction)?.into())
    }
}

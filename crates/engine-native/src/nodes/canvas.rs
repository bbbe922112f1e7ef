//! Pictures put beside each other or on a larger canvas.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::scale::method;
use crate::define::{
    boolean_input, classic, int_input, link, listed_combo, named, optional, output,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::Image;
use images::kernel::output_bytes;
use images::kernel::pad::{self, Margins};
use images::kernel::stitch::{self, Direction, SpacingColor, Stitch};

/// Two pictures side by side.
#[derive(Clone, Copy, Debug)]
pub struct ImageStitch;

impl Node for ImageStitch {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Image Stitch"),
            description: "\nStitches image2 to image1 in the specified direction.\nIf image2 is \
                    not provided, returns image1 unchanged.\nOptional spacing can be added \
                    between images.\n"
                .to_owned(),
            inputs: vec![
                link("image1", "IMAGE"),
                listed_combo(
                    "direction",
                    &["right", "down", "left", "up"],
                    json!({"default": "right"}),
                ),
                boolean_input("match_image_size", json!({"default": true})),
                int_input(
                    "spacing_width",
                    json!({"default": 0, "min": 0, "max": 1024, "step": 2}),
                ),
                listed_combo(
                    "spacing_color",
                    &["white", "black", "red", "green", "blue"],
                    json!({"default": "white"}),
                ),
                optional(link("image2", "IMAGE")),
            ],
            outputs: vec![output("IMAGE")],
            ..classic(
                "ImageStitch",
                "comfy_extras.nodes_images",
                "image/transform",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image1 = inputs.image("image1")?;
        if !inputs.has("image2") {
            return Ok(image1.into());
        }
        let image2 = inputs.image("image2")?;
        let options = Stitch {
            direction: inputs.choice("direction", |word| match word {
                "right" => Some(Direction::Right),
                "down" => Some(Direction::Down),
                "left" => Some(Direction::Left),
                "up" => Some(Direction::Up),
                _ => None,
            })?,
            match_image_size: inputs.boolean("match_image_size")?,
            spacing_width: inputs.count("spacing_width")?,
            spacing_color: inputs.choice("spacing_color", |word| match word {
                "white" => Some(SpacingColor::White),
                "black" => Some(SpacingColor::Black),
                "red" => Some(SpacingColor::Red),
                "green" => Some(SpacingColor::Green),
                "blue" => Some(SpacingColor::Blue),
                _ => None,
            })?,
        };
        context.reserve(stitched_bytes(&image1, &image2, &options))?;
        Ok(stitch::stitch(image1, image2, options)?.into())
    }
}

/// A picture fitted into a canvas.
#[derive(Clone, Copy, Debug)]
pub struct ResizeAndPadImage;

impl Node for ResizeAndPadImage {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "target_width",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input(
                    "target_height",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                listed_combo("padding_color", &["white", "black"], json!({})),
                listed_combo(
                    "interpolation",
                    &["area", "bicubic", "nearest-exact", "bilinear", "lanczos"],
                    json!({}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic(
                "ResizeAndPadImage",
                "comfy_extras.nodes_images",
                "image/transform",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let background = inputs.choice("padding_color", |word| match word {
            "white" => Some(1.0),
            "black" => Some(0.0),
            _ => None,
        })?;
        let method = inputs.choice("interpolation", method)?;
        let (width, height) = (inputs.int("target_width")?, inputs.int("target_height")?);
        // The fitted picture, and the canvas with it.
        let canvas = output_bytes(image.distinct(), height, width, image.first().channels());
        context.reserve(canvas.saturating_mul(2))?;
        Ok(pad::resize_and_pad(image, width, height, background, method)?.into())
    }
}

/// A picture with room around it, and the mask of the room.
#[derive(Clone, Copy, Debug)]
pub struct ImagePadForOutpaint;

impl Node for ImagePadForOutpaint {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Pad Image for Outpainting"),
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "left",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 8}),
                ),
                int_input(
                    "top",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 8}),
                ),
                int_input(
                    "right",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 8}),
                ),
                int_input(
                    "bottom",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 8}),
                ),
                int_input(
                    "feathering",
                    json!({"default": 40, "min": 0, "max": 16384, "step": 1}),
                ),
            ],
            outputs: vec![output("IMAGE"), output("MASK")],
            ..classic("ImagePadForOutpaint", "nodes", "image")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let margins = Margins {
            left: inputs.int("left")?,
            top: inputs.int("top")?,
            right: inputs.int("right")?,
            bottom: inputs.int("bottom")?,
        };
        let (height, width) = margins.around(image.first().height(), image.first().width());
        context.reserve(output_bytes(
            image.distinct(),
            height,
            width,
            image.first().channels() + 1,
        ))?;
        let (image, mask) = pad::pad_for_outpaint(image, margins, inputs.count("feathering")?)?;
        Ok(NodeOutput::of([image.into(), mask.into()]))
    }
}

/// At most the bytes of the stitched batch and of the second picture brought to the size of the first.
fn stitched_bytes(image1: &Image, image2: &Image, options: &Stitch) -> u64 {
    let (first, second) = (image1.first(), image2.first());
    let channels = first.channels().max(second.channels());
    let frames = image1.frames().len().max(image2.frames().len());
    let spacing = options.spacing_width.saturating_add(1);
    let is_row = matches!(options.direction, Direction::Left | Direction::Right);
    let (mut width, mut height) = (second.width(), second.height());
    if options.match_image_size && is_row {
        (width, height) = (
            width.saturating_mul(first.height()) / height.max(1),
            first.height(),
        );
    } else if options.match_image_size {
        (width, height) = (
            first.width(),
            height.saturating_mul(first.width()) / width.max(1),
        );
    }
    let (whole_width, whole_height) = match is_row {
        true => (
            first.width().saturating_add(spacing).saturating_add(width),
            first.height().max(height),
        ),
        false => (
            first.width().max(width),
            first
                .height()
                .saturating_add(spacing)
                .saturating_add(height),
        ),
    };
    output_bytes(frames, whole_height, whole_width, channels).saturating_add(output_bytes(
        image2.distinct(),
        height,
        width,
        channels,
    ))
}

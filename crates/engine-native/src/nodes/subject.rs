//! What a mask shows of a picture, cut out and centred.

use std::sync::Arc;

use serde_json::json;
use workflow_core::NodeDefinition;

use super::painter::color;
use crate::define::{float_input, int_input, latest, link, named, named_output, widget};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::Image;
use images::kernel::scale::resize_mask;
use images::kernel::subject::{self, Framing};
use images::kernel::{KernelError, output_bytes};

/// The part of a picture that a mask shows, over one colour.
#[derive(Clone, Copy, Debug)]
pub struct ImageCropToMask;

impl Node for ImageCropToMask {
    fn definition(&self) -> NodeDefinition {
        let side = |name| {
            int_input(
                name,
                json!({"default": 1024, "min": 64, "max": 4096, "step": 8}),
            )
        };
        NodeDefinition {
            display_name: named("Crop Image to Mask"),
            inputs: vec![
                link("images", "IMAGE"),
                link("masks", "MASK"),
                side("width"),
                side("height"),
                float_input(
                    "pad_factor",
                    json!({"default": 1.0, "min": 1.0, "max": 2.0, "step": 0.01}),
                ),
                int_input(
                    "grow_mask",
                    json!({"default": 0, "min": -32, "max": 32, "step": 1}),
                ),
                widget(
                    "background",
                    "COLOR",
                    json!({"default": "#000000", "socketless": true}),
                ),
            ],
            outputs: vec![named_output("IMAGE", "images")],
            ..latest(
                "ImageCropToMask",
                "comfy_extras.nodes_images",
                "image/transform",
                json!({"search_aliases": ["crop to mask", "mask crop", "crop mask", "mask crop resize", "crop mask resize", "trellis2", "pixal3d"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (images, mut masks) = (inputs.image("images")?, inputs.mask("masks")?);
        let framing = Framing {
            width: inputs.int("width")?,
            height: inputs.int("height")?,
            margin: inputs.float("pad_factor")?,
            grow: inputs.int("grow_mask")?,
            background: color(inputs.text("background")?)?,
        };
        if framing.width == 0 || framing.height == 0 {
            return Err(NodeError::value("the result must have at least 1x1 pixels"));
        }
        let (height, width, _) = images.first().shape();
        // The picture, its mask, and what they become on the way.
        let count = images.frames().len();
        context.reserve(output_bytes(2, height, width, 3 + 3))?;
        context.reserve(output_bytes(count, framing.height, framing.width, 3))?;
        if (masks.first().width(), masks.first().height()) != (width, height) {
            context.reserve(output_bytes(masks.distinct(), height, width, 1))?;
            masks = resize_mask(masks, width, height)?;
        }
        let masks = match masks.frames() {
            [one] => vec![Arc::clone(one); count],
            all if all.len() == count => all.to_vec(),
            all => return Err(KernelError::BatchMismatch(count, all.len()).into()),
        };
        let mut largest = 0;
        let mut shown = Vec::with_capacity(count);
        for (image, mask) in images.frames().iter().zip(&masks) {
            context.check()?;
            let subject = subject::find(image, mask, &framing)?;
            let needed = output_bytes(1, subject.height, subject.width, 3);
            context.reserve(needed.saturating_sub(largest))?;
            largest = largest.max(needed);
            shown.push(subject.shown(&framing)?);
        }
        Ok(Image::new(shown)?.into())
    }
}

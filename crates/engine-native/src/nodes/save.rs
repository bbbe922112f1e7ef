//! Pictures into files: encoded and committed one after the other, so that a batch is never in memory as files.

mod prefix;

use std::sync::Arc;

use rayon::prelude::*;
use serde_json::json;
use workflow_core::{NodeDefinition, OutputKind, Socket};

use crate::define::{classic, hands_on, input, link, metadata, named, string_input};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile};
use images::codec;
use images::kernel::channel;
use images::parallel::{spread, threads};
use images::{Frame, Image};
pub(super) use prefix::Prefix;

/// Pictures into PNG files.
#[derive(Clone, Copy, Debug)]
pub struct SaveImage;

impl Node for SaveImage {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                display_name: named("Save Image"),
                description: "Saves the input images to your ComfyUI output directory.".to_owned(),
                inputs: vec![
                    input(
                        "images",
                        Socket::Link("IMAGE".to_owned()),
                        json!({"tooltip": "The images to save."}),
                    ),
                    string_input(
                        "filename_prefix",
                        json!({
                            "default": "ComfyUI",
                            "tooltip": "The prefix for the file to save. This may include formatting information \
                        such as %date:yyyy-MM-dd% or %Empty Latent Image.width% to include values \
                        from nodes.",
                        }),
                    ),
                ],
                hidden: metadata(),
                output_node: true,
                ..classic("SaveImage", "nodes", "image")
            },
            "IMAGE",
            "images",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("images")?;
        let prefix = Prefix::of(
            inputs.text("filename_prefix")?,
            image.first().width(),
            image.first().height(),
        )?;
        emit_png(&image, &prefix, false, "images", context)?;
        Ok(image.into())
    }
}

/// Pictures to look at.
#[derive(Clone, Copy, Debug)]
pub struct PreviewImage;

impl Node for PreviewImage {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                display_name: named("Preview Image"),
                description: "Saves the input images to your ComfyUI output directory.".to_owned(),
                inputs: vec![link("images", "IMAGE")],
                hidden: metadata(),
                output_node: true,
                ..classic("PreviewImage", "nodes", "image")
            },
            "IMAGE",
            "images",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("images")?;
        emit_png(&image, &Prefix::temp(context), true, "images", context)?;
        Ok(image.into())
    }
}

/// Masks to look at.
#[derive(Clone, Copy, Debug)]
pub struct MaskPreview;

impl Node for MaskPreview {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                description: "Saves the input images to your ComfyUI output directory.".to_owned(),
                inputs: vec![link("mask", "MASK")],
                hidden: metadata(),
                output_node: true,
                ..classic("MaskPreview", "comfy_extras.nodes_mask", "mask")
            },
            "MASK",
            "mask",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        let image = channel::mask_to_image(mask.clone())?;
        emit_png(&image, &Prefix::temp(context), true, "images", context)?;
        Ok(mask.into())
    }
}

/// Encodes a batch, as many pictures at a time as there are threads, and emits them in order, shown under `list`.
pub(super) fn emit_png(
    image: &Image,
    prefix: &Prefix,
    temp: bool,
    list: &'static str,
    context: &NodeContext,
) -> Result<(), NodeError> {
    let metadata = context.metadata();
    let together = threads();
    for (batch, frames) in image.frames().chunks(together).enumerate() {
        context.check()?;
        let encode = |frame: &Arc<Frame>| codec::encode_png(frame, &metadata);
        let encoded: Result<Vec<_>, _> = match frames {
            [frame] => encode(frame).map(|png| vec![png]),
            frames => spread(|| frames.par_iter().map(encode).collect()),
        };
        for (at, png) in encoded?.into_iter().enumerate() {
            context.emit(OutputFile {
                kind: OutputKind::Image,
                temp,
                name: prefix.name(batch * together + at, "png"),
                content_type: "image/png",
                bytes: png.into(),
                shown_under: Some(list),
            })?;
        }
    }
    Ok(())
}

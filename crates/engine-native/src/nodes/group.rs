//! Batches of as many pictures or masks as are linked.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{autogrow, latest, link, named, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::{batch, output_bytes};

/// Pictures in one batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchImagesNode;

impl Node for BatchImagesNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Batch Images"),
            inputs: vec![autogrow("images", link("image", "IMAGE"), "image", 1, 50)],
            outputs: vec![output("IMAGE")],
            ..latest(
                "BatchImagesNode",
                "comfy_extras.nodes_post_processing",
                "image/batch",
                json!({"search_aliases": ["batch", "image batch", "batch images", "combine images", "merge images", "stack images"], "essentials_category": "Image Tools"}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut images = Vec::new();
        for name in inputs.group("images") {
            images.push(inputs.image(&name)?);
        }
        let first = images.first().map(images::Image::first);
        let (height, width, _) = first.map_or((0, 0, 0), images::Frame::shape);
        let channels = images.iter().map(|image| image.first().channels());
        let channels = channels.max().unwrap_or(0);
        let frames = images.iter().map(images::Image::distinct).sum();
        context.reserve(output_bytes(frames, height, width, channels))?;
        Ok(batch::join_all(images)?.into())
    }
}

/// Masks in one batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchMasksNode;

impl Node for BatchMasksNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Batch Masks"),
            inputs: vec![autogrow("masks", link("mask", "MASK"), "mask", 1, 50)],
            outputs: vec![output("MASK")],
            ..latest(
                "BatchMasksNode",
                "comfy_extras.nodes_post_processing",
                "image/mask",
                json!({"search_aliases": ["combine masks", "stack masks", "merge masks"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut masks = Vec::new();
        for name in inputs.group("masks") {
            masks.push(inputs.mask(&name)?);
        }
        let first = masks.first().map(images::Mask::first);
        let (height, width, _) = first.map_or((0, 0, 0), images::Frame::shape);
        let frames = masks.iter().map(images::Mask::distinct).sum();
        context.reserve(output_bytes(frames, height, width, 1))?;
        Ok(batch::join_masks(masks)?.into())
    }
}

//! Masks cut, combined and shaped.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::slices::span;
use crate::define::{boolean_input, classic, float_input, int_input, link, listed_combo, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::mask::{self, MaskOperation};
use images::kernel::point;

/// A mask as its negative.
#[derive(Clone, Copy, Debug)]
pub struct InvertMask;

impl Node for InvertMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![link("mask", "MASK")],
            outputs: vec![output("MASK")],
            ..classic("InvertMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        context.reserve(mask.size_bytes())?;
        Ok(point::invert_mask(mask)?.into())
    }
}

/// A rectangle of a mask.
#[derive(Clone, Copy, Debug)]
pub struct CropMask;

impl Node for CropMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("mask", "MASK"),
                int_input(
                    "x",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "y",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "width",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
                int_input(
                    "height",
                    json!({"default": 512, "min": 1, "max": 16384, "step": 1}),
                ),
            ],
            outputs: vec![output("MASK")],
            ..classic("CropMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        context.reserve(mask.size_bytes())?;
        let (height, width, _) = mask.first().shape();
        let (x, width) = span(inputs.int("x")?, inputs.int("width")?, width);
        let (y, height) = span(inputs.int("y")?, inputs.int("height")?, height);
        Ok(mask::crop(mask, x, y, width, height)?.into())
    }
}

/// One mask combined with another.
#[derive(Clone, Copy, Debug)]
pub struct MaskComposite;

impl Node for MaskComposite {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("destination", "MASK"),
                link("source", "MASK"),
                int_input(
                    "x",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "y",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                listed_combo(
                    "operation",
                    &["multiply", "add", "subtract", "and", "or", "xor"],
                    json!({}),
                ),
            ],
            outputs: vec![output("MASK")],
            ..classic("MaskComposite", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (destination, source) = (inputs.mask("destination")?, inputs.mask("source")?);
        let operation = inputs.choice("operation", |word| match word {
            "multiply" => Some(MaskOperation::Multiply),
            "add" => Some(MaskOperation::Add),
            "subtract" => Some(MaskOperation::Subtract),
            "and" => Some(MaskOperation::And),
            "or" => Some(MaskOperation::Or),
            "xor" => Some(MaskOperation::Xor),
            _ => None,
        })?;
        context.reserve(
            destination
                .size_bytes()
                .saturating_mul(source.distinct() as u64),
        )?;
        let (x, y) = (inputs.int("x")?, inputs.int("y")?);
        Ok(mask::composite(destination, source, x, y, operation)?.into())
    }
}

/// A mask with soft sides.
#[derive(Clone, Copy, Debug)]
pub struct FeatherMask;

impl Node for FeatherMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("mask", "MASK"),
                int_input(
                    "left",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "top",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "right",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "bottom",
                    json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
                ),
            ],
            outputs: vec![output("MASK")],
            ..classic("FeatherMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        context.reserve(mask.size_bytes())?;
        let (left, top) = (inputs.count("left")?, inputs.count("top")?);
        Ok(mask::feather(
            mask,
            left,
            top,
            inputs.count("right")?,
            inputs.count("bottom")?,
        )?
        .into())
    }
}

/// A mask grown or shrunk.
#[derive(Clone, Copy, Debug)]
pub struct GrowMask;

impl Node for GrowMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("mask", "MASK"),
                int_input(
                    "expand",
                    json!({"default": 0, "min": -16384, "max": 16384, "step": 1}),
                ),
                boolean_input("tapered_corners", json!({"default": true})),
            ],
            outputs: vec![output("MASK")],
            ..classic("GrowMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        context.reserve(mask.size_bytes().saturating_mul(2))?;
        Ok(mask::grow(
            mask,
            inputs.int("expand")?,
            inputs.boolean("tapered_corners")?,
        )?
        .into())
    }
}

/// A mask of 0 and 1.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdMask;

impl Node for ThresholdMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("mask", "MASK"),
                float_input(
                    "value",
                    json!({"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
                ),
            ],
            outputs: vec![output("MASK")],
            ..classic("ThresholdMask", "comfy_extras.nodes_mask", "mask")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mask = inputs.mask("mask")?;
        context.reserve(mask.size_bytes())?;
        Ok(point::threshold(mask, inputs.float("value")?)?.into())
    }
}

//! Batches joined, taken apart and repeated.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::slices::span;
use crate::define::{classic, int_input, link, list_output, modern, named, output};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Slot, Value};
use images::Image;
use images::kernel::{batch, output_bytes};

/// Two batches in one.
#[derive(Clone, Copy, Debug)]
pub struct ImageBatch;

impl Node for ImageBatch {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Batch Images"),
            inputs: vec![link("image1", "IMAGE"), link("image2", "IMAGE")],
            outputs: vec![output("IMAGE")],
            ..classic("ImageBatch", "nodes", "image")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (image1, image2) = (inputs.image("image1")?, inputs.image("image2")?);
        let (height, width, channels) = image1.first().shape();
        let added = output_bytes(
            image2.distinct(),
            height,
            width,
            channels.max(image2.first().channels()),
        );
        context.reserve(added)?;
        Ok(batch::join(image1, image2)?.into())
    }
}

/// Some pictures of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ImageFromBatch;

impl Node for ImageFromBatch {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input("batch_index", json!({"default": 0, "min": 0, "max": 4095})),
                int_input("length", json!({"default": 1, "min": 1, "max": 4096})),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageFromBatch", "comfy_extras.nodes_images", "image/batch")
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let count = image.frames().len();
        let index: i128 = inputs.int("batch_index")?;
        // One below 0 counts from the end; beyond the batch it is brought into it.
        let index = match index < 0 {
            true => index.saturating_add(count as i128).max(0),
            false => index.min(count as i128 - 1),
        };
        let (index, length) = span(index, inputs.int("length")?, count);
        Ok(batch::take(&image, index, length)?.into())
    }
}

/// A batch several times.
#[derive(Clone, Copy, Debug)]
pub struct RepeatImageBatch;

impl Node for RepeatImageBatch {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                int_input("amount", json!({"default": 1, "min": 1, "max": 4096})),
            ],
            outputs: vec![output("IMAGE")],
            ..classic(
                "RepeatImageBatch",
                "comfy_extras.nodes_images",
                "image/batch",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let amount: usize = inputs.int("amount")?;
        // The frames stay shared, but a batch of batches of batches is long.
        let references = image
            .frames()
            .len()
            .saturating_mul(amount)
            .saturating_mul(size_of::<usize>());
        context.reserve(references as u64)?;
        Ok(batch::repeat(&image, amount)?.into())
    }
}

/// All pictures of a list, in batches of one size.
#[derive(Clone, Copy, Debug)]
pub struct RebatchImages;

impl Node for RebatchImages {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Rebatch Images"),
            inputs: vec![
                link("images", "IMAGE"),
                int_input("batch_size", json!({"default": 1, "min": 1, "max": 4096})),
            ],
            outputs: vec![list_output("IMAGE")],
            takes_lists: true,
            ..modern("RebatchImages", "comfy_extras.nodes_rebatch", "image/batch")
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let sizes = inputs.list("batch_size")?;
        let Some(&Value::Int(size)) = sizes.first() else {
            return Err(NodeError::value("the batch size must be a whole number"));
        };
        let images = images(inputs.list("images")?)?;
        // Counting down to the end of the list, Python gets nowhere.
        let batches = match usize::try_from(size) {
            Ok(0) => return Err(NodeError::value("the batch size must not be 0")),
            Ok(size) => batch::rebatch(&images, size)?,
            Err(_) if size < 0 => Vec::new(),
            Err(_) => batch::rebatch(&images, usize::MAX)?,
        };
        let batches = batches.into_iter().map(Value::Image);
        Ok(NodeOutput {
            slots: vec![Slot::List(batches.collect())],
            ..NodeOutput::none()
        })
    }
}

/// The pictures of a list.
pub(super) fn images(values: Vec<Value>) -> Result<Vec<Image>, NodeError> {
    let image = |value| match value {
        Value::Image(image) => Ok(image),
        Value::Mask(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Boolean(_)
        | Value::Json(_)
        | Value::File(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => Err(NodeError::value(
            "the list holds something that is no picture",
        )),
    };
    values.into_iter().map(image).collect()
}

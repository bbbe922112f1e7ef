//! Pictures out of the account's files.

use bytes::Bytes;
use serde_json::json;
use workflow_core::{FileSource, NodeDefinition};

use crate::define::{
    boolean_input, classic, experimental, file_input, int_input, listed_combo, named, output,
};
use crate::{Changed, Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::codec::{self, Limits};

/// A picture and its mask, out of an upload.
#[derive(Clone, Copy, Debug)]
pub struct LoadImage;

impl Node for LoadImage {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Load Image"),
            inputs: vec![file_input(
                "image",
                FileSource::Input,
                true,
                json!({"image_upload": true}),
            )],
            outputs: vec![output("IMAGE"), output("MASK")],
            ..classic("LoadImage", "nodes", "image")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        load(&inputs, context)
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        changed_with_file(constants)
    }
}

/// A picture and its mask, out of an output of an earlier job.
#[derive(Clone, Copy, Debug)]
pub struct LoadImageOutput;

impl Node for LoadImageOutput {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Load Image (from Outputs)"),
            description: "Load an image from the output folder. When the refresh button is \
                    clicked, the node will update the image list and automatically select the \
                    first image, allowing for easy iteration."
                .to_owned(),
            inputs: vec![file_input(
                "image",
                FileSource::Output,
                false,
                json!({
                    "image_upload": true,
                    "image_folder": "output",
                    "remote": {"route": "/internal/files/output", "refresh_button": true, "control_after_refresh": "first"},
                }),
            )],
            outputs: vec![output("IMAGE"), output("MASK")],
            extra: experimental(),
            ..classic("LoadImageOutput", "nodes", "image")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        load(&inputs, context)
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        changed_with_file(constants)
    }
}

/// One channel of a picture, as a mask.
#[derive(Clone, Copy, Debug)]
pub struct LoadImageMask;

impl Node for LoadImageMask {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Load Image (as Mask)"),
            inputs: vec![
                file_input(
                    "image",
                    FileSource::Input,
                    true,
                    json!({"image_upload": true}),
                ),
                listed_combo("channel", &["alpha", "red", "green", "blue"], json!({})),
            ],
            outputs: vec![output("MASK")],
            ..classic("LoadImageMask", "nodes", "mask")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let channel = inputs.choice("channel", |word| match word {
            "alpha" => Some(codec::Channel::Alpha),
            "red" => Some(codec::Channel::Red),
            "green" => Some(codec::Channel::Green),
            "blue" => Some(codec::Channel::Blue),
            _ => None,
        })?;
        let (bytes, limits) = read(&inputs, context)?;
        let mask = codec::decode_channel(&bytes, channel, &limits)?;
        Ok(mask.into())
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        changed_with_file(constants)
    }
}

/// A picture that the page took with the camera.
#[derive(Clone, Copy, Debug)]
pub struct WebcamCapture;

impl Node for WebcamCapture {
    fn definition(&self) -> NodeDefinition {
        // The page takes the picture in this size; here it comes as it is.
        let side = |name| {
            int_input(
                name,
                json!({"default": 0, "min": 0, "max": 16384, "step": 1}),
            )
        };
        NodeDefinition {
            display_name: named("Webcam Capture"),
            inputs: vec![
                file_input("image", FileSource::Capture, false, json!({})),
                side("width"),
                side("height"),
                boolean_input("capture_on_queue", json!({"default": true})),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("WebcamCapture", "comfy_extras.nodes_webcam", "image")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (bytes, limits) = read(&inputs, context)?;
        Ok(codec::decode(&bytes, &limits)?.image.into())
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        changed_with_file(constants)
    }
}

fn load(inputs: &Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (bytes, limits) = read(inputs, context)?;
    let decoded = codec::decode(&bytes, &limits)?;
    Ok(NodeOutput::of([decoded.image.into(), decoded.mask.into()]))
}

/// The SHA-256 of the bytes, which pictures made of the file carry in their metadata.
fn changed_with_file(constants: &Inputs) -> Result<Changed, NodeError> {
    Ok(Changed::Key(constants.file("image")?.sha256()?.into()))
}

/// The file, and the limits within which it is decoded.
fn read(inputs: &Inputs, context: &NodeContext) -> Result<(Bytes, Limits), NodeError> {
    let file = inputs.file("image")?;
    context.reserve(file.size_bytes())?;
    let bytes = file.read()?;
    let limits = context.limits_of(&bytes)?;
    Ok((bytes, limits))
}

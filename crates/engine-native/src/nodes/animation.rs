//! Batches into one animated file.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{
    boolean_input, classic, float_input, hands_on, int_input, link, listed_combo, metadata,
    string_input,
};
use workflow_core::OutputKind;

use super::save::Prefix;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile};
use images::Image;
use images::codec::{self, WebpOptions};

/// A batch into an animated WebP file.
#[derive(Clone, Copy, Debug)]
pub struct SaveAnimatedWEBP;

impl Node for SaveAnimatedWEBP {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                inputs: vec![
                    link("images", "IMAGE"),
                    string_input("filename_prefix", json!({"default": "ComfyUI"})),
                    float_input(
                        "fps",
                        json!({"default": 6.0, "min": 0.01, "max": 1000.0, "step": 0.01}),
                    ),
                    boolean_input("lossless", json!({"default": true})),
                    int_input("quality", json!({"default": 80, "min": 0, "max": 100})),
                    listed_combo("method", &["default", "fastest", "slowest"], json!({})),
                ],
                hidden: metadata(),
                output_node: true,
                ..classic(
                    "SaveAnimatedWEBP",
                    "comfy_extras.nodes_images",
                    "image/animation",
                )
            },
            "IMAGE",
            "images",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("images")?;
        let options = WebpOptions {
            fps: inputs.float("fps")?,
            lossless: inputs.boolean("lossless")?,
            quality: inputs.int("quality")?,
            method: inputs.choice("method", |word| match word {
                "default" => Some(4),
                "fastest" => Some(0),
                "slowest" => Some(6),
                _ => None,
            })?,
        };
        context.reserve(image.size_bytes())?;
        let webp = codec::encode_webp(image.frames(), &options, &context.metadata())?;
        let is_animated = image.frames().len() != 1;
        save(
            &inputs,
            image,
            webp,
            ("webp", "image/webp"),
            is_animated,
            context,
        )
    }
}

/// A batch into an animated PNG file.
#[derive(Clone, Copy, Debug)]
pub struct SaveAnimatedPNG;

impl Node for SaveAnimatedPNG {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                inputs: vec![
                    link("images", "IMAGE"),
                    string_input("filename_prefix", json!({"default": "ComfyUI"})),
                    float_input(
                        "fps",
                        json!({"default": 6.0, "min": 0.01, "max": 1000.0, "step": 0.01}),
                    ),
                    int_input("compress_level", json!({"default": 4, "min": 0, "max": 9})),
                ],
                hidden: metadata(),
                output_node: true,
                ..classic(
                    "SaveAnimatedPNG",
                    "comfy_extras.nodes_images",
                    "image/animation",
                )
            },
            "IMAGE",
            "images",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("images")?;
        context.reserve(image.size_bytes())?;
        let (fps, level) = (inputs.float("fps")?, inputs.int("compress_level")?);
        let png = codec::encode_apng(image.frames(), fps, level, &context.metadata())?;
        save(&inputs, image, png, ("png", "image/png"), true, context)
    }
}

fn save(
    inputs: &Inputs,
    image: Image,
    file: Vec<u8>,
    (extension, content_type): (&str, &'static str),
    is_animated: bool,
    context: &NodeContext,
) -> Result<NodeOutput, NodeError> {
    let prefix = Prefix::of(
        inputs.text("filename_prefix")?,
        image.first().width(),
        image.first().height(),
    )?;
    context.emit(OutputFile {
        kind: OutputKind::Image,
        temp: false,
        name: prefix.whole_batch(extension),
        content_type,
        bytes: file.into(),
        shown_under: Some("images"),
    })?;
    let ui = [("animated".to_owned(), json!([is_animated]))]
        .into_iter()
        .collect();
    Ok(NodeOutput {
        ui,
        ..NodeOutput::from(image)
    })
}

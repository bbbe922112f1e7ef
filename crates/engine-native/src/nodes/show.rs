//! Values told to people: texts of any value, sizes of pictures, pictures without files.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{classic, core, hidden, link, named, named_output, output};
use workflow_core::{OutputKind, OutputName};

use crate::python_json::python_json;
use crate::{Changed, Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile, Value};
use images::Frame;
use images::codec;

/// Any value as text.
#[derive(Clone, Copy, Debug)]
pub struct PreviewAny;

impl Node for PreviewAny {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Preview as Text"),
            description: "Preview any input value as text.".to_owned(),
            inputs: vec![link("source", "*")],
            outputs: vec![output("STRING")],
            output_node: true,
            ..core(
                "PreviewAny",
                "comfy_extras.nodes_preview_any",
                "utilities",
                json!({"search_aliases": ["show output", "inspect", "debug", "print value", "show text"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let text = as_text(&inputs.value("source")?);
        context.emit(OutputFile {
            kind: OutputKind::Text,
            temp: true,
            name: OutputName::Counted {
                counter: "PreviewAny".to_owned(),
                stem: "PreviewAny".to_owned(),
                extension: "txt".to_owned(),
            },
            content_type: "text/plain; charset=utf-8",
            bytes: text.clone().into(),
            shown_under: None,
        })?;
        let ui = [("text".to_owned(), json!([text]))].into_iter().collect();
        Ok(NodeOutput {
            ui,
            ..Value::string(text).into()
        })
    }
}

/// Width, height and number of pictures.
#[derive(Clone, Copy, Debug)]
pub struct GetImageSize;

impl Node for GetImageSize {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Get Image Size"),
            description: "Returns width and height of the image, and passes it through unchanged."
                .to_owned(),
            inputs: vec![link("image", "IMAGE")],
            hidden: vec![hidden("unique_id", "UNIQUE_ID")],
            outputs: vec![
                named_output("INT", "width"),
                named_output("INT", "height"),
                named_output("INT", "batch_size"),
            ],
            ..classic("GetImageSize", "comfy_extras.nodes_images", "image")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let (width, height, batch) = (
            image.first().width(),
            image.first().height(),
            image.frames().len(),
        );
        context.text(&format!(
            "width: {width}, height: {height}\n batch size: {batch}"
        ));
        Ok(NodeOutput::of(
            [width, height, batch].map(|size| Value::Int(size as i128)),
        ))
    }
}

/// Pictures handed to the followers of the run, as PNG; nothing is kept of them.
#[derive(Clone, Copy, Debug)]
pub struct SaveImageWebsocket;

impl Node for SaveImageWebsocket {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![link("images", "IMAGE")],
            output_node: true,
            ..classic(
                "SaveImageWebsocket",
                "custom_nodes.websocket_image_save",
                "api/image",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("images")?;
        let steps = u32::try_from(image.frames().len()).unwrap_or(u32::MAX);
        for (frame, step) in image.frames().iter().zip(0..) {
            let png = codec::encode_png(frame, &[])?;
            context.progress(step, steps)?;
            context.frame(png.into())?;
        }
        Ok(NodeOutput::none())
    }

    fn is_changed(&self, _constants: &Inputs) -> Result<Changed, NodeError> {
        Ok(Changed::Always)
    }
}

/// What Python would show of a value; what has no spelling there is told by its type and shape.
fn as_text(value: &Value) -> String {
    let sides = |frames: &[std::sync::Arc<Frame>]| {
        let (height, width, channels) = frames.first().map_or((0, 0, 0), |first| first.shape());
        [frames.len(), height, width, channels]
    };
    match value {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) if number.is_infinite() => {
            if *number > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        Value::Float(number) => python_json(&json!(number)),
        Value::Boolean(true) => "True".to_owned(),
        Value::Boolean(false) => "False".to_owned(),
        Value::Json(json) if json.is_null() => "None".to_owned(),
        Value::Json(json) => python_json(json),
        Value::Image(image) => format!("IMAGE {:?}", sides(image.frames())),
        Value::Mask(mask) => format!("MASK {:?}", &sides(mask.frames())[..3]),
        Value::File(file) => file.name().to_owned(),
        Value::Opaque(opaque) => opaque.io_type().to_owned(),
        Value::Blocker(_) => "None".to_owned(),
    }
}

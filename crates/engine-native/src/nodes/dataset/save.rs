//! Pictures of a data set saved into a folder, each with its caption beside it.

use images::codec;
use serde_json::json;
use workflow_core::{NodeDefinition, OutputKind};

use super::pictures::frames;
use super::{Class, MODULE, setting, wrong};
use crate::define::{latest, link, modern_combo, modern_metadata, named, optional, string_input};
use crate::nodes::save::Prefix;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, OutputFile, Value};

pub(super) const CLASSES: &[Class] = &[
    (
        || {
            let deprecated =
                json!({"experimental": true, "deprecated": true, "search_aliases": aliases(&[])});
            NodeDefinition {
                display_name: named("Save Image (to Folder) (DEPRECATED)"),
                ..saving("SaveImageDataSetToFolder", deprecated)
            }
        },
        |inputs, context| saved(inputs, Vec::new(), context),
    ),
    (
        || {
            let marks = json!({"experimental": true, "search_aliases": aliases(&["save text"])});
            let mut definition = saving("SaveImageTextDataSetToFolder", marks);
            let options = json!({"forceInput": true, "multiline": false});
            definition
                .inputs
                .push(optional(string_input("texts", options)));
            NodeDefinition {
                display_name: named("Save Image-Text (to Folder)"),
                ..definition
            }
        },
        |inputs, context| {
            let texts = match inputs.has("texts") {
                true => inputs.list("texts")?,
                false => Vec::new(),
            };
            saved(inputs, texts, context)
        },
    ),
];

fn aliases(more: &[&'static str]) -> Vec<&'static str> {
    let first = [
        "save folder",
        "save to folder",
        "save dataset",
        "save images",
    ];
    [&first[..], more, &["export dataset"]].concat()
}

fn saving(class: &str, marks: serde_json::Value) -> NodeDefinition {
    NodeDefinition {
        inputs: vec![
            link("images", "IMAGE"),
            string_input(
                "folder_name",
                json!({"default": "dataset", "multiline": false}),
            ),
            string_input(
                "filename_prefix",
                json!({"default": "image", "multiline": false, "advanced": true}),
            ),
            modern_combo(
                "mode",
                &["overwrite", "increment"],
                json!({"default": "overwrite"}),
            ),
        ],
        hidden: modern_metadata(),
        output_node: true,
        takes_lists: true,
        ..latest(class, MODULE, "image", marks)
    }
}

/// A setting that is a text.
fn text(inputs: &mut Inputs, name: &str) -> Result<String, NodeError> {
    let value = setting(inputs, name)?;
    let Value::String(text) = &value else {
        return Err(wrong(name, "a text", &value));
    };
    Ok(text.to_string())
}

/// Pictures one after the other, and the captions that there are: the first of each has the number 0.
fn saved(
    inputs: &mut Inputs,
    texts: Vec<Value>,
    context: &NodeContext,
) -> Result<NodeOutput, NodeError> {
    let (folder, name) = (
        text(inputs, "folder_name")?,
        text(inputs, "filename_prefix")?,
    );
    let prefix = Prefix::of(&format!("{folder}/{name}"), 0, 0)?;
    let run = match text(inputs, "mode")?.as_str() {
        "overwrite" => String::new(),
        // Of a picture and its caption, so not a number that is given out for each file.
        _ => format!("_{}", &context.job().to_string()[..8]),
    };
    let images = frames(inputs, context)?;
    let mut texts = texts.into_iter();
    for (at, frame) in images.into_iter().enumerate() {
        let name = |ending| prefix.numbered(&format!("{run}_{at:05}"), ending);
        context.emit(OutputFile {
            kind: OutputKind::Image,
            temp: false,
            name: name("png")?,
            content_type: "image/png",
            bytes: codec::encode_png(&frame, &[])?.into(),
            shown_under: Some("images"),
        })?;
        let caption = match texts.next() {
            None => continue,
            Some(Value::String(caption)) => caption,
            Some(other) => return Err(wrong("texts", "a list of texts", &other)),
        };
        context.emit(OutputFile {
            kind: OutputKind::Text,
            temp: false,
            name: name("txt")?,
            content_type: "text/plain; charset=utf-8",
            bytes: caption.to_string().into(),
            shown_under: Some("files"),
        })?;
    }
    Ok(NodeOutput::none())
}

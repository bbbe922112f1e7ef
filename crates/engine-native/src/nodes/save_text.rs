//! Texts into files.

use serde_json::json;
use workflow_core::{NodeDefinition, OutputKind};

use super::save::Prefix;
use crate::define::{latest, modern_combo, modern_metadata, named, named_output, string_input};
use crate::python_json::spelled;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile, Value};

/// A text into a file.
#[derive(Clone, Copy, Debug)]
pub struct SaveText;

impl Node for SaveText {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Text"),
            inputs: vec![
                string_input("text", json!({"forceInput": true, "multiline": false})),
                string_input(
                    "filename_prefix",
                    json!({"default": "ComfyUI", "multiline": false}),
                ),
                modern_combo(
                    "format",
                    &["txt", "csv", "md", "json"],
                    json!({"default": "txt"}),
                ),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("STRING", "text")],
            output_node: true,
            ..latest(
                "SaveText",
                "comfy_extras.nodes_text",
                "text",
                json!({"search_aliases": ["save text", "write text", "export text"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let text = inputs.text("text")?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 1, 1)?;
        let (extension, content_type) = inputs.choice("format", |word| match word {
            "txt" => Some(("txt", "text/plain; charset=utf-8")),
            "csv" => Some(("csv", "text/csv; charset=utf-8")),
            "md" => Some(("md", "text/markdown; charset=utf-8")),
            "json" => Some(("json", "application/json")),
            _ => None,
        })?;
        // What is no JSON is saved as it is.
        let pretty = match extension {
            "json" => json_text::read_str(text).ok(),
            _ => None,
        };
        let content = match pretty {
            Some(json) => {
                // Every level may put as many spaces before a value as it is deep.
                context.reserve(text.len() as u64 * INDENTED)?;
                spelled(&json, false, Some(2), usize::MAX)
            }
            None => text.to_owned(),
        };
        context.emit(OutputFile {
            kind: OutputKind::Text,
            temp: false,
            name: prefix.whole_batch(extension),
            content_type,
            bytes: content.into(),
            shown_under: Some("files"),
        })?;
        let mut output = NodeOutput::of([Value::string(text)]);
        output.ui.insert("text".to_owned(), json!([text]));
        Ok(output)
    }
}

/// How many times longer a text may get when it is indented: JSON nests at most 128 deep here, 2 spaces a level.
const INDENTED: u64 = 256;

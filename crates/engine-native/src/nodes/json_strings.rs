//! JSON into texts.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::text::{MAX_TEXT_BYTES, bounded};
use crate::define::{int_input, latest, link, named, output, string_input};
use crate::python_json::read::{Read, Unread, loads};
use crate::python_json::spelled;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// A field of an object in a text.
#[derive(Clone, Copy, Debug)]
pub struct JsonExtractString;

impl Node for JsonExtractString {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Extract Text from JSON"),
            inputs: vec![
                string_input("json_string", json!({"multiline": true})),
                string_input("key", json!({"multiline": false})),
            ],
            outputs: vec![output("STRING")],
            ..latest(
                "JsonExtractString",
                "comfy_extras.nodes_string",
                "text",
                json!({"search_aliases": ["json", "extract json", "parse json", "json value", "read json"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        // Nothing is found in what is no object, and null is nothing.
        let text = match loads(inputs.text("json_string")?) {
            Ok(Read::Fields(fields)) => match fields.get(inputs.text("key")?) {
                None | Some(Read::None) => String::new(),
                Some(field) => field.spelled(),
            },
            Ok(Read::None | Read::Plain(_) | Read::Text(_) | Read::List(_))
            | Err(Unread::NoJson) => String::new(),
            Err(why @ Unread::TooDeep) => {
                return Err(NodeError::new("RecursionError", why.to_string()));
            }
            Err(why @ (Unread::TooLong | Unread::HalfCharacter)) => {
                return Err(NodeError::value(why.to_string()));
            }
        };
        Ok(bounded(text)?.into())
    }
}

/// An object as a text.
#[derive(Clone, Copy, Debug)]
pub struct ConvertDictionaryToString;

impl Node for ConvertDictionaryToString {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Convert Dictionary to String"),
            inputs: vec![
                link("dictionary", "DICT"),
                int_input("indent", json!({"default": 2, "min": 0, "max": 8})),
            ],
            outputs: vec![output("STRING")],
            ..latest(
                "ConvertDictionaryToString",
                "comfy_extras.nodes_string",
                "text",
                json!({"search_aliases": ["json", "dict to json", "stringify", "serialize", "dict to string"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        written(inputs, "dictionary")
    }
}

/// A list as a text.
#[derive(Clone, Copy, Debug)]
pub struct ConvertArrayToString;

impl Node for ConvertArrayToString {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Convert Array to String"),
            inputs: vec![
                link("array", "ARRAY"),
                int_input("indent", json!({"default": 2, "min": 0, "max": 8})),
            ],
            outputs: vec![output("STRING")],
            ..latest(
                "ConvertArrayToString",
                "comfy_extras.nodes_string",
                "text",
                json!({"search_aliases": ["json", "list to json", "stringify", "serialize", "list to string", "array to json"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        written(inputs, "array")
    }
}

fn written(mut inputs: Inputs, name: &str) -> Result<NodeOutput, NodeError> {
    let indent = inputs.int("indent")?;
    let value = inputs.value(name)?;
    let Value::Json(json) = &value else {
        return Err(NodeError::new(
            "TypeError",
            format!(
                "{} cannot be written as JSON; link an object or a list",
                value.io_type()
            ),
        ));
    };
    let indent = (indent > 0).then_some(indent);
    Ok(bounded(spelled(json, false, indent, MAX_TEXT_BYTES))?.into())
}

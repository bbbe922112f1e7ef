//! A text with values in it, as Python's `str.format` writes it.

use std::collections::BTreeMap;

use serde_json::json;
use workflow_core::NodeDefinition;

use super::text::formatted;
use crate::define::{autogrow_letters, latest, link, named, output, string_input};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// A text with values in it.
#[derive(Clone, Copy, Debug)]
pub struct StringFormat;

impl Node for StringFormat {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Format Text"),
            inputs: vec![
                autogrow_letters("values", link("value", "*"), 0),
                string_input("f_string", json!({"default": "{a}", "multiline": true})),
            ],
            outputs: vec![output("STRING")],
            ..latest(
                "StringFormat",
                "comfy_extras.nodes_string",
                "text",
                json!({"search_aliases": ["string", "format"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut values = BTreeMap::new();
        for name in inputs.group("values") {
            let value = inputs.value(&name)?;
            let letter = name.strip_prefix("values.").unwrap_or(&name).to_owned();
            values.insert(letter, value);
        }
        let text = formatted(inputs.text("f_string")?, &|name| values.get(name).cloned())?;
        Ok(Value::string(text).into())
    }
}

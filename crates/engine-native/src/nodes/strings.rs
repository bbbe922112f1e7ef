//! Texts joined, cut, compared and converted, as Python does it: by code points.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::text::{bounded, capitalized, check_length, is_space, slice, title_cased};
use crate::define::{
    boolean_input, int_input, modern, modern_combo, named, named_output, output, string_input,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// Two texts with something between them.
#[derive(Clone, Copy, Debug)]
pub struct StringConcatenate;

impl Node for StringConcatenate {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Concatenate"),
            inputs: vec![
                string_input("string_a", json!({"multiline": true})),
                string_input("string_b", json!({"multiline": true})),
                string_input("delimiter", json!({"default": "", "multiline": false})),
            ],
            outputs: vec![output("STRING")],
            ..modern(
                "StringConcatenate",
                "comfy_extras.nodes_string",
                "utils/string",
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (a, b) = (inputs.text("string_a")?, inputs.text("string_b")?);
        let delimiter = inputs.text("delimiter")?;
        check_length(a.len() + delimiter.len() + b.len())?;
        Ok(Value::string(format!("{a}{delimiter}{b}")).into())
    }
}

/// Part of a text; negative positions count from its end.
#[derive(Clone, Copy, Debug)]
pub struct StringSubstring;

impl Node for StringSubstring {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Substring"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                int_input("start", json!({})),
                int_input("end", json!({})),
            ],
            outputs: vec![output("STRING")],
            ..modern(
                "StringSubstring",
                "comfy_extras.nodes_string",
                "utils/string",
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let part = slice(
            inputs.text("string")?,
            inputs.int("start")?,
            inputs.int("end")?,
        );
        Ok(Value::string(part).into())
    }
}

/// The number of code points of a text.
#[derive(Clone, Copy, Debug)]
pub struct StringLength;

impl Node for StringLength {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Length"),
            inputs: vec![string_input("string", json!({"multiline": true}))],
            outputs: vec![named_output("INT", "length")],
            ..modern("StringLength", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(Value::Int(inputs.text("string")?.chars().count() as i128).into())
    }
}

/// A text in another case.
#[derive(Clone, Copy, Debug)]
pub struct CaseConverter;

impl Node for CaseConverter {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Case Converter"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                modern_combo(
                    "mode",
                    &["UPPERCASE", "lowercase", "Capitalize", "Title Case"],
                    json!({}),
                ),
            ],
            outputs: vec![output("STRING")],
            ..modern("CaseConverter", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let string = inputs.text("string")?;
        let convert: fn(&str) -> String = inputs.choice("mode", |word| match word {
            "UPPERCASE" => Some(str::to_uppercase as fn(&str) -> String),
            "lowercase" => Some(str::to_lowercase),
            "Capitalize" => Some(capitalized),
            "Title Case" => Some(title_cased),
            _ => None,
        })?;
        // A character may become three of them.
        check_length(string.len())?;
        Ok(bounded(convert(string))?.into())
    }
}

/// A text without the space around it.
#[derive(Clone, Copy, Debug)]
pub struct StringTrim;

impl Node for StringTrim {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Trim"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                modern_combo("mode", &["Both", "Left", "Right"], json!({})),
            ],
            outputs: vec![output("STRING")],
            ..modern("StringTrim", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let string = inputs.text("string")?;
        let trimmed = inputs.choice("mode", |word| match word {
            "Both" => Some(string.trim_matches(is_space)),
            "Left" => Some(string.trim_start_matches(is_space)),
            "Right" => Some(string.trim_end_matches(is_space)),
            _ => None,
        })?;
        Ok(Value::string(trimmed).into())
    }
}

/// A text with something in place of something else.
#[derive(Clone, Copy, Debug)]
pub struct StringReplace;

impl Node for StringReplace {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Replace"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                string_input("find", json!({"multiline": true})),
                string_input("replace", json!({"multiline": true})),
            ],
            outputs: vec![output("STRING")],
            ..modern("StringReplace", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (find, replace) = (inputs.text("find")?, inputs.text("replace")?);
        replaced(inputs.text("string")?, find, replace)
    }
}

/// `string.replace(find, replace)`.
///
/// # Errors
/// If it gets too long.
pub(super) fn replaced(string: &str, find: &str, replace: &str) -> Result<NodeOutput, NodeError> {
    let matches = string.matches(find).count();
    let added = matches.saturating_mul(replace.len());
    check_length(added.saturating_add(string.len() - matches * find.len()))?;
    Ok(Value::string(string.replace(find, replace)).into())
}

/// Whether a text holds another.
#[derive(Clone, Copy, Debug)]
pub struct StringContains;

impl Node for StringContains {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Contains"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                string_input("substring", json!({"multiline": true})),
                boolean_input("case_sensitive", json!({"default": true})),
            ],
            outputs: vec![named_output("BOOLEAN", "contains")],
            ..modern(
                "StringContains",
                "comfy_extras.nodes_string",
                "utils/string",
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (string, substring) = (inputs.text("string")?, inputs.text("substring")?);
        let contains = match inputs.boolean("case_sensitive")? {
            true => string.contains(substring),
            false => string.to_lowercase().contains(&substring.to_lowercase()),
        };
        Ok(Value::Boolean(contains).into())
    }
}

/// Whether a text begins with, ends with or equals another.
#[derive(Clone, Copy, Debug)]
pub struct StringCompare;

impl Node for StringCompare {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Compare"),
            inputs: vec![
                string_input("string_a", json!({"multiline": true})),
                string_input("string_b", json!({"multiline": true})),
                modern_combo("mode", &["Starts With", "Ends With", "Equal"], json!({})),
                boolean_input("case_sensitive", json!({"default": true})),
            ],
            outputs: vec![output("BOOLEAN")],
            ..modern("StringCompare", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (mut a, mut b) = (
            inputs.text("string_a")?.to_owned(),
            inputs.text("string_b")?.to_owned(),
        );
        if !inputs.boolean("case_sensitive")? {
            (a, b) = (a.to_lowercase(), b.to_lowercase());
        }
        let holds = inputs.choice("mode", |word| match word {
            "Equal" => Some(a == b),
            "Starts With" => Some(a.starts_with(&b)),
            "Ends With" => Some(a.ends_with(&b)),
            _ => None,
        })?;
        Ok(Value::Boolean(holds).into())
    }
}

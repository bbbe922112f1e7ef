//! Captions changed one by one.

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition};

use super::super::text::{bounded, check_length, is_space, slice};
use super::{Class, MODULE};
use crate::define::{int_input, latest, named, named_output, options, string_input};
use crate::{Inputs, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] = &[
    (
        || {
            let name = "Convert Text to Lowercase (DEPRECATED)";
            deprecated("TextToLowercase", name, &["lowercase"], vec![])
        },
        |inputs, _| converted(inputs, str::to_lowercase),
    ),
    (
        || {
            let name = "Convert Text to Uppercase (DEPRECATED)";
            deprecated("TextToUppercase", name, &["uppercase"], vec![])
        },
        |inputs, _| converted(inputs, str::to_uppercase),
    ),
    (truncate_definition, |inputs, _| {
        let most = inputs.int("max_length")?;
        let text = slice(inputs.text("texts")?, 0, most);
        Ok(Value::string(text).into())
    }),
    (
        || {
            let name = "Add Text Prefix (DEPRECATED)";
            deprecated("AddTextPrefix", name, &[], vec![short("prefix")])
        },
        |inputs, _| joined(inputs, "prefix", "texts"),
    ),
    (
        || {
            let name = "Add Text Suffix (DEPRECATED)";
            deprecated("AddTextSuffix", name, &[], vec![short("suffix")])
        },
        |inputs, _| joined(inputs, "texts", "suffix"),
    ),
    (
        || {
            let inputs = vec![short("find"), short("replace")];
            deprecated("ReplaceText", "Replace Text (DEPRECATED)", &[], inputs)
        },
        |inputs, _| {
            let (find, replace) = (inputs.text("find")?, inputs.text("replace")?);
            super::super::strings::replaced(inputs.text("texts")?, find, replace)
        },
    ),
    (
        || {
            let name = "Strip Whitespace (DEPRECATED)";
            deprecated("StripWhitespace", name, &[], vec![])
        },
        |inputs, _| {
            let text = inputs.text("texts")?.trim_matches(is_space);
            Ok(Value::string(text).into())
        },
    ),
    (
        || NodeDefinition {
            takes_lists: true,
            ..deprecated(
                "MergeTextLists",
                "Merge Text Lists (DEPRECATED)",
                &[],
                vec![],
            )
        },
        |inputs, _| merged(inputs),
    ),
];

/// A class of texts. Aliases are the words by which the page finds it besides its name.
fn of_texts(
    class: &str,
    name: &str,
    aliases: &[&str],
    mut marks: Json,
    more: Vec<InputDefinition>,
) -> NodeDefinition {
    if !aliases.is_empty() {
        marks["search_aliases"] = json!(aliases);
    }
    let mut inputs = vec![string_input("texts", json!({"multiline": false}))];
    inputs.extend(more);
    let mut definition = latest(class, MODULE, "text", json!({"experimental": true}));
    definition.extra.extend(options(marks));
    NodeDefinition {
        display_name: named(name),
        inputs,
        outputs: vec![named_output("STRING", "texts")],
        ..definition
    }
}

fn deprecated(
    class: &str,
    name: &str,
    aliases: &[&str],
    more: Vec<InputDefinition>,
) -> NodeDefinition {
    of_texts(class, name, aliases, json!({"deprecated": true}), more)
}

fn short(name: &str) -> InputDefinition {
    string_input(name, json!({"default": "", "multiline": false}))
}

fn truncate_definition() -> NodeDefinition {
    let most = json!({"default": 77, "min": 1, "max": 10000});
    let aliases = ["truncate", "cut", "shorten"];
    let inputs = vec![int_input("max_length", most)];
    of_texts("TruncateText", "Truncate Text", &aliases, json!({}), inputs)
}

fn converted(inputs: &Inputs, convert: fn(&str) -> String) -> Result<NodeOutput, NodeError> {
    let text = inputs.text("texts")?;
    // A character may become three of them.
    check_length(text.len())?;
    Ok(bounded(convert(text))?.into())
}

fn joined(inputs: &Inputs, first: &str, second: &str) -> Result<NodeOutput, NodeError> {
    let (first, second) = (inputs.text(first)?, inputs.text(second)?);
    check_length(first.len() + second.len())?;
    Ok(Value::string(format!("{first}{second}")).into())
}

/// The texts of a list as one value, which is a list: the class is not defined to give each of them on.
fn merged(inputs: &mut Inputs) -> Result<NodeOutput, NodeError> {
    let values = inputs.list("texts")?;
    let mut bytes = 0_usize;
    let mut texts = Vec::with_capacity(values.len());
    for value in &values {
        let Value::String(text) = value else {
            return Err(NodeError::new(
                "TypeError",
                format!("the list must hold texts, and {} came", value.io_type()),
            ));
        };
        bytes = bytes.saturating_add(text.len());
        check_length(bytes)?;
        texts.push(Json::from(&**text));
    }
    Ok(Value::from_json(&Json::Array(texts)).into())
}

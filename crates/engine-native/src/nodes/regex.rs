//! Regular expressions over texts, as Python's `re` understands them.
//!
//! As in the recorded server, a broken pattern finds nothing where it only looks, and fails where it replaces. A pattern that
//! is beyond a bound, or takes too many steps to decide, fails in both.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::text::{MAX_TEXT_BYTES, Options, Pattern, PatternError, bounded};
use crate::define::{
    boolean_input, int_input, modern, modern_combo, named, named_output, optional, output,
    string_input,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// Whether a pattern is found in a text.
#[derive(Clone, Copy, Debug)]
pub struct RegexMatch;

impl Node for RegexMatch {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Regex Match"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                string_input("regex_pattern", json!({"multiline": true})),
                boolean_input("case_insensitive", json!({"default": true})),
                boolean_input("multiline", json!({"default": false})),
                boolean_input("dotall", json!({"default": false})),
            ],
            outputs: vec![named_output("BOOLEAN", "matches")],
            ..modern("RegexMatch", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let Some(pattern) = lenient(&inputs)? else {
            return Ok(Value::Boolean(false).into());
        };
        let string = inputs.text("string")?;
        context.reserve(pattern.memory_bytes(string))?;
        let found = pattern.first(string, 0, &|| context.check().is_err())?;
        Ok(Value::Boolean(found.is_some()).into())
    }
}

/// What a pattern finds in a text.
#[derive(Clone, Copy, Debug)]
pub struct RegexExtract;

impl Node for RegexExtract {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Regex Extract"),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                string_input("regex_pattern", json!({"multiline": true})),
                modern_combo(
                    "mode",
                    &["First Match", "All Matches", "First Group", "All Groups"],
                    json!({}),
                ),
                boolean_input("case_insensitive", json!({"default": true})),
                boolean_input("multiline", json!({"default": false})),
                boolean_input("dotall", json!({"default": false})),
                int_input("group_index", json!({"default": 1, "min": 0, "max": 100})),
            ],
            outputs: vec![output("STRING")],
            ..modern("RegexExtract", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let Some(pattern) = lenient(&inputs)? else {
            return Ok(Value::string("").into());
        };
        let string = inputs.text("string")?;
        context.reserve(pattern.memory_bytes(string))?;
        let is_stopped = || context.check().is_err();
        let first = |group| pattern.first(string, group, &is_stopped);
        let joined = |group| pattern.joined(string, group, &is_stopped);
        let group: usize = inputs.int("group_index")?;
        let extracted = match inputs.text("mode")? {
            "First Match" => first(0)?.flatten().unwrap_or_default(),
            // Of a pattern with groups, the first group is what Python's `findall` gives.
            "All Matches" => joined(usize::from(pattern.groups() > 0))?.0,
            "First Group" if pattern.groups() < group => String::new(),
            "First Group" => match first(group)? {
                None => String::new(),
                Some(Some(text)) => text,
                // A group that took no part in the match is Python's `None`.
                Some(None) => return Ok(Value::from_json(&serde_json::Value::Null).into()),
            },
            "All Groups" if pattern.groups() < group.max(1) => String::new(),
            "All Groups" => match joined(group)? {
                (joined, true) => joined,
                (_, false) => {
                    let message = format!(
                        "group {group} took no part in one of the matches; make it match always"
                    );
                    return Err(NodeError::new("TypeError", message));
                }
            },
            _ => String::new(),
        };
        Ok(bounded(extracted)?.into())
    }
}

/// A text with something in place of what a pattern finds.
#[derive(Clone, Copy, Debug)]
pub struct RegexReplace;

impl Node for RegexReplace {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Regex Replace"),
            description: "Find and replace text using regex patterns.".to_owned(),
            inputs: vec![
                string_input("string", json!({"multiline": true})),
                string_input("regex_pattern", json!({"multiline": true})),
                string_input("replace", json!({"multiline": true})),
                optional(boolean_input("case_insensitive", json!({"default": true}))),
                optional(boolean_input("multiline", json!({"default": false}))),
                optional(boolean_input(
                    "dotall",
                    json!({
                        "tooltip": "When enabled, the dot (.) character will match any character including \
                    newline characters. When disabled, dots won't match newlines.",
                        "default": false,
                    }),
                )),
                optional(int_input(
                    "count",
                    json!({
                        "tooltip": "Maximum number of replacements to make. Set to 0 to replace all \
                    occurrences (default). Set to 1 to replace only the first match, 2 for \
                    the first two matches, etc.",
                        "default": 0,
                        "min": 0,
                        "max": 100,
                    }),
                )),
            ],
            outputs: vec![output("STRING")],
            ..modern("RegexReplace", "comfy_extras.nodes_string", "utils/string")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let pattern = Pattern::new(inputs.text("regex_pattern")?, options(&inputs)?)?;
        // 0 stands for all, and less than 0 for none.
        let most = match inputs.has("count") && inputs.int::<i128>("count")? != 0 {
            true => Some(inputs.count("count")?),
            false => None,
        };
        let (string, replacement) = (inputs.text("string")?, inputs.text("replace")?);
        context.reserve(pattern.memory_bytes(string))?;
        let is_stopped = || context.check().is_err();
        let replaced = pattern.replaced(string, replacement, most, MAX_TEXT_BYTES, &is_stopped)?;
        Ok(Value::string(replaced).into())
    }
}

/// The pattern, or `None` where it is broken.
fn lenient(inputs: &Inputs) -> Result<Option<Pattern>, NodeError> {
    match Pattern::new(inputs.text("regex_pattern")?, options(inputs)?) {
        Ok(pattern) => Ok(Some(pattern)),
        Err(PatternError::Broken(_)) => Ok(None),
        Err(
            error @ (PatternError::NamedCharacter
            | PatternError::Template(_)
            | PatternError::TooLong(_)
            | PatternError::TooManyInstructions
            | PatternError::TooManyStates { .. }
            | PatternError::TooSlow
            | PatternError::ResultTooLong(_)
            | PatternError::Stopped),
        ) => Err(error.into()),
    }
}

/// The options as given, or as they are by default where they are optional.
fn options(inputs: &Inputs) -> Result<Options, NodeError> {
    let option = |name: &str, default: bool| match inputs.has(name) {
        true => inputs.boolean(name),
        false => Ok(default),
    };
    Ok(Options {
        case_insensitive: option("case_insensitive", true)?,
        multiline: option("multiline", false)?,
        dotall: option("dotall", false)?,
    })
}

impl From<PatternError> for NodeError {
    fn from(error: PatternError) -> Self {
        let exception = match error {
            PatternError::Broken(_) | PatternError::Template(_) | PatternError::NamedCharacter => {
                "re.error"
            }
            PatternError::Stopped => return Self::Canceled,
            PatternError::TooSlow => "TimeoutError",
            PatternError::TooLong(_)
            | PatternError::TooManyInstructions
            | PatternError::TooManyStates { .. }
            | PatternError::ResultTooLong(_) => "MemoryError",
        };
        Self::new(exception, error.to_string())
    }
}

//! Choices, truth and lists.

use serde_json::json;
use workflow_core::{MATCH_TYPE, NodeDefinition, OutputDefinition};

use crate::define::{
    autogrow, boolean_input, latest, lazy, link, matched, named, named_output, output, widget,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Slot, Value};

/// One of two values, of which only the chosen one is made.
#[derive(Clone, Copy, Debug)]
pub struct ComfySwitchNode;

impl ComfySwitchNode {
    fn chosen(inputs: &Inputs) -> Result<&'static str, NodeError> {
        Ok(match inputs.boolean("switch")? {
            true => "on_true",
            false => "on_false",
        })
    }
}

impl Node for ComfySwitchNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("If/Else Switch"),
            inputs: vec![
                boolean_input("switch", json!({})),
                lazy(matched("on_false", "switch", "*")),
                lazy(matched("on_true", "switch", "*")),
            ],
            outputs: vec![named_output(MATCH_TYPE, "output")],
            ..latest(
                "ComfySwitchNode",
                "comfy_extras.nodes_logic",
                "utilities/logic",
                json!({
                    "output_matchtypes": ["switch"],
                    "search_aliases": ["if", "then", "switch", "conditional", "branch"],
                    "experimental": true,
                }),
            )
        }
    }

    fn lazy_inputs(&self, inputs: &Inputs) -> Result<Vec<String>, NodeError> {
        let chosen = Self::chosen(inputs)?;
        let asked = inputs.is_pending(chosen).then(|| chosen.to_owned());
        Ok(asked.into_iter().collect())
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let chosen = Self::chosen(&inputs)?;
        Ok(inputs.value(chosen)?.into())
    }
}

/// One of the words that the page lets people write, and its place among them.
#[derive(Clone, Copy, Debug)]
pub struct CustomCombo;

impl Node for CustomCombo {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Custom Combo"),
            // The words are made up in the page, so any is right.
            inputs: vec![widget("choice", "COMBO", json!({"options": []}))],
            outputs: vec![output("STRING"), named_output("INT", "INDEX")],
            accepts_all: true,
            ..latest(
                "CustomCombo",
                "comfy_extras.nodes_logic",
                "utilities",
                json!({"experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let index = inputs.maybe("index").unwrap_or(Value::Int(0));
        Ok(NodeOutput::of([inputs.value("choice")?, index]))
    }
}

/// Whether a value is nothing, as Python sees it.
#[derive(Clone, Copy, Debug)]
pub struct ComfyNotNode;

impl Node for ComfyNotNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Not"),
            inputs: vec![link("value", "*")],
            outputs: vec![output("BOOLEAN")],
            ..latest(
                "ComfyNotNode",
                "comfy_extras.nodes_logic",
                "utilities/logic",
                json!({"search_aliases": ["invert", "toggle", "negate", "flip boolean"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let value = inputs.value("value")?;
        Ok(Value::Boolean(!is_true(&value)?).into())
    }
}

/// Whether all values are something.
#[derive(Clone, Copy, Debug)]
pub struct ComfyAndNode;

impl Node for ComfyAndNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("And"),
            inputs: vec![autogrow("values", link("value", "*"), "value", 1, 10)],
            outputs: vec![output("BOOLEAN")],
            ..latest(
                "ComfyAndNode",
                "comfy_extras.nodes_logic",
                "utilities/logic",
                json!({"search_aliases": ["all", "every"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(Value::Boolean(!any(inputs, false)?).into())
    }
}

/// Whether any value is something.
#[derive(Clone, Copy, Debug)]
pub struct ComfyOrNode;

impl Node for ComfyOrNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Or"),
            inputs: vec![autogrow("values", link("value", "*"), "value", 1, 10)],
            outputs: vec![output("BOOLEAN")],
            ..latest(
                "ComfyOrNode",
                "comfy_extras.nodes_logic",
                "utilities/logic",
                json!({"search_aliases": ["any", "some"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(Value::Boolean(any(inputs, true)?).into())
    }
}

/// Values as a list, each of which runs what follows.
#[derive(Clone, Copy, Debug)]
pub struct CreateList;

impl Node for CreateList {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Create List"),
            inputs: vec![autogrow(
                "inputs",
                matched("input", "type", "*"),
                "input",
                1,
                10,
            )],
            outputs: vec![OutputDefinition {
                is_list: true,
                ..named_output(MATCH_TYPE, "list")
            }],
            takes_lists: true,
            ..latest(
                "CreateList",
                "comfy_extras.nodes_toolkit",
                "utilities",
                json!({
                    "output_matchtypes": ["type"],
                    "search_aliases": ["Image Iterator", "Text Iterator", "Iterator"],
                }),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut list = Vec::new();
        for name in inputs.group("inputs") {
            let values = inputs.list(&name)?;
            // Lists of lists of lists are long, though their values are shared.
            context.reserve(size_of_val(&*values) as u64)?;
            list.extend(values);
        }
        Ok(NodeOutput {
            slots: vec![Slot::List(list)],
            ..NodeOutput::none()
        })
    }
}

/// Whether a value of the group is as `wanted`; like Python, it looks no further than the first that is.
fn any(mut inputs: Inputs, wanted: bool) -> Result<bool, NodeError> {
    for name in inputs.group("values") {
        if is_true(&inputs.value(&name)?)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether Python takes a value for true.
fn is_true(value: &Value) -> Result<bool, NodeError> {
    let single = |frames: &[std::sync::Arc<images::Frame>]| match frames {
        [frame] if frame.data().len() == 1 => Ok(frame.data()[0] != 0.0),
        _ => Err(NodeError::new(
            "RuntimeError",
            "a picture is neither true nor false; compare a number or a text of it instead",
        )),
    };
    match value {
        Value::Boolean(truth) => Ok(*truth),
        Value::Int(number) => Ok(*number != 0),
        Value::Float(number) => Ok(*number != 0.0),
        Value::String(text) => Ok(!text.is_empty()),
        Value::Json(json) => Ok(match &**json {
            serde_json::Value::Null => false,
            serde_json::Value::Array(items) => !items.is_empty(),
            serde_json::Value::Object(fields) => !fields.is_empty(),
            serde_json::Value::Bool(truth) => *truth,
            serde_json::Value::Number(_) | serde_json::Value::String(_) => true,
        }),
        Value::Image(image) => single(image.frames()),
        Value::Mask(mask) => single(mask.frames()),
        Value::File(_) | Value::Opaque(_) => Ok(true),
        Value::Blocker(_) => Ok(false),
    }
}

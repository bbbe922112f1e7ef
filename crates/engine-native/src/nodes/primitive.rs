//! Constants as nodes.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{boolean_input, float_input, int_input, modern, named, output, string_input};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};

/// A line of text.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveString;

impl Node for PrimitiveString {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("String"),
            inputs: vec![string_input("value", json!({"multiline": false}))],
            outputs: vec![output("STRING")],
            ..modern(
                "PrimitiveString",
                "comfy_extras.nodes_primitive",
                "utils/primitive",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(inputs.value("value")?.into())
    }
}

/// A text.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveStringMultiline;

impl Node for PrimitiveStringMultiline {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("String (Multiline)"),
            inputs: vec![string_input("value", json!({"multiline": true}))],
            outputs: vec![output("STRING")],
            ..modern(
                "PrimitiveStringMultiline",
                "comfy_extras.nodes_primitive",
                "utils/primitive",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(inputs.value("value")?.into())
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveInt;

impl Node for PrimitiveInt {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Int"),
            inputs: vec![int_input(
                "value",
                json!({
                    "min": -i64::MAX,
                    "max": i64::MAX,
                    "control_after_generate": true,
                }),
            )],
            outputs: vec![output("INT")],
            ..modern(
                "PrimitiveInt",
                "comfy_extras.nodes_primitive",
                "utils/primitive",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(inputs.value("value")?.into())
    }
}

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveFloat;

impl Node for PrimitiveFloat {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Float"),
            inputs: vec![float_input(
                "value",
                json!({"min": -i64::MAX, "max": i64::MAX}),
            )],
            outputs: vec![output("FLOAT")],
            ..modern(
                "PrimitiveFloat",
                "comfy_extras.nodes_primitive",
                "utils/primitive",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(inputs.value("value")?.into())
    }
}

/// A truth value.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveBoolean;

impl Node for PrimitiveBoolean {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Boolean"),
            inputs: vec![boolean_input("value", json!({}))],
            outputs: vec![output("BOOLEAN")],
            ..modern(
                "PrimitiveBoolean",
                "comfy_extras.nodes_primitive",
                "utils/primitive",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(inputs.value("value")?.into())
    }
}

//! A formula over numbers, as Python computes it, bounded in time and memory.

mod evaluate;
mod parse;
mod token;
mod value;

use std::borrow::Cow;

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{autogrow_letters, latest, link, named, named_output, output, string_input};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};
use evaluate::{BUDGET, Item, Scope};
use value::Number;

/// What is wrong with an expression.
#[derive(Debug)]
struct Wrong {
    exception: &'static str,
    message: Cow<'static, str>,
}

impl Wrong {
    fn new(exception: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { exception, message }
    }

    fn value(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new("ValueError", message)
    }
}

/// A number out of a formula.
#[derive(Clone, Copy, Debug)]
pub struct ComfyMathExpression;

impl Node for ComfyMathExpression {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Math Expression"),
            inputs: vec![
                string_input("expression", json!({"default": "a + b", "multiline": true})),
                autogrow_letters("values", link("value", "FLOAT,INT,BOOLEAN"), 1),
            ],
            outputs: vec![
                output("FLOAT"),
                output("INT"),
                named_output("BOOLEAN", "BOOL"),
            ],
            ..latest(
                "ComfyMathExpression",
                "comfy_extras.nodes_math",
                "utilities",
                json!({"search_aliases": ["expression", "formula", "calculate", "calculator", "eval", "math"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut names = Vec::new();
        for name in inputs.group("values") {
            let item = number(&inputs.value(&name)?)?;
            names.push((name["values.".len()..].to_owned(), item));
        }
        let all = names.iter().map(|(_, item)| item.clone()).collect();
        names.push(("values".to_owned(), Item::List(all)));
        let expression = inputs.text("expression")?;
        let result = result(expression, names);
        let [float, whole, truth] = result.map_err(|wrong| {
            let shown: String = expression.chars().take(200).collect();
            let message = format!(
                "the expression '{shown}' cannot be computed: {}",
                wrong.message
            );
            NodeError::new(wrong.exception, message)
        })?;
        Ok(NodeOutput::of([float, whole, truth]))
    }
}

fn number(value: &Value) -> Result<Item, NodeError> {
    let number = match value {
        Value::Int(int) => Number::Int(BigInt::from(*int)),
        Value::Float(float) => Number::Float(*float),
        Value::Boolean(truth) => Number::Bool(*truth),
        Value::Image(_)
        | Value::Mask(_)
        | Value::String(_)
        | Value::Json(_)
        | Value::File(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => {
            return Err(NodeError::new(
                "TypeError",
                format!(
                    "{} is no number; link a number or a truth value",
                    value.io_type()
                ),
            ));
        }
    };
    Ok(Item::Number(number))
}

fn result(expression: &str, names: Vec<(String, Item)>) -> Result<[Value; 3], Wrong> {
    if expression.trim().is_empty() {
        return Err(Wrong::value("it is empty; write a formula such as a * 2"));
    }
    let parsed = parse::parse(expression).map_err(|message| Wrong::new("SyntaxError", message))?;
    let mut scope = Scope {
        names,
        budget: BUDGET,
    };
    let Item::Number(number) = scope.value(&parsed)? else {
        return Err(Wrong::value("its result is no number"));
    };
    let float = number.float()?;
    if !float.is_finite() {
        return Err(Wrong::value("its result is not finite"));
    }
    let truth = number.is_true();
    let whole = value::whole(&number, f64::trunc)?.int();
    let whole = whole.and_then(|whole| whole.to_i128()).ok_or_else(|| {
        Wrong::new(
            "OverflowError",
            "its result is too large for a whole number",
        )
    })?;
    Ok([
        Value::Float(float),
        Value::Int(whole),
        Value::Boolean(truth),
    ])
}

#[cfg(test)]
mod tests;

//! What prepares pictures, videos and texts for training: changed one by one, put in another order as a list, or saved into a folder.

mod pictures;
mod save;
mod shuffle;
mod text;

use std::sync::Arc;

use serde_json::json;
use workflow_core::InputDefinition;

use super::class::{self, Class};
use crate::define::int_input;
use crate::{Inputs, Node, NodeError, NodeOutput, Slot, Value};

/// Every class of them, in the order in which clients see them.
pub(super) fn classes() -> Vec<Arc<dyn Node>> {
    class::classes(&[
        text::CLASSES,
        pictures::CLASSES,
        shuffle::CLASSES,
        save::CLASSES,
    ])
}

/// Where ComfyUI has them.
const MODULE: &str = "comfy_extras.nodes_dataset";

pub(super) fn seed_input() -> InputDefinition {
    int_input("seed", json!({"default": 0, "min": 0, "max": u64::MAX}))
}

/// A setting of a class that takes lists: the first item of its own.
fn setting(inputs: &mut Inputs, name: &str) -> Result<Value, NodeError> {
    let values = inputs.list(name)?;
    let first = values.into_iter().next();
    first.ok_or_else(|| NodeError::value(format!("{name} is an empty list; give it a value")))
}

/// A setting that is a whole number.
fn whole<T: TryFrom<i128>>(inputs: &mut Inputs, name: &str) -> Result<T, NodeError> {
    let value = setting(inputs, name)?;
    let Value::Int(number) = value else {
        return Err(wrong(name, "a whole number", &value));
    };
    T::try_from(number).map_err(|_| NodeError::value(format!("{name}: {number} is out of range")))
}

/// A setting that is a number.
fn number(inputs: &mut Inputs, name: &str) -> Result<f64, NodeError> {
    let value = setting(inputs, name)?;
    if let Value::Int(whole) = value {
        return Ok(whole as f64);
    }
    let Value::Float(number) = value else {
        return Err(wrong(name, "a number", &value));
    };
    Ok(number)
}

fn wrong(name: &str, wanted: &str, found: &Value) -> NodeError {
    let found = found.io_type();
    NodeError::new(
        "TypeError",
        format!("{name} must be {wanted}, and {found} came"),
    )
}

/// An output of one list.
fn list(values: Vec<Value>) -> NodeOutput {
    NodeOutput {
        slots: vec![Slot::List(values)],
        ..NodeOutput::none()
    }
}

//! One value of a list.

use serde_json::json;
use workflow_core::{HiddenInput, NodeDefinition};

use super::class::Class;
use crate::define::{hidden, int_input, latest, link, named, output};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] = &[(definition, item)];

fn definition() -> NodeDefinition {
    let listed = |name, token| HiddenInput {
        in_list: true,
        ..hidden(name, token)
    };
    NodeDefinition {
        display_name: named("Get Item From List"),
        inputs: vec![link("list", "*"), int_input("index", json!({"default": 0}))],
        hidden: vec![
            listed("dynprompt", "DYNPROMPT"),
            listed("unique_id", "UNIQUE_ID"),
        ],
        outputs: vec![output("*")],
        takes_lists: true,
        ..latest(
            "GetItemFromList",
            "comfy_extras.nodes_toolkit",
            "utilities",
            json!({}),
        )
    }
}

fn item(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let index = match inputs.list("index")?.first() {
        Some(Value::Int(index)) => *index,
        _ => return Err(NodeError::value("index must be a whole number")),
    };
    let mut values = inputs.list("list")?;
    // What came alone is no list of one but, perhaps, a list itself.
    if values.len() == 1 && !context.is_from_list("list") {
        let Value::Json(json) = values.swap_remove(0) else {
            return Err(no_list());
        };
        let items = json.as_array().ok_or_else(no_list)?;
        return Ok(Value::from_json(&items[place(index, items.len())?]).into());
    }
    let place = place(index, values.len())?;
    Ok(values.swap_remove(place).into())
}

/// Numbers below 0 count from the end.
fn place(index: i128, length: usize) -> Result<usize, NodeError> {
    let from_end = if index < 0 { length as i128 } else { 0 };
    let place = usize::try_from(index.saturating_add(from_end)).ok();
    place.filter(|place| *place < length).ok_or_else(|| {
        NodeError::new(
            "IndexError",
            format!("there is no item {index} in a list of {length}"),
        )
    })
}

fn no_list() -> NodeError {
    NodeError::new(
        "TypeError",
        "what is linked is one value and no list; link a list, or take a picture out of a batch with ImageFromBatch",
    )
}

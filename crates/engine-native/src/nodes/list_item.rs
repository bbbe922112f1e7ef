//! One value of a list.

use serde_json::{Value as Json, json};
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
    if values.len() == 1 && !comes_as_list(context) {
        let one = values.swap_remove(0);
        let items = match &one {
            Value::Json(json) => json.as_array().cloned(),
            Value::Image(_)
            | Value::Mask(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::File(_)
            | Value::Opaque(_)
            | Value::Blocker(_) => None,
        };
        let items: Vec<Json> = items.ok_or_else(|| {
            NodeError::new(
                "TypeError",
                "what is linked is one value and no list; link a list, or take a picture out of a batch with ImageFromBatch",
            )
        })?;
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

/// Whether the linked output is one of lists, as far as the graph tells; what a node put there while it ran is one.
fn comes_as_list(context: &NodeContext) -> bool {
    let prompt = context.prompt();
    let source = || {
        let link = prompt.get(context.node().as_str())?["inputs"]["list"].as_array()?;
        let class = prompt.get(link.first()?.as_str()?)?["class_type"].as_str()?;
        let slot = usize::try_from(link.get(1)?.as_u64()?).ok()?;
        let nodes = super::all().into_iter().map(|node| node.definition());
        let definition = { nodes }.find(|definition| definition.class == class)?;
        Some(definition.outputs.get(slot)?.is_list)
    };
    source().unwrap_or(true)
}

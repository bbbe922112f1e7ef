//! The largest graphs there may be. None of these ends in reasonable time, or at all, if a search recurses or turns quadratic.

use serde_json::{Map, json};

use super::*;
use crate::{MAX_NODES, Plan};

fn nodes(node: impl Fn(usize) -> Value) -> Validation {
    let nodes: Map<String, Value> = (0..MAX_NODES)
        .map(|index| (index.to_string(), node(index)))
        .collect();
    check(Value::Object(nodes))
}

fn change(of: usize) -> Value {
    json!({"class_type": "Change", "inputs": {"image": [of.to_string(), 0]}})
}

#[test]
fn a_chain_may_be_as_deep_as_a_graph_is_large() {
    let last = MAX_NODES - 1;
    let validation = nodes(|index| match index {
        0 => json!({"class_type": "Save", "inputs": {"images": ["1", 0]}}),
        index if index == last => json!({"class_type": "Make", "inputs": {}}),
        index => change(index + 1),
    });
    let valid = validation.graph.unwrap();
    assert_eq!(valid.nodes.len(), MAX_NODES);
    assert_eq!(Plan::of(&valid).nodes_total() as usize, MAX_NODES);
}

#[test]
fn one_cycle_may_hold_every_node() {
    let validation = nodes(|index| match index {
        0 => json!({"class_type": "Save", "inputs": {"images": ["1", 0]}}),
        index if index == MAX_NODES - 1 => change(1),
        index => change(index + 1),
    });
    assert_eq!(validation.errors.len(), MAX_NODES - 1);
    let details = validation.errors["7"].errors[0].details();
    assert!(
        details.starts_with("7 (Change) -> 8 (Change) -> ")
            && details.ends_with(" -> 22 (Change) -> ..."),
        "{details}"
    );
}

#[test]
fn every_node_may_be_on_many_cycles() {
    // Each node reads the next one and the first one.
    let validation = nodes(|index| match index {
        0 => json!({"class_type": "Save", "inputs": {"images": ["1", 0]}}),
        index => {
            json!({"class_type": "Join", "inputs": {"a": [(index % (MAX_NODES - 1) + 1).to_string(), 0], "b": ["1", 0]}})
        }
    });
    assert_eq!(validation.errors.len(), MAX_NODES - 1);
}

#[test]
fn every_output_may_depend_on_every_error() {
    let half = MAX_NODES / 2;
    let validation = nodes(|index| match index {
        0 => json!({"class_type": "Gone"}),
        index if index < half => {
            json!({"class_type": "Change", "inputs": {"image": [(index - 1).to_string(), 0], "amount": 2}})
        }
        _ => json!({"class_type": "Save", "inputs": {"images": [(half - 1).to_string(), 0]}}),
    });
    assert_eq!(validation.errors.len(), half);
    assert_eq!(validation.invalid_outputs.len(), MAX_NODES - half);
    assert!(
        validation
            .errors
            .values()
            .all(|node| !node.dependent_outputs.is_empty())
    );
}

#[test]
fn every_output_that_fails_by_itself_is_among_its_own_dependents() {
    let validation = nodes(|_| json!({"class_type": "Save", "inputs": {}}));
    assert!(
        validation
            .errors
            .iter()
            .all(|(id, node)| node.dependent_outputs == [id.clone()])
    );
    assert_eq!(validation.errors.len(), MAX_NODES);
}

#[test]
fn thousands_of_errors_share_one_long_list_of_choices() {
    let choices: Vec<String> = (0..10_000)
        .map(|choice| format!("models/{choice:050}"))
        .collect();
    let chooser = object_info::catalog(
        &json!({"Choose": {"output_node": true, "input": {"required": {"model": [choices]}}}}),
    );
    let nodes: Map<String, Value> = (0..10_000)
        .map(|index| {
            (
                index.to_string(),
                json!({"class_type": "Choose", "inputs": {"model": "x"}}),
            )
        })
        .collect();
    let validation = validate(
        &graph(Value::Object(nodes)),
        &chooser,
        &ResolvedFiles::new(),
        None,
    );
    let definitions: Vec<_> = validation
        .errors
        .values()
        .map(|node| node.errors[0].definition.clone().unwrap())
        .collect();
    assert!(
        definitions
            .iter()
            .all(|definition| Arc::ptr_eq(definition, &definitions[0]))
    );
}

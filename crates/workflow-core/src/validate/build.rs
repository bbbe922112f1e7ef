//! The graph that can run, once everything is judged.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::Subject;
use super::walk::Walk;
use crate::{Input, Node, NodeInput, Socket, ValidGraph, ValidNode};

/// The valid outputs and all they need, if there is a valid output.
pub(super) fn valid_graph(
    subject: Subject<'_>,
    walk: &Walk<'_>,
    outputs: &[usize],
) -> Option<ValidGraph> {
    if outputs.is_empty() {
        return None;
    }
    let needed = walk.needed_by(outputs);
    let mut nodes = IndexMap::new();
    for (index, node) in subject.graph.nodes().values().enumerate() {
        let Some(judged) = walk.judged(index) else {
            continue;
        };
        let Some(definition) = &judged.definition else {
            continue;
        };
        if !needed[index] {
            continue;
        }
        let mut inputs = judged.inputs.clone();
        for (name, value) in &node.inputs {
            if definition.input(name).is_none() {
                inputs.insert(name.clone(), NodeInput::Constant(value.clone()));
            }
        }
        let definition = definition.clone();
        nodes.insert(subject.id(index).clone(), ValidNode { definition, inputs });
    }
    Some(ValidGraph {
        nodes,
        outputs: subject.ids(outputs),
        prompt: Arc::new(prompt(subject, walk)),
    })
}

/// The whole submitted graph as pictures carry it: every member of every node in the order sent, constants converted,
/// references by the names of their files.
fn prompt(subject: Subject<'_>, walk: &Walk<'_>) -> Map<String, Value> {
    let nodes = subject.graph.nodes().iter().enumerate();
    nodes
        .map(|(index, (id, node))| {
            let mut fields = Map::with_capacity(node.members.len());
            for (name, value) in &node.members {
                let shown = match name.as_str() {
                    "class_type" => node.class_type.clone().map(Value::from),
                    "inputs" => Some(shown_inputs(subject, walk, index, node).into()),
                    _ => Some(value.clone()),
                };
                fields.extend(shown.map(|shown| (name.clone(), shown)));
            }
            // Who reads a graph expects them.
            if !fields.contains_key("inputs") {
                fields.insert("inputs".to_owned(), Map::new().into());
            }
            (id.as_str().to_owned(), fields.into())
        })
        .collect()
}

fn shown_inputs(
    subject: Subject<'_>,
    walk: &Walk<'_>,
    index: usize,
    node: &Node,
) -> Map<String, Value> {
    let converted = walk.judged(index).map(|judged| &judged.inputs);
    let shown = |name: &str, sent: &Value| {
        if let Input::Asset(reference) = Input::read(sent)
            && let Some(file) = subject.files.get(&reference.id)
        {
            return file.name.clone().into();
        }
        // The engine reads it as it was sent.
        let is_open = subject
            .definition(index)
            .and_then(|class| class.input(name))
            .is_some_and(|input| matches!(input.socket, Socket::Open(_)));
        match converted.and_then(|inputs| inputs.get(name)) {
            Some(NodeInput::Constant(value)) if !is_open => value.clone(),
            Some(
                NodeInput::Constant(_)
                | NodeInput::File(_)
                | NodeInput::Scene { .. }
                | NodeInput::Link { .. },
            )
            | None => sent.clone(),
        }
    };
    let inputs = node.inputs.iter();
    inputs
        .map(|(name, sent)| (name.clone(), shown(name, sent)))
        .collect()
}

//! What is wrong with a submitted graph, in words: the message and the `details` of a refusal.

use serde_json::{Map, Value, json};
use workflow_core::{NodeErrors, NodeId, Reference, Refusal, Validation, ValidationError};

/// The first error in a sentence and how many there are, and all of them by node.
pub(crate) fn of_validation(validation: &Validation) -> (String, Value) {
    let mut nodes = Map::new();
    let mut first = None;
    let mut count = 0_usize;
    for (id, node) in &validation.errors {
        let entries = node.errors.iter().map(|error| {
            first.get_or_insert_with(|| sentence(id, node, error));
            count += 1;
            json!({ "field": error.input.as_deref().unwrap_or_default(), "reason": error.reason() })
        });
        let entries: Vec<Value> = entries.collect();
        nodes.insert(id.to_string(), entries.into());
    }
    let message = match (first, count) {
        (None, _) => "the workflow is invalid".to_owned(),
        (Some(first), 1) => first,
        (Some(first), 2) => format!("{first}, and 1 more error"),
        (Some(first), _) => format!("{first}, and {} more errors", count - 1),
    };
    (message, json!({ "node_errors": nodes }))
}

/// The details of a refusal by the engine that would run the graph.
pub(crate) fn of_refusal(refusal: &Refusal) -> Value {
    of_engine(&refusal.node_errors).unwrap_or_else(|| json!({ "node_errors": {} }))
}

/// The details of what an engine says of nodes, where it says anything: errors by node in the form of all `node_errors`.
pub(crate) fn of_engine(node_errors: &Map<String, Value>) -> Option<Value> {
    if node_errors.is_empty() {
        return None;
    }
    let text = |error: &Value, key: &str| error[key].as_str().unwrap_or_default().to_owned();
    let nodes = node_errors.iter().map(|(id, node)| {
        let errors = node["errors"].as_array().into_iter().flatten();
        let entries = errors.map(|error| {
            let (message, details) = (text(error, "message"), text(error, "details"));
            let reason = match (message.is_empty(), details.is_empty()) {
                (false, false) => format!("{message}: {details}"),
                (_, true) => message,
                (true, false) => details,
            };
            let field = error["extra_info"]["input_name"].as_str();
            json!({ "field": field.unwrap_or_default(), "reason": reason })
        });
        (id.clone(), entries.collect::<Vec<_>>().into())
    });
    Some(json!({ "node_errors": nodes.collect::<Map<_, _>>() }))
}

/// The first reference that leads nowhere, and all of them.
pub(crate) fn of_references(references: &[Reference]) -> (String, Value) {
    let shown = references.iter().map(|reference| {
        let node = reference.node.as_ref().map(NodeId::as_str);
        json!({ "node_id": node, "field": reference.field, "reference": reference.text })
    });
    let shown: Vec<Value> = shown.collect();
    let message = match references.first() {
        Some(Reference {
            node: Some(node),
            field,
            text,
            ..
        }) => format!(
            "node {node}: `{field}` refers to the asset {text:?}, which is not there; upload it, or correct the id"
        ),
        Some(_) | None => {
            "an asset that the workflow refers to is not there any more; upload it again".to_owned()
        }
    };
    (message, json!({ "references": shown }))
}

fn sentence(id: &NodeId, node: &NodeErrors, error: &ValidationError) -> String {
    let class = node.class_type.as_deref();
    let class = class.map_or_else(String::new, |class| format!(" ({class})"));
    let input = error.input.as_deref();
    let input = input.map_or_else(String::new, |input| format!(", input `{input}`"));
    format!("node {id}{class}{input}: {}", error.reason())
}

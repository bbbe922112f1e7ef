//! Why a submission is refused, as v1 clients read it.

use serde_json::{Map, Value, json};
use workflow_core::{Refusal, Validation, ValidationError, ValidationErrorKind};

use crate::node_info::input_config;

/// Most choices of an input that an error repeats.
const MOST_CHOICES: usize = 20;

/// The body of a refused submission.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptProblem {
    /// `error.type`.
    pub kind: &'static str,
    /// `error.message`.
    pub message: String,
    /// `error.details`.
    pub details: String,
    /// `error.extra_info`.
    pub extra_info: Map<String, Value>,
    /// Further fields of `error`, such as `class_types`.
    pub more: Map<String, Value>,
    /// Errors by node.
    pub node_errors: Map<String, Value>,
}

impl From<&Refusal> for PromptProblem {
    /// What the engine that would run the graph says of it.
    fn from(refusal: &Refusal) -> Self {
        Self {
            node_errors: refusal.node_errors.clone(),
            ..Self::new(
                "prompt_outputs_failed_validation",
                refusal.message.clone(),
                "",
            )
        }
    }
}

impl PromptProblem {
    /// A refusal that is about no node.
    #[must_use]
    pub fn new(kind: &'static str, message: impl Into<String>, details: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: details.into(),
            extra_info: Map::new(),
            more: Map::new(),
            node_errors: Map::new(),
        }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({
            "error": {
                "type": self.kind,
                "message": self.message,
                "details": self.details,
                "extra_info": self.extra_info,
            },
            "node_errors": self.node_errors,
        });
        for (field, value) in &self.more {
            body["error"][field] = value.clone();
        }
        body
    }
}

/// What is told of a graph of which nothing can run.
#[must_use]
pub fn validation_problem(validation: &Validation) -> PromptProblem {
    let node_errors = node_errors(&validation.errors);
    let first_missing = validation.errors.iter().find_map(|(id, node)| {
        let error = node.errors.iter().find(|error| is_missing_type(error))?;
        Some((id, node, error))
    });
    if let Some((id, node, error)) = first_missing {
        let mut extra_info = Map::new();
        extra_info.insert("node_id".to_owned(), id.to_string().into());
        extra_info.insert("class_type".to_owned(), node.class_type.clone().into());
        if let ValidationErrorKind::MissingNodeType { title, .. } = &error.kind {
            let title = title.clone().or_else(|| node.class_type.clone());
            extra_info.insert("node_title".to_owned(), title.into());
            // Beyond the fields of ComfyUI: what to do about it.
            extra_info.insert("reason".to_owned(), error.reason().into());
        }
        return PromptProblem {
            kind: "missing_node_type",
            message: error.message(),
            details: error.details(),
            extra_info,
            more: Map::new(),
            node_errors,
        };
    }
    // The output nodes' own errors, a line each; those of the nodes above them stand with their nodes.
    let outputs = validation.invalid_outputs.iter();
    let own = outputs.filter_map(|id| validation.errors.get(id));
    let lines = own.flat_map(|node| &node.errors);
    let lines: Vec<String> = lines
        .map(|error| format!("{}: {}", error.message(), error.details()))
        .collect();
    PromptProblem {
        kind: "prompt_outputs_failed_validation",
        message: "Prompt outputs failed validation".to_owned(),
        details: lines.join("\n"),
        extra_info: Map::new(),
        more: Map::new(),
        node_errors,
    }
}

/// Errors by node, as they stand beside a refusal, or beside a job that runs without the nodes that have them.
#[must_use]
pub fn node_errors<'a>(
    errors: impl IntoIterator<Item = (&'a workflow_core::NodeId, &'a workflow_core::NodeErrors)>,
) -> Map<String, Value> {
    let errors = errors.into_iter().map(|(id, node)| {
        let own: Vec<Value> = node.errors.iter().map(one).collect();
        let outputs = node.dependent_outputs.iter().map(ToString::to_string);
        let body = json!({
            "errors": own,
            "dependent_outputs": outputs.collect::<Vec<_>>(),
            "class_type": node.class_type,
        });
        (id.to_string(), body)
    });
    errors.collect()
}

fn is_missing_type(error: &ValidationError) -> bool {
    matches!(error.kind, ValidationErrorKind::MissingNodeType { .. })
}

fn one(error: &ValidationError) -> Value {
    json!({
        "type": error.kind.error_type(),
        "message": error.message(),
        "details": error.details(),
        "extra_info": extra_info(error),
    })
}

/// What Python raises for a link to a slot that its node does not have, or to no node.
fn exception_of_link(node_exists: bool) -> &'static str {
    match node_exists {
        true => "IndexError",
        false => "KeyError",
    }
}

fn extra_info(error: &ValidationError) -> Map<String, Value> {
    let mut extra = Map::new();
    let mut put = |name: &str, value: Value| extra.insert(name.to_owned(), value);
    match &error.kind {
        ValidationErrorKind::MissingNodeType {
            node, class, title, ..
        } => {
            put("node_id", node.to_string().into());
            put("class_type", class.clone().into());
            put("node_title", title.clone().or_else(|| class.clone()).into());
            put("reason", error.reason().into());
            return extra;
        }
        ValidationErrorKind::DependencyCycle { cycle, .. } => {
            let nodes = cycle.iter().map(|(id, _)| id.to_string());
            let nodes: Vec<String> = nodes.collect();
            put("node_id", nodes.first().cloned().into());
            put("cycle_nodes", nodes.into());
            return extra;
        }
        ValidationErrorKind::UnknownLink {
            read_by: None,
            node_exists,
            ..
        } => {
            put("exception_type", exception_of_link(*node_exists).into());
            return extra;
        }
        ValidationErrorKind::RequiredInputMissing
        | ValidationErrorKind::BadLinkedInput
        | ValidationErrorKind::UnknownLink { .. }
        | ValidationErrorKind::ReturnTypeMismatch { .. }
        | ValidationErrorKind::InvalidInputType { .. }
        | ValidationErrorKind::ValueSmallerThanMin
        | ValidationErrorKind::ValueBiggerThanMax
        | ValidationErrorKind::ValueNotInList
        | ValidationErrorKind::TextTooLong { .. }
        | ValidationErrorKind::InvalidFile { .. } => {}
    }
    put("input_name", error.input.clone().unwrap_or_default().into());
    let is_plain = matches!(
        error.kind,
        ValidationErrorKind::RequiredInputMissing
            | ValidationErrorKind::TextTooLong { .. }
            | ValidationErrorKind::InvalidFile { .. }
    );
    if is_plain {
        return extra;
    }
    let definition = error.definition.as_deref();
    let config = definition.map(|input| input_config(input, None, MOST_CHOICES));
    put("input_config", config.flatten().unwrap_or(Value::Null));
    match &error.kind {
        ValidationErrorKind::ReturnTypeMismatch {
            received_type,
            linked_node,
            slot,
        } => {
            put("received_type", received_type.clone().into());
            put("linked_node", json!([linked_node.to_string(), slot]));
        }
        ValidationErrorKind::UnknownLink {
            node,
            node_exists,
            read_by,
        } => {
            let message = match node_exists {
                true => "tuple index out of range".to_owned(),
                false => format!("'{node}'"),
            };
            put("exception_message", message.into());
            put("exception_type", exception_of_link(*node_exists).into());
            if let Some((reader, _)) = read_by {
                put("linked_node", json!([node, reader.to_string()]));
            }
        }
        ValidationErrorKind::InvalidInputType { exception } => {
            put("received_value", error.received.clone().unwrap_or_default());
            put("exception_message", exception.clone().into());
        }
        ValidationErrorKind::BadLinkedInput
        | ValidationErrorKind::ValueSmallerThanMin
        | ValidationErrorKind::ValueBiggerThanMax
        | ValidationErrorKind::ValueNotInList
        | ValidationErrorKind::MissingNodeType { .. }
        | ValidationErrorKind::DependencyCycle { .. }
        | ValidationErrorKind::RequiredInputMissing
        | ValidationErrorKind::TextTooLong { .. }
        | ValidationErrorKind::InvalidFile { .. } => {
            put("received_value", error.received.clone().unwrap_or_default());
        }
    }
    extra
}

//! The JSON Schema of the body of a published model: bounds and choices are those of the nodes, defaults those of the graph.

use router_core::ModelId;
use serde_json::{Map, Value, json};
use workflow_core::Socket;

use super::INLINE;
use super::fields::Found;

/// Most choices that are listed; beyond that any text passes, and the node judges it.
const MOST_CHOICES: usize = 1_000;

/// The schema for these fields.
pub(super) fn of(model: &ModelId, description: Option<&str>, fields: &[Found]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for found in fields {
        properties.insert(found.name.clone(), property(found));
        if found.default.is_none() {
            required.push(found.name.as_str());
        }
    }
    properties.insert(
        INLINE.to_owned(),
        json!({
            "type": "boolean",
            "default": false,
            "description": "Whether the result comes in the answer as a data URL; otherwise, and above 5 MiB, as a signed link.",
        }),
    );
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("title".to_owned(), model.model().into());
    if let Some(description) = description {
        schema.insert("description".to_owned(), description.into());
    }
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema.insert("additionalProperties".to_owned(), false.into());
    schema.into()
}

fn property(found: &Found) -> Value {
    let mut property = Map::new();
    let mut put = |key: &str, value: Value| {
        property.insert(key.to_owned(), value);
    };
    let input = &found.definition;
    let bound = |key: &str| {
        input
            .options
            .get(key)
            .filter(|bound| bound.is_number())
            .cloned()
    };
    match &input.socket {
        Socket::File { .. } => {
            put("type", "string".into());
            put(
                "description",
                "A data URL, such as data:image/png;base64,..., an https address, or the id of an asset of this workspace."
                    .into(),
            );
            put("minLength", 1.into());
            put("maxLength", (32 << 20).into());
            return property.into();
        }
        Socket::Int => put("type", "integer".into()),
        Socket::Float => put("type", "number".into()),
        Socket::String => put("type", "string".into()),
        Socket::Boolean => put("type", "boolean".into()),
        Socket::Combo { choices, .. } => {
            put("type", "string".into());
            // The value of the graph may be one that the list of a worker lacks by now.
            let known = found.default.as_ref().and_then(Value::as_str);
            let is_known = known.is_none_or(|known| choices.iter().any(|choice| choice == known));
            if is_known && !choices.is_empty() && choices.len() <= MOST_CHOICES {
                put("enum", choices.clone().into());
            }
        }
        // Whatever the node takes; links and groups are no fields.
        Socket::Widget(_)
        | Socket::Open(_)
        | Socket::Autogrow(_)
        | Socket::DynamicCombo(_)
        | Socket::Link(_) => {}
    }
    if matches!(input.socket, Socket::Int | Socket::Float) {
        for (key, option) in [("minimum", "min"), ("maximum", "max")] {
            if let Some(bound) = bound(option) {
                put(key, bound);
            }
        }
    }
    if let Some(default) = &found.default {
        put("default", default.clone());
    }
    if let Some(Value::String(tooltip)) = input.options.get("tooltip") {
        put("description", tooltip.as_str().into());
    }
    property.into()
}

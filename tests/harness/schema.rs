//! Checks values against the JSON Schemas of this repository's documents: the words that these schemas use, and no others.

use serde_json::Value;

/// What does not fit the schema, with the place where it does not.
///
/// # Panics
/// If the schema uses a type or a reference that does not exist.
#[must_use]
pub fn misfits(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let schema = document
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{reference} is there"));
        return misfits(document, schema, value, place);
    }
    let each = |schemas: &Value| -> Vec<Vec<String>> {
        let schemas = schemas.as_array().into_iter().flatten();
        schemas
            .map(|schema| misfits(document, schema, value, place))
            .collect()
    };
    let mut found: Vec<String> = each(&schema["allOf"]).concat();
    let any = each(&schema["anyOf"]);
    if !any.is_empty() && !any.iter().any(Vec::is_empty) {
        found.push(format!("{place}: fits none of several: {value}"));
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    // One word, or a list of them.
    let kinds: Vec<&str> = match schema["type"].as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        None => schema["type"].as_str().into_iter().collect(),
    };
    if !kinds.is_empty() && !kinds.into_iter().any(is) {
        found.push(format!("{place}: is no {}: {value}", schema["type"]));
    }
    if let Some(words) = schema["enum"]
        .as_array()
        .filter(|words| !words.contains(value))
    {
        found.push(format!("{place}: {value} is none of {words:?}"));
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.is_object() && value.get(name).is_none() {
            found.push(format!("{place}: has no {name}"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null | Value::Bool(true)) => {}
            (Value::Null, Value::Bool(false)) => found.push(format!("{place}: is not known")),
            (Value::Null, schema) | (schema, _) => {
                found.extend(misfits(document, schema, value, &place))
            }
        }
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(misfits(
            document,
            &schema["items"],
            value,
            &format!("{place}[{index}]"),
        ));
    }
    found
}

//! What a model takes: the schema of the body within its OpenAPI document.

use serde_json::{Map, Value};

/// Links of a schema that are followed one after the other; a longer chain leads in a circle.
const MOST_LINKS: usize = 16;

/// The input schema of a model.
#[derive(Clone, Debug)]
pub struct InputSchema {
    document: Value,
    schema: Value,
}

impl InputSchema {
    /// Finds the schema of the request body in a document.
    #[must_use]
    pub fn of(document: Value) -> Self {
        let operations = document["paths"].as_object().into_iter().flatten();
        let schema = operations
            .map(|(_, item)| &item["post"]["requestBody"]["content"]["application/json"]["schema"])
            .find(|schema| schema.is_object());
        let schema = schema.cloned().unwrap_or_default();
        let schema = follow(&document, &schema).clone();
        Self { document, schema }
    }

    /// The schema of the body, as the document has it.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The fields with their schemas, in the order of the document; empty where nobody described them.
    #[must_use]
    pub fn fields(&self) -> Vec<(&str, &Value)> {
        let properties = self.schema["properties"].as_object();
        let properties: Option<&Map<String, Value>> = properties;
        let fields = properties.into_iter().flatten();
        fields
            .map(|(name, schema)| (name.as_str(), follow(&self.document, schema)))
            .collect()
    }

    /// The schema of one field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        let schema = self.schema["properties"].get(name)?;
        Some(follow(&self.document, schema))
    }

    /// Whether a field must be there.
    #[must_use]
    pub fn is_required(&self, name: &str) -> bool {
        let required = self.schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|required| required == name))
    }

    /// Whether fields that the document does not name are accepted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.schema["additionalProperties"] != Value::Bool(false)
    }

    /// The types that a field accepts, those of alternatives included; empty for any.
    #[must_use]
    pub fn types<'a>(&'a self, schema: &'a Value) -> Vec<&'a str> {
        let schema = follow(&self.document, schema);
        let mut types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        };
        for word in ["anyOf", "oneOf"] {
            for alternative in schema[word].as_array().into_iter().flatten() {
                let alternative = follow(&self.document, alternative);
                if let Some(one) = alternative["type"].as_str() {
                    types.push(one);
                }
            }
        }
        types
    }
}

/// What a schema refers to, within the document.
fn follow<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MOST_LINKS {
        let pointer = schema["$ref"]
            .as_str()
            .and_then(|text| text.strip_prefix('#'));
        match pointer.and_then(|pointer| document.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_body_is_found_behind_references() {
        let document = json!({
            "paths": {"/v1/models/a/b": {"post": {"requestBody": {"content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Input"}}}}}}},
            "components": {"schemas": {
                "Input": {"type": "object", "required": ["prompt"], "additionalProperties": false, "properties": {
                    "prompt": {"type": "string"}, "size": {"$ref": "#/components/schemas/Size"}}},
                "Size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "Loop": {"$ref": "#/components/schemas/Loop"}}}});
        let input = InputSchema::of(document);
        let names: Vec<&str> = input.fields().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["prompt", "size"]);
        assert!(input.is_required("prompt") && !input.is_required("size") && !input.is_open());
        let size = input.field("size").expect("a field");
        assert_eq!(input.types(size), ["integer", "null"]);
        assert!(
            follow(
                &input.document,
                &json!({"$ref": "#/components/schemas/Loop"})
            )
            .is_object()
        );
    }

    #[test]
    fn a_document_without_a_schema_takes_everything() {
        let input = InputSchema::of(json!({"paths": {}}));
        assert!(input.is_open() && input.fields().is_empty());
    }
}

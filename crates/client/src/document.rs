//! What a model takes: the schema of the body within its OpenAPI document.

use serde_json::{Map, Value};

/// Links of a schema that are followed one after the other; a longer chain leads in a circle.
const MOST_LINKS: usize = 16;

/// Most items that are made up for a list.
const MOST_ITEMS: u64 = 4;

/// Objects and lists within each other that are made up at most: a schema may refer to itself.
const MOST_LEVELS: usize = 4;

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

    /// A body with what must be there, and everything else left out: what a call by the defaults looks like. A field that has
    /// to be a picture, or a text of some form, is filled with what may not be one.
    #[must_use]
    pub fn least_body(&self) -> Value {
        self.least_object(&self.schema, MOST_LEVELS)
    }

    fn least_object(&self, schema: &Value, levels: usize) -> Value {
        let required = schema["required"].as_array().into_iter().flatten();
        let members = required.filter_map(|name| {
            let name = name.as_str()?;
            let field = follow(&self.document, schema["properties"].get(name)?);
            Some((name.to_owned(), self.least(field, levels)))
        });
        Value::Object(members.collect())
    }

    /// The default of a field, its first choice, or the least value of its first type.
    fn least(&self, field: &Value, levels: usize) -> Value {
        let given = [&field["default"], &field["const"], &field["enum"][0]];
        if let Some(given) = given.into_iter().find(|given| !given.is_null()) {
            return given.clone();
        }
        let Some(below) = levels.checked_sub(1) else {
            return Value::Null;
        };
        match self.types(field).first().copied() {
            Some("integer" | "number") if field["minimum"].is_null() => Value::from(1),
            Some("integer" | "number") => field["minimum"].clone(),
            Some("boolean") => Value::Bool(false),
            Some("array") => {
                let least = field["minItems"].as_u64().unwrap_or(0).min(MOST_ITEMS);
                let item = follow(&self.document, &field["items"]);
                (0..least).map(|_| self.least(item, below)).collect()
            }
            Some("object") => self.least_object(field, below),
            _ => Value::from("text"),
        }
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
    fn the_least_body_has_what_must_be_there() {
        let input = InputSchema {
            document: Value::Null,
            schema: json!({"type": "object", "required": ["a", "b", "c", "d", "e", "f"], "properties": {
                "a": {"type": "string"}, "b": {"type": "integer", "minimum": 4}, "c": {"enum": ["x", "y"]},
                "d": {"type": "array", "minItems": 2, "items": {"type": "boolean"}}, "e": {"type": "number", "default": 0.5},
                "f": {"type": "object", "required": ["h"], "properties": {"h": {"const": "i"}}}, "g": {"type": "string", "default": "left out"}}}),
        };
        let expected =
            json!({"a": "text", "b": 4, "c": "x", "d": [false, false], "e": 0.5, "f": {"h": "i"}});
        assert_eq!(input.least_body(), expected);
    }

    #[test]
    fn a_document_without_a_schema_takes_everything() {
        let input = InputSchema::of(json!({"paths": {}}));
        assert!(input.is_open() && input.fields().is_empty());
    }
}

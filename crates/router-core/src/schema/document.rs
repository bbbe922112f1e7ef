//! Writing the document of a model.

use serde_json::{Map, Value, json};

use super::SchemaError;
use super::references::{self, Standalone};
use crate::ModelId;

/// The minified document of a model with its authored schema, or with an open object. `streams` tells whether its answers may
/// be server-sent events.
pub(super) fn bytes(
    id: &ModelId,
    authored: Option<Value>,
    streams: bool,
) -> Result<Vec<u8>, SchemaError> {
    let is_authored = authored.is_some();
    let open = json!({"type": "object", "additionalProperties": true});
    let Standalone { schema, components } =
        references::standalone(authored.unwrap_or_else(|| open.clone()))?;

    let mut results = json!({"application/json": {"schema": open}});
    if streams {
        results["text/event-stream"] = json!({"schema": {"type": "string"}});
    }
    let operation = json!({
        "operationId": "run",
        "summary": format!("Run {id} and wait for its result"),
        "parameters": [{
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        }],
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": schema}},
        },
        "responses": {
            "200": {
                "description": "The model's own output, unchanged.",
                "content": results,
            },
            "default": {
                "description": "An error; its bucket is in the header X-Service-Error-Type.",
            },
        },
        "security": [{"bearer": []}],
    });
    let mut paths = Map::new();
    paths.insert(path(id), json!({"post": operation}));
    let mut parts = Map::new();
    if !components.is_empty() {
        parts.insert("schemas".to_owned(), Value::Object(components));
    }
    parts.insert(
        "securitySchemes".to_owned(),
        json!({"bearer": {"type": "http", "scheme": "bearer"}}),
    );
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": id.as_str(), "version": "1"},
        "paths": paths,
        "components": parts,
        "x-service-router-model-id": id.as_str(),
        "x-service-input-schema-authored": is_authored,
    });
    Ok(document.to_string().into_bytes())
}

/// JSON pointer to the schema of the body within the document.
pub(super) fn body_pointer(id: &ModelId) -> String {
    let path = path(id).replace('~', "~0").replace('/', "~1");
    format!("/paths/{path}/post/requestBody/content/application~1json/schema")
}

/// The concrete path of the call.
fn path(id: &ModelId) -> String {
    format!("/v1/models/{id}")
}

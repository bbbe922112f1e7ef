//! The input schema of a model: one OpenAPI document that is served, and that compiles the validator of calls.
//!
//! The bytes are minified and follow from the definition alone, so every replica serves the same ones under the same tag.

mod document;
mod references;
mod validator;
mod violations;

use bytes::Bytes;
use serde_json::Value;

use crate::{ModelId, Violation};
use validator::Validator;

/// The standalone OpenAPI document of a model (RouterModelInputSchemaDocument).
pub struct SchemaDocument {
    bytes: Bytes,
    etag: String,
    /// `None` where no schema was authored: any object is valid.
    validator: Option<Validator>,
}

/// The input schema of a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A reference leads out of the schema, or to nothing.
    #[error("`{0}` refers to nothing in this schema")]
    Reference(String),
    /// Two definitions have one name.
    #[error("two definitions are named `{0}`")]
    Ambiguous(String),
    /// It is no JSON Schema, or has a pattern that cannot be matched in linear time.
    #[error("{0}")]
    Invalid(String),
}

impl SchemaDocument {
    /// Builds the document of a model and compiles its validator from the document's bytes.
    pub(crate) fn new(
        id: &ModelId,
        authored: Option<Value>,
        streams: bool,
    ) -> Result<Self, SchemaError> {
        let is_authored = authored.is_some();
        let bytes = Bytes::from(document::bytes(id, authored, streams)?);
        let etag = format!("\"{}\"", blake3::hash(&bytes).to_hex());
        let validator = if is_authored {
            Some(Validator::of_document(id, &bytes)?)
        } else {
            None
        };
        Ok(Self {
            bytes,
            etag,
            validator,
        })
    }

    /// The document.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The strong entity tag over the bytes, in quotes.
    #[must_use]
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// Whether the model has a schema; without one the document describes an open object.
    #[must_use]
    pub fn is_authored(&self) -> bool {
        self.validator.is_some()
    }

    /// Every way in which a body breaks the schema, in document order; nothing if it does not.
    #[must_use]
    pub fn violations(&self, body: &Value) -> Vec<Violation> {
        if !body.is_object() {
            return vec![violations::not_an_object()];
        }
        self.validator
            .as_ref()
            .map_or_else(Vec::new, |validator| validator.violations(body))
    }
}

impl std::fmt::Debug for SchemaDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SchemaDocument({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests;

//! The one place that knows the validating library.

use jsonschema::{Draft, PatternOptions};
use serde_json::Value;

use super::{SchemaError, document, violations};
use crate::{ModelId, Violation};

/// Most bytes that one compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;

/// Checks bodies against the schema in a document.
pub(super) struct Validator(jsonschema::Validator);

impl Validator {
    /// Compiles the schema of the body from the very bytes that are served.
    pub(super) fn of_document(id: &ModelId, bytes: &[u8]) -> Result<Self, SchemaError> {
        let invalid = |error: &dyn std::fmt::Display| SchemaError::Invalid(error.to_string());
        let body = document::body_pointer(id);
        let mut root: Value = serde_json::from_slice(bytes).map_err(|error| invalid(&error))?;
        // The document becomes a schema by pointing at its part; its other members mean nothing to a validator.
        root["$ref"] = format!("#{body}").into();
        let compiled = jsonschema::options()
            .with_draft(Draft::Draft202012)
            // No file and no address is ever opened for a reference.
            .offline()
            // Patterns come from catalog files and run on bodies of callers: linear time or not at all.
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(PATTERN_BYTES)
                    .dfa_size_limit(PATTERN_BYTES),
            )
            .build(&root)
            .map_err(|error| {
                let place = error.instance_path().as_str();
                let place = place.strip_prefix(&body).unwrap_or(place);
                invalid(&format!("{error} (at {place})"))
            })?;
        Ok(Self(compiled))
    }

    /// Every violation of a body, in document order.
    pub(super) fn violations(&self, body: &Value) -> Vec<Violation> {
        if self.0.is_valid(body) {
            return Vec::new();
        }
        violations::of(self.0.iter_errors(body), body)
    }
}

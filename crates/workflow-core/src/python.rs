//! Python's conversions and spellings, as far as graphs depend on them.

use serde_json::Value;

/// What `repr()` says of a JSON value.
#[must_use]
pub fn python_repr(value: &Value) -> String {
    value.to_string()
}

/// What `str()` says of a JSON value.
#[must_use]
pub fn python_str(value: &Value) -> String {
    value.to_string()
}

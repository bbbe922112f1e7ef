//! What v1 remembers of a submission: a small document in the job's opaque `origin` bytes.
//!
//! Jobs of other APIs have none of it and are shown all the same.

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// What came with a submission besides its graph, without any secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The number that the client was told.
    pub number: f64,
    /// `extra_data` as it came, secrets left out.
    pub extra_data: Map<String, Value>,
    /// The saved workflow that the client says it is from.
    pub workflow_id: Option<String>,
}

impl Origin {
    /// As bytes to be kept with the job.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let document = json!({
            "v1": 1,
            "number": self.number,
            "extra_data": self.extra_data,
            "workflow_id": self.workflow_id,
        });
        document.to_string().into()
    }

    /// Reads what was kept; nothing of jobs that came another way.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let Ok(Value::Object(mut document)) = serde_json::from_slice(bytes) else {
            return Self::default();
        };
        if !document.contains_key("v1") {
            return Self::default();
        }
        let extra_data = match document.remove("extra_data") {
            Some(Value::Object(extra_data)) => extra_data,
            _ => Map::new(),
        };
        let workflow_id = document.get("workflow_id").and_then(Value::as_str);
        Self {
            number: document
                .get("number")
                .and_then(Value::as_f64)
                .unwrap_or(0.0),
            extra_data,
            workflow_id: workflow_id.map(str::to_owned),
        }
    }
}

/// A number as clients see it: whole ones without a point.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back_and_what_is_not_ours_is_nothing() {
        let origin = Origin {
            number: -2.5,
            extra_data: [("a".to_owned(), json!({"b": 1}))].into_iter().collect(),
            workflow_id: Some("w".to_owned()),
        };
        assert_eq!(Origin::from_bytes(&origin.to_bytes()), origin);
        for foreign in [&b""[..], b"\x00opaque", b"{}", b"[1]"] {
            assert_eq!(Origin::from_bytes(foreign), Origin::default());
        }
    }
}

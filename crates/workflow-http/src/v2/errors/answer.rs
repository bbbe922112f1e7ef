//! What a client reads of an error, and the answers that many errors have.

use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

/// The code of whatever is the service's own fault.
pub(super) const FAULT: &str = "upstream_error";

/// What a client reads of an error.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) details: Option<Value>,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
}

impl Answer {
    pub(super) fn details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }

    pub(super) fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self {
            header: Some((name, value)),
            ..self
        }
    }
}

pub(super) fn plain(status: StatusCode, code: &'static str, message: impl Into<String>) -> Answer {
    Answer {
        status,
        code,
        message: message.into(),
        details: None,
        header: None,
    }
}

pub(super) fn invalid(status: StatusCode, message: impl Into<String>) -> Answer {
    plain(status, "invalid_request", message)
}

pub(super) fn not_found(message: &str) -> Answer {
    plain(StatusCode::NOT_FOUND, "not_found", message)
}

pub(super) fn too_large(limit: u64) -> Answer {
    plain(
        StatusCode::PAYLOAD_TOO_LARGE,
        "payload_too_large",
        format!("this is larger than the {limit} bytes that are taken; send less"),
    )
    .details(json!({ "limit_bytes": limit }))
}

pub(super) fn over_quota(limit: u64) -> Answer {
    plain(
        StatusCode::PAYLOAD_TOO_LARGE,
        "storage_quota_exceeded",
        format!(
            "files and graphs of the account may have {limit} bytes together, and this does not fit; \
             delete files, or wait until jobs and files expire"
        ),
    )
    .details(json!({ "limit_bytes": limit }))
}

pub(super) fn key_reused(field: &'static str, id: &str) -> Answer {
    plain(
        StatusCode::UNPROCESSABLE_ENTITY,
        "idempotency_key_reuse",
        "the idempotency key was used with another request; use a new key for a new request",
    )
    .details(json!({ field: id }))
}

pub(super) fn fault() -> Answer {
    plain(
        StatusCode::INTERNAL_SERVER_ERROR,
        FAULT,
        "the service could not do this now; try again, and quote the request id if this repeats",
    )
}

//! The answers: JSON, and what has no body.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use serde_json::Value;

use crate::pieces::{self, Pieces};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// A JSON answer. What it says changes with every job, so no cache may keep it.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    bytes(status, JSON, value.to_string())
}

/// A JSON answer of status 200.
pub(super) fn ok(value: &Value) -> Response<Body> {
    json(StatusCode::OK, value)
}

/// A JSON answer of status 200, made while it is sent.
///
/// # Errors
/// If it cannot be begun.
pub(super) async fn pieces<P: Pieces>(pieces: P) -> Result<Response<Body>, P::Error> {
    let body = pieces::body(pieces).await?;
    Ok(bytes(StatusCode::OK, JSON, Bytes::new()).map(|_| body))
}

/// Bytes of a type.
pub(super) fn bytes(
    status: StatusCode,
    content_type: HeaderValue,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Body::full(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

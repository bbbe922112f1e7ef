//! The answers that are not errors.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use router_core::Answer;
use serde::Serialize;

/// How long a schema document may be kept: it is the caller's own, and asked after again.
const SCHEMA_CACHING: HeaderValue =
    HeaderValue::from_static("private, max-age=300, must-revalidate");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A JSON answer.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("wire structs have only text keys");
    json_bytes(status, bytes)
}

/// A JSON answer that is spelled already.
pub(crate) fn json_bytes(status: StatusCode, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The bytes of a partner, as they came, with the type that it gave them.
pub(crate) fn forwarded(status: StatusCode, answer: Answer) -> Response<Body> {
    let mut response = Response::new(Body::full(answer.body));
    *response.status_mut() = status;
    // A type that is no header value cannot have come in one; a client would guess without any.
    let named = HeaderValue::from_str(&answer.content_type);
    let content_type =
        named.unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// The schema document of a model, or word that the caller has it.
pub(crate) fn schema(etag: HeaderValue, bytes: Bytes, is_known: bool) -> Response<Body> {
    let mut response = if is_known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        json_bytes(StatusCode::OK, bytes)
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, etag);
    headers.insert(CACHE_CONTROL, SCHEMA_CACHING);
    response
}

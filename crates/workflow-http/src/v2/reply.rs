//! The successful answers: JSON that nobody keeps.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use serde::Serialize;

use crate::pieces::{self, Pieces};

/// A JSON answer. It holds short-lived links, so no cache may keep it.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("wire structs have only text keys");
    json_bytes(status, bytes)
}

/// A JSON answer that is spelled already.
pub(crate) fn json_bytes(status: StatusCode, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A JSON answer of status 200 that is made while it is sent.
///
/// # Errors
/// If it cannot be begun.
pub(crate) async fn pieces<P: Pieces>(pieces: P) -> Result<Response<Body>, P::Error> {
    let body = pieces::body(pieces).await?;
    Ok(json_bytes(StatusCode::OK, Bytes::new()).map(|_| body))
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

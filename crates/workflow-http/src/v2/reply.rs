//! The successful answers: JSON that nobody keeps.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::{Body, sse};
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

/// Ends of lines to some readers of streams, Python's among them, though neither to JSON nor to the format of events: as they
/// may stand in a text only, they can be spelled so that nobody takes them for one.
const LINE_ENDS: [(char, &str); 3] = [
    ('\u{85}', "\\u0085"),
    ('\u{2028}', "\\u2028"),
    ('\u{2029}', "\\u2029"),
];

/// An event of a stream.
pub(crate) fn event<T: Serialize>(name: &'static str, payload: &T) -> Bytes {
    let mut data = serde_json::to_string(payload).expect("wire structs have only text keys");
    // Pictures are the large ones, and they are in ASCII.
    if !data.is_ascii() {
        for (end, spelled) in LINE_ENDS {
            data = data.replace(end, spelled);
        }
    }
    sse::event(name, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reader_finds_the_end_of_a_line_within_an_event() {
        let text = "a\u{85}b\u{2028}c\u{2029}d\nä";
        let told = event("e", &text);
        let told = std::str::from_utf8(&told).expect("UTF-8");
        assert_eq!(
            told,
            "event: e\ndata: \"a\\u0085b\\u2028c\\u2029d\\nä\"\n\n"
        );
        let data = told.trim_end().rsplit_once("data: ").expect("data").1;
        assert_eq!(
            serde_json::from_str::<String>(data).ok().as_deref(),
            Some(text)
        );
    }
}

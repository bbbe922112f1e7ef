//! Server-sent events: one event or comment as bytes, and the response that streams them.
//!
//! There are no ids and no resuming. What is streamed is made by the application; here it only gets its heartbeat, and the
//! headers that keep caches and proxies from holding it back.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response};
use tokio::time::timeout;

use crate::body::{Body, BoxError};

/// What a quiet stream says: a line that clients skip.
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");

/// nginx and its like hold a response back until a buffer is full, unless told not to.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Encodes one event. Each line of `data` becomes a data line; clients put them together again with `\n`.
pub fn event(name: &'static str, data: &str) -> Bytes {
    let mut text = String::with_capacity(name.len() + data.len() + 16);
    text.push_str("event: ");
    text.push_str(name);
    // All three line ends of the format: a stray one would end the field early and start another.
    for line in data.replace("\r\n", "\n").split(['\n', '\r']) {
        text.push_str("\ndata: ");
        text.push_str(line);
    }
    text.push_str("\n\n");
    Bytes::from(text)
}

/// Puts a comment wherever `events` is silent for `every`, so that both ends and all between know the stream is alive.
pub fn with_heartbeat<S>(events: S, every: Duration) -> impl Stream<Item = Bytes> + Send
where
    S: Stream<Item = Bytes> + Send,
{
    stream::unfold(Box::pin(events), move |mut events| async move {
        let next = timeout(every, events.next()).await;
        let bytes = match next {
            Ok(event) => event?,
            Err(_silence) => HEARTBEAT,
        };
        Some((bytes, events))
    })
}

/// The response that streams encoded events until they end.
pub fn sse_response<S>(events: S) -> Response<Body>
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    let mut response = Response::new(Body::stream(events.map(Ok::<_, BoxError>)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[test]
    fn an_event_is_a_name_and_data_lines() {
        assert_eq!(
            event("status", r#"{"a":1}"#),
            "event: status\ndata: {\"a\":1}\n\n"
        );
        assert_eq!(event("e", ""), "event: e\ndata: \n\n");
        assert_eq!(
            event("e", "a\nb\r\nc\rd"),
            "event: e\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
        );
    }

    #[test]
    fn data_cannot_start_a_field_of_its_own() {
        let forged = event("e", "a\r\revent: forged");
        assert_eq!(forged, "event: e\ndata: a\ndata: \ndata: event: forged\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_filled_and_the_end_kept() {
        let start = Instant::now();
        let events = stream::iter([25, 1]).then(|seconds| async move {
            sleep(Duration::from_secs(seconds)).await;
            event("e", "x")
        });
        let told = with_heartbeat(events, Duration::from_secs(10));
        let told: Vec<_> = told
            .map(|bytes| (start.elapsed().as_secs(), bytes == HEARTBEAT))
            .collect()
            .await;
        assert_eq!(told, [(10, true), (20, true), (25, false), (26, false)]);
    }

    #[tokio::test]
    async fn the_response_is_kept_by_nobody() {
        let response = sse_response(stream::iter([event("a", "1"), event("b", "2")]));
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let body = response.into_body().collect().await.expect("a body");
        assert_eq!(
            body.to_bytes(),
            "event: a\ndata: 1\n\nevent: b\ndata: 2\n\n"
        );
    }
}

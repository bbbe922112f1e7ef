//! The collector, asked by the client that everything here is asked with.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use hyper_kit::{Body, Client, FetchError, ReadPace, read_limited};
use opentelemetry_http::{HttpClient, HttpError};

/// Most bytes of an answer, which says what was not taken.
const ANSWER_BYTES: usize = 64 * 1024;

/// The first and the longest pause before a batch is sent again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Sends batches to the collector.
#[derive(Debug)]
pub(super) struct CollectorClient(pub(super) Client);

#[async_trait]
impl HttpClient for CollectorClient {
    /// Sends a batch until the collector takes it or says that it never will. Whoever waits for it sets the time.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut pause = PAUSES.0;
        loop {
            let (head, body) = request.clone().into_parts();
            let request = Request::from_parts(head, Body::full(body));
            let wished = match self.0.send(request).await {
                Ok(answer) if is_passing(answer.status()) => seconds(&answer),
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    let body = read_limited(body, ANSWER_BYTES, ReadPace::default()).await?;
                    return Ok(Response::from_parts(head, body));
                }
                Err(error @ (FetchError::BadUrl(_) | FetchError::NotAllowed { .. })) => {
                    return Err(error.into());
                }
                Err(_) => None,
            };
            tokio::time::sleep(wished.unwrap_or(pause)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

/// Whether a batch that is answered so may be sent again, as OTLP has it.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// After how long a collector wants to be asked again.
fn seconds(answer: &Response<Body>) -> Option<Duration> {
    let wished = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    wished.parse().ok().map(Duration::from_secs)
}

//! The HTTP client of the workspace as the one that `object_store` sends its requests with.
//!
//! What has a bound is silence, not a request: a part of an upload takes as long as the line to the store needs for it.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Frame, SizeHint};
use hyper_kit::{Body, Client, FetchError, PacedBody, ReadPace};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};

/// Gives out one client, whatever it is asked for: everything about it is decided before.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) client: Client,
    /// The longest wait until more of a request is taken, for the head of an answer, and for the next bytes of its body.
    pub(super) patience: Duration,
}

/// An answer that means something to us and is not worth another try: no such range, or no room.
#[derive(Debug, thiserror::Error)]
#[error("the store answered {0}")]
pub(super) struct Refused(pub(super) StatusCode);

/// Most bytes of a request that are handed over at once: so it is seen that they are taken, however large the whole is.
const PIECE_BYTES: usize = 64 * 1024;

/// A body of a request in pieces, which counts those that were taken.
struct Counted<B> {
    inner: B,
    /// What is left of the inner body's piece.
    rest: Bytes,
    taken: Arc<AtomicU64>,
}

/// `object_store` shares bodies between threads, which a body of ours allows to the one who reads it.
struct Shared(Mutex<PacedBody<Body>>);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Deleting twice does no harm, and is not seen as such.
        let is_delete = request.method() == Method::DELETE;
        let failed = |error| failed(error, is_delete);
        let taken = Arc::new(AtomicU64::new(0));
        let request = request.map(|body| {
            Body::new(Counted {
                inner: body,
                rest: Bytes::new(),
                taken: Arc::clone(&taken),
            })
        });
        let sent = self.client.send(request);
        let answer = match unless_silent(sent, &taken, self.patience).await {
            Some(answer) => answer.map_err(failed)?,
            None => return Err(failed(FetchError::TimedOut)),
        };
        let status = answer.status();
        if matches!(
            status,
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::INSUFFICIENT_STORAGE
        ) {
            return Err(HttpError::new(HttpErrorKind::Unknown, Refused(status)));
        }
        let pace = ReadPace {
            idle: self.patience,
            grace: self.patience,
            min_bytes_per_second: 0,
        };
        Ok(
            answer
                .map(|body| HttpResponseBody::new(Shared(Mutex::new(PacedBody::new(body, pace))))),
        )
    }
}

/// Waits for the answer to a request as long as more of the request is taken; `None` if nothing is for this long. Looking once in
/// that time, it gives up after twice of it at most.
async fn unless_silent<T>(
    sent: impl Future<Output = T>,
    taken: &AtomicU64,
    patience: Duration,
) -> Option<T> {
    tokio::pin!(sent);
    let mut before = 0;
    loop {
        if let Ok(answer) = tokio::time::timeout(patience, &mut sent).await {
            return Some(answer);
        }
        let now = taken.load(Ordering::Relaxed);
        if now == before {
            return None;
        }
        before = now;
    }
}

/// What `object_store` may do about a failure: what was not sent it sends again, and what may have been acted on only if that
/// does no harm.
fn failed(error: FetchError, may_repeat: bool) -> HttpError {
    let kind = match &error {
        FetchError::Unreachable { .. } | FetchError::Tls { .. } => HttpErrorKind::Connect,
        FetchError::TimedOut | FetchError::Broken { .. } if may_repeat => HttpErrorKind::Request,
        FetchError::TimedOut => HttpErrorKind::Timeout,
        FetchError::Broken { .. } => HttpErrorKind::Interrupted,
        FetchError::BadUrl(_)
        | FetchError::NotAllowed { .. }
        | FetchError::TooLarge { .. }
        | FetchError::Status(_) => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}

impl<B> http_body::Body for Counted<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let body = self.get_mut();
        if body.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut body.inner).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => body.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = body.rest.len().min(PIECE_BYTES);
        let piece = body.rest.split_to(length);
        body.taken.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, inner) = (self.rest.len() as u64, self.inner.size_hint());
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(inner.lower().saturating_add(rest));
        hint
    }
}

impl http_body::Body for Shared {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let body = self.get_mut().0.get_mut();
        let body = body.expect("polling does not panic");
        let polled = Pin::new(body).poll_frame(cx);
        polled.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.0.lock().expect("polling does not panic");
        body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::{BodyExt, Full};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn counted(bytes: usize) -> (Counted<Full<Bytes>>, Arc<AtomicU64>) {
        let taken = Arc::new(AtomicU64::new(0));
        let body = Counted {
            inner: Full::new(Bytes::from(vec![7; bytes])),
            rest: Bytes::new(),
            taken: Arc::clone(&taken),
        };
        (body, taken)
    }

    /// A line that takes a piece in almost the longest time, 7 KiB/s: a part of 8 MiB needs 19 minutes.
    #[tokio::test(start_paused = true)]
    async fn a_slow_line_takes_its_time_and_silence_ends_it() {
        const PIECES: usize = 128;
        for is_answered in [true, false] {
            let (mut body, taken) = counted(PIECES * PIECE_BYTES);
            assert_eq!(
                body.size_hint().exact(),
                Some((PIECES * PIECE_BYTES) as u64)
            );
            let began = tokio::time::Instant::now();
            let sent = async {
                let mut bytes = 0;
                while let Some(piece) = body.frame().await {
                    let piece = piece.expect("a full body does not break");
                    bytes += piece.into_data().expect("it has no trailers").len();
                    let left = body.size_hint().exact().expect("it is known");
                    assert_eq!(left as usize + bytes, PIECES * PIECE_BYTES);
                    tokio::time::sleep(PATIENCE * 9 / 10).await;
                }
                match is_answered {
                    true => bytes,
                    false => std::future::pending().await,
                }
            };
            let answer = unless_silent(sent, &taken, PATIENCE).await;
            let whole = is_answered.then_some(PIECES * PIECE_BYTES);
            assert_eq!(answer, whole);
            let sending = PATIENCE * 9 / 10 * u32::try_from(PIECES).expect("few");
            assert!(began.elapsed() <= sending + PATIENCE * 2);
        }
    }
}

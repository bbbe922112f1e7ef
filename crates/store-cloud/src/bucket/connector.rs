//! The HTTP client of the workspace as the one that `object_store` sends its requests with.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
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
    /// The longest wait for the head of an answer, and for the next bytes of its body.
    pub(super) patience: Duration,
}

/// An answer that means something to us and is not worth another try: no such range, or no room.
#[derive(Debug, thiserror::Error)]
#[error("the store answered {0}")]
pub(super) struct Refused(pub(super) StatusCode);

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
        let sent = self.client.send(request.map(Body::new));
        let answer = match tokio::time::timeout(self.patience, sent).await {
            Ok(answer) => answer.map_err(failed)?,
            Err(_) => return Err(failed(FetchError::TimedOut)),
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

//! One request: checked, answered by the application, and counted until its answer is sent.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::io::Signals;
use super::{Application, ConnectionInfo, Refusal, ServerStats, Shared, front};
use crate::body::{Body, BoxError};

/// What the requests of one connection share.
pub(super) struct Served {
    pub(super) activity: Activity,
    pub(super) signals: Arc<Signals>,
    pub(super) info: ConnectionInfo,
}

#[derive(Default)]
pub(super) struct Activity {
    /// Requests whose answer is not wholly sent.
    pub(super) open: AtomicUsize,
    /// Requests so far.
    pub(super) total: AtomicU64,
}

/// Answers one request: refused by its head, by the application, or after a panic in the application.
///
/// The request is the application's before anything waits, and the application's future lies on the heap: a connection has
/// room for this future all its life, and whatever is handed on within one keeps its place there.
pub(super) fn answer<'a, A: Application>(
    request: Request<Incoming>,
    served: &'a Arc<Served>,
    shared: &'a Arc<Shared<A>>,
) -> impl Future<Output = Result<Response<ServedBody>, Infallible>> + use<'a, A> {
    let open = OpenRequest::new(served, &shared.stats);
    // A copy: the address itself would keep the buffer that the whole head was read into.
    let path: Box<str> = request.uri().path().into();
    let version = request.version();
    let has_body = !request.body().is_end_stream();
    served.signals.lingering.store(has_body, Ordering::Relaxed);

    let checked = match served.signals.doubt.get() {
        Some(&doubt) => Err(doubt),
        None => {
            let names = shared.limits.host_names.as_ref();
            front::check(version, request.uri(), request.headers(), names)
        }
    };
    // Making the future is caught as well as running it.
    let called = checked.map(|()| {
        catch_unwind(AssertUnwindSafe(|| {
            Box::pin(shared.application.call(request, served.info))
        }))
    });
    async move {
        let response = match called {
            Err(refusal) => {
                shared.stats.refused_requests.add(1);
                let mut response = shared.application.refuse(refusal, &path);
                if version < Version::HTTP_2 {
                    // Where the next request begins is what this one leaves in doubt.
                    let headers = response.headers_mut();
                    headers.insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
            Ok(called) => {
                let answered = match called {
                    Ok(call) => AssertUnwindSafe(call).catch_unwind().await.ok(),
                    Err(_) => None,
                };
                answered.unwrap_or_else(|| {
                    shared.stats.panics.add(1);
                    tracing::error!("a request handler panicked; its client was told of a fault");
                    shared.application.refuse(Refusal::Panicked, &path)
                })
            }
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            served.signals.upgraded.store(true, Ordering::Relaxed);
        }
        Ok(response.map(|body| ServedBody { body, _open: open }))
    }
}

/// Counts a request from its arrival until its answer is sent or given up.
struct OpenRequest {
    served: Arc<Served>,
    stats: Arc<ServerStats>,
}

impl OpenRequest {
    fn new(served: &Arc<Served>, stats: &Arc<ServerStats>) -> Self {
        served.activity.open.fetch_add(1, Ordering::Relaxed);
        served.activity.total.fetch_add(1, Ordering::Relaxed);
        stats.requests.add(1);
        stats.in_flight.add(1);
        Self {
            served: Arc::clone(served),
            stats: Arc::clone(stats),
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.served.activity.open.fetch_sub(1, Ordering::Relaxed);
        self.stats.in_flight.sub(1);
    }
}

/// A response body that keeps its request open until it is sent.
pub(super) struct ServedBody {
    body: Body,
    _open: OpenRequest,
}

impl http_body::Body for ServedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

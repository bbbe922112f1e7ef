//! One request: checked, answered by the application, and counted until its answer is sent.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::incoming;
use super::io::Signals;
use super::progress::{self, CountedBytes, SendProgress};
use super::streams::{PeerUse, StreamPermit};
use super::{Application, ConnectionInfo, Refusal, ServerStats, Shared, front};
use crate::body::{Body, BoxError};

/// The longest last piece of a body that ends its stream of HTTP/2 at once. A longer one is wholly sent first, because a
/// stream that has ended on this side cannot be reset any more.
const LONGEST_LAST_PIECE: usize = 16 * 1024;

/// What the requests of one connection share.
pub(super) struct Served {
    pub(super) activity: Activity,
    pub(super) signals: Arc<Signals>,
    pub(super) info: ConnectionInfo,
    /// What the connections of the same peer have in common; `None` where peers are not counted.
    pub(super) peer: Option<Arc<PeerUse>>,
}

#[derive(Default)]
pub(super) struct Activity {
    /// Requests whose answer is not wholly sent.
    pub(super) open: AtomicUsize,
    /// Requests so far.
    pub(super) total: AtomicU64,
    /// Whether a client of HTTP/2 took too little of a response that nothing but the end of the connection ends.
    abandoned: AtomicBool,
    /// Woken when it is, and by the first request.
    waker: AtomicWaker,
}

impl Activity {
    /// Counts a request.
    fn count(&self) {
        if self.total.fetch_add(1, Ordering::Relaxed) == 0 {
            self.waker.wake();
        }
    }

    /// Waits for the first request.
    pub(super) fn poll_asked(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        match self.total.load(Ordering::Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Ends the connection.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Waits for [`Activity::abandon`].
    pub(super) fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.abandoned.load(Ordering::Relaxed) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
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
    let (mut open, others) = OpenRequest::new(served, &shared.stats);
    // A copy: the address itself would keep the buffer that the whole head was read into.
    let path: Box<str> = request.uri().path().into();
    let version = request.version();
    let has_body = !request.body().is_end_stream();
    served.signals.lingering.store(has_body, Ordering::Relaxed);
    let (request, unread) = incoming::watch(request);

    let admitted = if version == Version::HTTP_2 {
        open.share_connection(others, shared)
    } else {
        Ok(())
    };
    let checked = match (served.signals.doubt.get(), admitted) {
        (Some(&doubt), _) => Err(doubt),
        (None, Err(refusal)) => Err(refusal),
        (None, Ok(())) => {
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
        let mut response = match called {
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
                    tracing::error!("a request handler panicked; its client got an internal error");
                    shared.application.refuse(Refusal::Panicked, &path)
                })
            }
        };
        let is_last = version < Version::HTTP_2
            && (shared.leaving.has_begun()
                || response
                    .headers()
                    .get(CONNECTION)
                    .is_some_and(|it| it == "close"));
        let can_follow = match unread {
            Some(unread) if !is_last => unread.skip().await,
            _ => !is_last,
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            served.signals.upgraded.store(true, Ordering::Relaxed);
        } else if !can_follow {
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response.map(|body| ServedBody::new(body, open)))
    }
}

/// Counts a request from its arrival until its answer is sent or given up.
pub(super) struct OpenRequest {
    served: Arc<Served>,
    stats: Arc<ServerStats>,
    /// HTTP/2 only: the right to share the connection.
    permit: Option<StreamPermit>,
}

impl OpenRequest {
    /// Counts a request; the number is that of the others on its connection.
    fn new(served: &Arc<Served>, stats: &Arc<ServerStats>) -> (Self, usize) {
        let others = served.activity.open.fetch_add(1, Ordering::Relaxed);
        served.activity.count();
        stats.requests.add(1);
        stats.in_flight.add(1);
        let open = Self {
            served: Arc::clone(served),
            stats: Arc::clone(stats),
            permit: None,
        };
        (open, others)
    }

    /// Takes the right to be one of several requests on its connection.
    fn share_connection<A>(&mut self, others: usize, shared: &Shared<A>) -> Result<(), Refusal> {
        let admitted = shared.streams.admit(others, self.served.peer.as_ref());
        self.permit = admitted.map_err(|_| {
            self.stats.refused_streams.add(1);
            Refusal::TooManyStreams
        })?;
        Ok(())
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
    /// HTTP/2 only. It keeps the request open then, because bytes may outlive the body.
    progress: Option<Arc<SendProgress>>,
    /// HTTP/1 only.
    _open: Option<OpenRequest>,
    /// The length of the newest piece.
    piece: usize,
    /// Whether the body has ended.
    ended: bool,
}

impl ServedBody {
    fn new(body: Body, open: OpenRequest) -> Self {
        let progress = progress::current();
        let open = match &progress {
            Some(progress) => {
                progress.keep(open);
                None
            }
            None => Some(open),
        };
        Self {
            body,
            progress,
            _open: open,
            piece: 0,
            ended: false,
        }
    }

    /// The end of the body; of HTTP/2, once everything before it is sent.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.progress {
            Some(progress) => progress.poll_sent(cx),
            None => Poll::Ready(()),
        }
    }
}

impl http_body::Body for ServedBody {
    type Data = CountedBytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<CountedBytes>, BoxError>>> {
        if !self.ended {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    self.piece = frame.data_ref().map_or(0, Bytes::len);
                    let counted = |bytes| CountedBytes::new(bytes, self.progress.as_ref());
                    return Poll::Ready(Some(Ok(frame.map_data(counted))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    // What it holds is not needed while the client takes the rest.
                    self.body = Body::empty();
                    self.ended = true;
                }
            }
        }
        self.poll_end(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        let ends_at_once =
            |progress: &Arc<SendProgress>| self.piece <= LONGEST_LAST_PIECE || progress.is_sent();
        self.body.is_end_stream() && self.progress.as_ref().is_none_or(ends_at_once)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

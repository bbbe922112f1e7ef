//! The body of a request on its way in, and the part of it that nobody read.
//!
//! A request can be answered before its body has come: its path is unknown, or its key is. On HTTP/1 the next request begins where that
//! body ends, so hyper closes a connection whose body was dropped, and does not say so in the answer. A client that sends on the
//! same connection then gets no answer. So what was left unread is read here before the answer goes out, or the answer says that
//! the connection ends.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The longest rest of a body that is read to keep a connection. A new connection is cheaper than more.
const LONGEST_REST: u64 = 64 * 1024;

/// How long an answer waits for such a rest. A client sends it right behind its head.
const REST_TIME: Duration = Duration::from_millis(250);

/// The body of a request on its way in. It may be dropped at any point: the server knows what to do with the rest.
#[derive(Debug)]
pub struct Incoming {
    /// `None` only while it is dropped.
    body: Option<body::Incoming>,
    /// Whether its end was read.
    ended: bool,
    /// Takes the body when it is dropped too early; `None` where streams end by themselves.
    rest: Option<oneshot::Sender<body::Incoming>>,
}

/// Where the body of a request comes when it is dropped before its end.
pub(super) struct Unread {
    rest: oneshot::Receiver<body::Incoming>,
    /// Whether the client waits for `100 Continue` before it sends its body.
    expects: bool,
}

/// Hands out the request, and what learns of an unread rest of its body if the next request waits for its end.
pub(super) fn watch(request: Request<body::Incoming>) -> (Request<Incoming>, Option<Unread>) {
    let mut unread = None;
    let mut rest = None;
    if request.version() < Version::HTTP_2 && !request.body().is_end_stream() {
        let (sender, receiver) = oneshot::channel();
        rest = Some(sender);
        unread = Some(Unread {
            rest: receiver,
            expects: request.headers().contains_key(EXPECT),
        });
    }
    let request = request.map(|body| Incoming {
        body: Some(body),
        ended: false,
        rest,
    });
    (request, unread)
}

impl Unread {
    /// Reads what was left of the body. Says whether another request can follow.
    pub(super) async fn skip(mut self) -> bool {
        match self.rest.try_recv() {
            // On the heap, since hardly any request comes here and each has room for this future.
            Ok(body) => !self.expects && Box::pin(read_to_end(body)).await,
            // It was read, or a task of the application reads it still.
            Err(_) => true,
        }
    }
}

/// Whether the body ends within its bounds.
async fn read_to_end(mut body: body::Incoming) -> bool {
    if body.size_hint().lower() > LONGEST_REST {
        return false;
    }
    let reading = async {
        let mut left = LONGEST_REST;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    timeout(REST_TIME, reading).await.unwrap_or(false)
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.ended = true;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(SizeHint::default, |body| body.size_hint())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_end_stream()
            && let (Some(body), Some(rest)) = (self.body.take(), self.rest.take())
        {
            // Nobody waits for it once the answer is on its way.
            let _ = rest.send(body);
        }
    }
}

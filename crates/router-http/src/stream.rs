//! The body of an answer that comes as a stream: the partner's bytes as they come.
//!
//! A stream that breaks off is an error of the body, which cuts the connection or resets the stream of HTTP/2: no caller takes
//! a part for the whole. How it ended is on record, and a caller that left before is.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, Response};
use http_body::{Body as HttpBody, Frame};
use hyper_kit::{Body, BoxError};
use router_core::{AnswerStream, Bucket, Delivery, StreamEnding, StreamStep};

/// nginx and its like hold an answer back until a buffer is full, unless told not to.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

struct StreamBody {
    first: Option<Bytes>,
    rest: Box<AnswerStream>,
    /// Taken when the stream has ended.
    delivery: Option<Delivery>,
}

/// The stream broke off.
#[derive(Debug, thiserror::Error)]
#[error("the stream of the answer broke off")]
struct Cut;

/// Streams what follows the first bytes of an answer, and tells how that ended.
pub(crate) fn streaming(
    mut response: Response<Body>,
    first: Bytes,
    rest: Box<AnswerStream>,
    delivery: Delivery,
) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    *response.body_mut() = Body::new(StreamBody {
        first: Some(first),
        rest,
        delivery: Some(delivery),
    });
    response
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = &mut *self;
        if let Some(first) = body.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        Poll::Ready(match ready!(body.rest.poll_next(cx)) {
            Some(StreamStep::Piece(piece)) => Some(Ok(Frame::data(piece))),
            Some(StreamStep::Ended(ending)) => {
                if let Some(delivery) = body.delivery.take() {
                    delivery.ended(ending);
                }
                match ending {
                    StreamEnding::Whole(_) => None,
                    StreamEnding::Cut(_) => Some(Err(Cut.into())),
                }
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.delivery.is_none()
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            delivery.ended(StreamEnding::Cut(Bucket::ClientDisconnected));
        }
    }
}

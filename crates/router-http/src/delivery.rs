//! Whether the caller got the whole answer.
//!
//! hyper drops the body of an answer once it has taken all of it, or when the connection goes away before. A body that is
//! dropped at its end was handed to the connection whole, and that is what the record calls delivered.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper_kit::{Body, BoxError};
use router_core::Delivery;

/// A body that tells its delivery.
struct DeliveryBody {
    body: Body,
    delivery: Option<Delivery>,
}

/// Lets `delivery` know when the connection has taken all of `body`.
pub(crate) fn telling(body: Body, delivery: Delivery) -> Body {
    Body::new(DeliveryBody {
        body,
        delivery: Some(delivery),
    })
}

impl HttpBody for DeliveryBody {
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

impl Drop for DeliveryBody {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take().filter(|_| self.body.is_end_stream()) {
            delivery.delivered();
        }
    }
}

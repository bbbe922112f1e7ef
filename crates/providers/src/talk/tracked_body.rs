//! A body that says when it is written.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper_kit::BoxError;
use router_core::Contact;

/// Bytes are handed out in pieces of this size. The transport asks for the next one when it has room, so what was handed
/// out runs ahead of the wire by its buffer alone.
const PIECE_BYTES: usize = 64 * 1024;

/// The body of a submission.
pub(super) struct TrackedBody {
    left: Bytes,
    written: Option<Contact>,
}

impl TrackedBody {
    pub(super) fn new(bytes: Bytes, written: Option<Contact>) -> Self {
        Self {
            left: bytes,
            written,
        }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        // The transport lets go of a body when it has taken the last of it, or when it gives up before.
        if let Some(written) = self.written.take().filter(|_| self.left.is_empty()) {
            written.written();
        }
    }
}

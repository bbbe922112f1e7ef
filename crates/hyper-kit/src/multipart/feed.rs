//! Hands a body to multer chunk by chunk, and no more of it than was asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http_body::Body as _;

use crate::body::{BodyError, BoxError};
use crate::pace::PacedBody;

/// Bytes between two parts, and of one part's head. Names are long, but not this long.
const HEAD_BYTES: usize = 16 * 1024;

/// What is left for the head that multer is looking for, in bytes; all there is while it reads a part.
#[derive(Debug)]
pub(super) struct HeadRoom(AtomicUsize);

/// The body as the stream that multer reads.
#[derive(Debug)]
pub(super) struct Feed<B> {
    body: PacedBody<B>,
    left: u64,
    limit: u64,
    head_room: Arc<HeadRoom>,
    /// multer polls until nothing is ready and keeps all it got, so after each chunk nothing is ready for once.
    handed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the head of a part does not end")]
    LongHead,
    #[error(transparent)]
    Body(BodyError),
}

impl HeadRoom {
    pub(super) fn bound(&self) {
        self.0.store(HEAD_BYTES, Ordering::Relaxed);
    }

    pub(super) fn unbound(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        let left = self.0.load(Ordering::Relaxed);
        if left != usize::MAX {
            self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        }
    }

    fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Default for HeadRoom {
    fn default() -> Self {
        Self(AtomicUsize::new(HEAD_BYTES))
    }
}

impl<B> Feed<B> {
    pub(super) fn new(body: PacedBody<B>, limit: u64, head_room: Arc<HeadRoom>) -> Self {
        Self {
            body,
            left: limit,
            limit,
            head_room,
            handed: false,
        }
    }

    fn account(&mut self, bytes: usize) -> Result<(), FeedError> {
        let too_large = FeedError::TooLarge { limit: self.limit };
        self.left = self.left.checked_sub(bytes as u64).ok_or(too_large)?;
        self.head_room.take(bytes);
        Ok(())
    }
}

impl<B> Stream for Feed<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Item = Result<Bytes, FeedError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.handed) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.head_room.is_used_up() {
            return Poll::Ready(Some(Err(FeedError::LongHead)));
        }
        loop {
            let chunk = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(FeedError::Body(error)))),
                Some(Ok(frame)) => frame.into_data(),
            };
            // Trailers say nothing about a form.
            let Ok(chunk) = chunk else { continue };
            let accounted = self.account(chunk.len());
            self.handed = true;
            return Poll::Ready(Some(accounted.map(|()| chunk)));
        }
    }
}

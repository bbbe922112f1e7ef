//! How slowly a body may arrive: a longest pause, and a least rate once a grace is used up.
//!
//! Only the time spent waiting for the sender counts. A reader that is itself slow, because a disk is, never costs the
//! sender anything, and a fast start buys no right to trickle afterwards.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::body::{BodyError, BoxError};

/// The pace a sender must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPace {
    /// The longest wait for any one chunk.
    pub idle: Duration,
    /// The waiting that is forgiven before the rate counts.
    pub grace: Duration,
    /// The least rate over the time waited, after the grace; 0 asks for none.
    pub min_bytes_per_second: u32,
}

/// A body that fails with [`BodyError::Idle`] when its sender falls behind a [`ReadPace`].
#[derive(Debug)]
pub struct PacedBody<B> {
    inner: B,
    pace: ReadPace,
    /// The waiting still allowed: the grace, refilled by every byte, never above one idle time or one grace.
    credit: Duration,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    until: Pin<Box<Sleep>>,
}

// === impl ReadPace ===

impl ReadPace {
    /// 15 s for a chunk, and 1 KiB/s after 10 s: what a bad mobile line still manages, and a hoarder of connections
    /// cannot live with.
    pub const DEFAULT: Self = Self {
        idle: Duration::from_secs(15),
        grace: Duration::from_secs(10),
        min_bytes_per_second: 1024,
    };

    fn most_credit(&self) -> Duration {
        self.grace.max(self.idle)
    }

    fn earned(&self, bytes: usize) -> Duration {
        if self.min_bytes_per_second == 0 {
            return Duration::MAX;
        }
        Duration::from_secs_f64(bytes as f64 / f64::from(self.min_bytes_per_second))
    }
}

impl Default for ReadPace {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// === impl PacedBody ===

impl<B> PacedBody<B> {
    /// Watches `inner`; the clock starts with the first wait.
    pub fn new(inner: B, pace: ReadPace) -> Self {
        let credit = if pace.min_bytes_per_second == 0 {
            pace.most_credit()
        } else {
            pace.grace
        };
        Self {
            inner,
            pace,
            credit,
            waiting: None,
        }
    }

    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let allowed = self.credit.min(self.pace.idle);
        let waiting = self.waiting.get_or_insert_with(|| {
            let since = Instant::now();
            Waiting {
                since,
                until: Box::pin(sleep_until(since + allowed)),
            }
        });
        waiting.until.as_mut().poll(cx)
    }

    fn received(&mut self, bytes: usize) {
        if let Some(waiting) = self.waiting.take() {
            self.credit = self.credit.saturating_sub(waiting.since.elapsed());
        }
        self.credit = self
            .credit
            .saturating_add(self.pace.earned(bytes))
            .min(self.pace.most_credit());
    }
}

impl<B> http_body::Body for PacedBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.received(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(BodyError::Broken(error.into()))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.poll_overdue(cx));
                Poll::Ready(Some(Err(BodyError::Idle)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;

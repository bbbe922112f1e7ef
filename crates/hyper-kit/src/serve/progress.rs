//! How much of one HTTP/2 response its client has taken, and the clock that runs while something waits for the client.
//!
//! A client of HTTP/2 grants bytes to each stream. One that grants none to a stream stalls nothing at the socket, and may
//! keep the connection busy with pings and other streams. So each response counts what it handed out and what was sent,
//! and is given up by a clock of its own.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep};

use super::answer::OpenRequest;
use super::limits::WritePace;

tokio::task_local! {
    /// The progress of the response that the running task makes.
    static CURRENT: Arc<SendProgress>;
}

/// What was handed out of one response, and what of it was sent.
///
/// The counters order nothing else; the one wake-up that depends on them goes through the waker, which orders them.
#[derive(Default)]
pub(super) struct SendProgress {
    /// Bytes that are handed out and not sent.
    unsent: AtomicUsize,
    /// Bytes sent so far.
    sent: AtomicU64,
    /// How often everything that was handed out had been sent.
    emptied: AtomicU64,
    /// Woken when everything is sent.
    waker: AtomicWaker,
    /// The request, which is open until the last byte is sent or given up.
    request: OnceLock<OpenRequest>,
}

/// Bytes of a response that count themselves when they are sent or given up.
pub(super) struct CountedBytes {
    bytes: Bytes,
    /// `None` for HTTP/1, where the socket alone tells whether a client reads.
    progress: Option<Arc<SendProgress>>,
}

/// How a response ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Wholly sent, or given up by its client or its handler.
    Whole,
    /// The client took too little of it, and its stream is reset.
    Reset,
    /// The client took too little of its end, which is out of this server's hands but for the whole connection.
    Abandoned,
}

/// Decides whether a client takes enough while something waits for it.
#[derive(Debug)]
struct StallClock {
    pace: WritePace,
    span: Option<Span>,
}

/// A time in which something waited for the client without a break.
#[derive(Debug)]
struct Span {
    since: Instant,
    sent: u64,
    emptied: u64,
}

/// Runs the task of one HTTP/2 stream, and drops it when its response is taken too slowly.
pub(super) async fn watched<F: Future>(stream: F, pace: WritePace) -> Ended {
    let progress = Arc::new(SendProgress::default());
    let mut clock = StallClock { pace, span: None };
    // Fused, so that what the stream holds is dropped as soon as it is over.
    let mut stream = pin!(CURRENT.scope(Arc::clone(&progress), stream).fuse());
    // Registers nothing until it is polled, which most responses never need.
    let mut timer = pin!(sleep(pace.stall));
    poll_fn(|cx| {
        if !stream.is_terminated() {
            // Whether it is over is asked below, where it may have been so before.
            let _ = stream.as_mut().poll(cx);
        }
        let is_over = stream.is_terminated();
        if progress.is_sent() {
            clock.span = None;
            return if is_over {
                Poll::Ready(Ended::Whole)
            } else {
                Poll::Pending
            };
        }
        if is_over && progress.poll_sent(cx).is_ready() {
            return Poll::Ready(Ended::Whole);
        }
        ready!(clock.poll(timer.as_mut(), &progress, cx));
        Poll::Ready(if is_over {
            Ended::Abandoned
        } else {
            Ended::Reset
        })
    })
    .await
}

/// The progress of the response that the running task makes; `None` outside of [`watched`].
pub(super) fn current() -> Option<Arc<SendProgress>> {
    CURRENT.try_with(Arc::clone).ok()
}

// === impl SendProgress ===

impl SendProgress {
    /// Keeps a request open for as long as any of its bytes are on their way.
    pub(super) fn keep(&self, request: OpenRequest) {
        // A task makes one response.
        let _ = self.request.set(request);
    }

    /// Whether everything that was handed out is sent.
    pub(super) fn is_sent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) == 0
    }

    /// Waits until everything that was handed out is sent.
    pub(super) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_sent() {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        // It may have been sent before the waker was there.
        if self.is_sent() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn hand_out(&self, bytes: usize) {
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    fn note_sent(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.unsent.fetch_sub(bytes, Ordering::Relaxed) == bytes {
            self.emptied.fetch_add(1, Ordering::Relaxed);
            self.waker.wake();
        }
    }
}

// === impl CountedBytes ===

impl CountedBytes {
    pub(super) fn new(bytes: Bytes, progress: Option<&Arc<SendProgress>>) -> Self {
        if let Some(progress) = progress {
            progress.hand_out(bytes.len());
        }
        Self {
            bytes,
            progress: progress.map(Arc::clone),
        }
    }

    fn note_sent(&self, bytes: usize) {
        if let Some(progress) = &self.progress {
            progress.note_sent(bytes);
        }
    }
}

impl Buf for CountedBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.note_sent(count);
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        let bytes = self.bytes.copy_to_bytes(len);
        self.note_sent(len);
        bytes
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.note_sent(self.bytes.len());
    }
}

// === impl StallClock ===

impl StallClock {
    /// Ready when the client took less than it must, in a span in which something waited for it all the time.
    fn poll(
        &mut self,
        mut timer: Pin<&mut Sleep>,
        progress: &SendProgress,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let stall = self.pace.stall;
        let emptied = progress.emptied.load(Ordering::Relaxed);
        let now = || Span {
            since: Instant::now(),
            sent: progress.sent.load(Ordering::Relaxed),
            emptied,
        };
        // A client that took everything in between owes nothing.
        let kept = self.span.take().filter(|span| span.emptied == emptied);
        let span = self.span.insert(kept.unwrap_or_else(now));
        loop {
            // It may be set for an earlier span: then it ends too early and is set again, which costs less than to set it
            // for each span.
            ready!(timer.as_mut().poll(cx));
            let due = span.since + stall;
            if Instant::now() < due {
                timer.as_mut().reset(due);
                continue;
            }
            let sent = progress.sent.load(Ordering::Relaxed);
            if sent - span.sent < self.pace.least_bytes() {
                return Poll::Ready(());
            }
            *span = now();
            timer.as_mut().reset(span.since + stall);
        }
    }
}

#[cfg(test)]
mod tests;

//! The socket under hyper: it counts, watches heads, cuts stalled readers, and closes without losing the last answer.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::admission::Ticket;
use super::frames::FrameWatch;
use super::limits::WritePace;
use super::socket::Stream;
use super::wire::HeadWatch;
use super::{Refusal, ServerLimits, ServerStats};

/// How much of an unwanted body is thrown away at a time.
const DISCARD_BYTES: usize = 16 * 1024;

/// One accepted connection. It owns the ticket, so that an upgraded connection keeps its place until it closes.
#[derive(Debug)]
pub(super) struct ConnectionIo {
    stream: Stream,
    /// What was read to learn the protocol; hyper reads it first.
    prefix: Bytes,
    stall: WriteClock,
    linger: Deadline,
    watch: Watch,
    signals: Arc<Signals>,
    stats: Arc<ServerStats>,
    _ticket: Ticket,
}

/// What the socket and the requests on it tell each other.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// While true, closing waits for the client to stop sending: its last request had a body that may be unread.
    pub(super) lingering: AtomicBool,
    /// What is doubtful about a head that has arrived; no request is served from then on.
    pub(super) doubt: OnceLock<Refusal>,
    /// The connection speaks another protocol from here on, whose bytes are not watched.
    pub(super) upgraded: AtomicBool,
}

/// What is looked at in the bytes that come.
#[derive(Debug)]
pub(super) enum Watch {
    /// The heads of HTTP/1.
    Heads(HeadWatch),
    /// The frames of HTTP/2, whose framing cannot be read in two ways.
    Frames(FrameWatch),
    /// Nothing: another protocol.
    Nothing,
}

/// Decides whether a reader takes enough, by the time that writes wait for it.
#[derive(Debug)]
struct WriteClock {
    pace: WritePace,
    timer: Option<Pin<Box<Sleep>>>,
    /// Since when a write waits.
    waiting: Option<Instant>,
    /// How long writes have waited in this span, before that.
    waited: Duration,
    /// Bytes written in this span.
    written: u64,
}

/// A timer that is set by the first wait.
#[derive(Debug)]
struct Deadline {
    after: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

// === impl ConnectionIo ===

impl ConnectionIo {
    pub(super) fn new(
        stream: Stream,
        prefix: Bytes,
        watch: Watch,
        limits: &ServerLimits,
        stats: Arc<ServerStats>,
        ticket: Ticket,
    ) -> Self {
        let mut io = Self {
            stream,
            prefix: Bytes::new(),
            stall: WriteClock::new(limits.write_pace()),
            linger: Deadline::new(limits.linger),
            watch,
            signals: Arc::default(),
            stats,
            _ticket: ticket,
        };
        // So few bytes are no flood.
        let _ = io.arrived(&prefix);
        io.prefix = prefix;
        io
    }

    pub(super) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Looks at bytes that came.
    ///
    /// # Errors
    /// If the connection is to be cut for them.
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stats.bytes_read.add(bytes.len() as u64);
        match &mut self.watch {
            Watch::Heads(_) if self.signals.upgraded.load(Ordering::Relaxed) => {
                self.watch = Watch::Nothing;
            }
            Watch::Heads(watch) => {
                if let Some(doubt) = watch.feed(bytes) {
                    self.signals.doubt.get_or_init(|| doubt);
                }
            }
            Watch::Frames(watch) => {
                if watch.feed(bytes) {
                    self.stats.control_floods.add(1);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            Watch::Nothing => {}
        }
        Ok(())
    }

    fn written(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(n)) => {
                self.stall.wrote(n as u64);
                self.stats.bytes_written.add(n as u64);
                if let Watch::Frames(watch) = &mut self.watch {
                    watch.sent(n as u64);
                }
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                ready!(self.stall.poll(cx));
                self.stats.write_stalls.add(1);
                // Otherwise the system would go on offering what it has buffered to a reader that does not read.
                self.stream.forget_buffered();
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; DISCARD_BYTES];
        loop {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    let read = buf.filled().len() as u64;
                    self.stats.bytes_read.add(read);
                    // A sender that never pauses must not keep this loop from the clock.
                    if self.linger.poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(Ok(()) | Err(_)) => return Poll::Ready(()),
                Poll::Pending => return self.linger.poll(cx),
            }
        }
    }
}

impl AsyncRead for ConnectionIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let has_prefix = self.prefix.has_remaining();
        if has_prefix {
            let n = self.prefix.len().min(buf.remaining());
            buf.put_slice(&self.prefix.split_to(n));
            if buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            // What follows goes along: hyper would double its buffer to read it behind so few bytes.
        }
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => Poll::Ready(self.arrived(&buf.filled()[before..])),
            // It is told again when the prefix is gone.
            Poll::Ready(Err(_)) | Poll::Pending if has_prefix => Poll::Ready(Ok(())),
            other @ (Poll::Ready(Err(_)) | Poll::Pending) => other,
        }
    }
}

impl AsyncWrite for ConnectionIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Shutting down a TCP stream twice is harmless, so this may run again after a wait.
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        if self.signals.lingering.load(Ordering::Relaxed) {
            ready!(self.poll_discard(cx));
        }
        Poll::Ready(Ok(()))
    }
}

// === impl Deadline ===

impl Deadline {
    fn new(after: Duration) -> Self {
        Self { after, sleep: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let after = self.after;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(after)));
        sleep.as_mut().poll(cx)
    }
}

// === impl WriteClock ===

impl WriteClock {
    fn new(pace: WritePace) -> Self {
        Self {
            pace,
            timer: None,
            waiting: None,
            waited: Duration::ZERO,
            written: 0,
        }
    }

    fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
        if let Some(since) = self.waiting.take() {
            self.waited += since.elapsed();
        }
    }

    /// A write waits for its reader. Ready when the reader took too little over a whole span of waiting.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let since = *self.waiting.get_or_insert_with(Instant::now);
            let due = since + self.pace.stall.saturating_sub(self.waited);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
            if self.written < self.pace.least_bytes() {
                return Poll::Ready(());
            }
            *self = Self {
                timer: self.timer.take(),
                ..Self::new(self.pace)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    const PACE: WritePace = WritePace {
        stall: Duration::from_secs(20),
        min_bytes_per_second: 10,
    };

    /// Writes these bytes after each wait of so many seconds; answers when the reader is cut.
    async fn cut_after(seconds: u64, bytes: u64, most: usize) -> Option<Duration> {
        let start = Instant::now();
        let mut clock = WriteClock::new(PACE);
        for _ in 0..most {
            let wait = poll_fn(|cx| clock.poll(cx));
            if timeout(Duration::from_secs(seconds), wait).await.is_ok() {
                return Some(start.elapsed());
            }
            clock.wrote(bytes);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stalls_is_cut_after_the_span() {
        assert_eq!(cut_after(60, 0, 1).await, Some(PACE.stall));
        // Asking again does not lengthen it.
        assert_eq!(cut_after(3, 0, 100).await, Some(PACE.stall));
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_is_no_progress() {
        assert_eq!(cut_after(6, 49, 100).await, Some(PACE.stall));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_goes_on_is_left_alone() {
        assert_eq!(cut_after(15, 300, 1000).await, None);
        assert_eq!(cut_after(1, 11, 1000).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nothing_waits_does_not_count() {
        let mut clock = WriteClock::new(PACE);
        for _ in 0..1000 {
            let wait = poll_fn(|cx| clock.poll(cx));
            assert!(timeout(Duration::from_millis(10), wait).await.is_err());
            clock.wrote(1);
            sleep(Duration::from_secs(60)).await;
        }
    }
}

//! The socket under hyper: it counts, watches heads, cuts stalled readers, and closes without losing the last answer.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::admission::Ticket;
use super::wire::HeadWatch;
use super::{Refusal, ServerLimits, ServerStats};

/// How much of an unwanted body is thrown away at a time.
const DISCARD_BYTES: usize = 16 * 1024;

/// One accepted connection. It owns the ticket, so that an upgraded connection keeps its place until it closes.
#[derive(Debug)]
pub(super) struct ConnectionIo {
    stream: TcpStream,
    /// What was read to learn the protocol; hyper reads it first.
    prefix: Bytes,
    stall: Deadline,
    linger: Deadline,
    /// HTTP/1 only: the framing of HTTP/2 cannot be read in two ways.
    watch: Option<HeadWatch>,
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

/// A timer that is set by the first wait and cleared by progress.
#[derive(Debug)]
struct Deadline {
    after: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    running: bool,
}

// === impl ConnectionIo ===

impl ConnectionIo {
    pub(super) fn new(
        stream: TcpStream,
        prefix: Bytes,
        watch: Option<HeadWatch>,
        limits: &ServerLimits,
        stats: Arc<ServerStats>,
        ticket: Ticket,
    ) -> Self {
        let mut io = Self {
            stream,
            prefix: Bytes::new(),
            stall: Deadline::new(limits.write_stall),
            linger: Deadline::new(limits.linger),
            watch,
            signals: Arc::default(),
            stats,
            _ticket: ticket,
        };
        io.arrived(&prefix);
        io.prefix = prefix;
        io
    }

    pub(super) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    fn arrived(&mut self, bytes: &[u8]) {
        self.stats.bytes_read.add(bytes.len() as u64);
        if self.signals.upgraded.load(Ordering::Relaxed) {
            self.watch = None;
        }
        let doubt = self.watch.as_mut().and_then(|watch| watch.feed(bytes));
        if let Some(doubt) = doubt {
            self.signals.doubt.get_or_init(|| doubt);
        }
    }

    fn written(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(n)) => {
                self.stall.clear();
                self.stats.bytes_written.add(n as u64);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                ready!(self.stall.poll(cx));
                self.stats.write_stalls.add(1);
                // Otherwise the system would go on offering what it has buffered to a reader that does not read.
                let _ = self.stream.set_zero_linger();
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
            Poll::Ready(Ok(())) => {
                self.arrived(&buf.filled()[before..]);
                Poll::Ready(Ok(()))
            }
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
        Self {
            after,
            sleep: None,
            running: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let after = self.after;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(after)));
        if !self.running {
            sleep.as_mut().reset(Instant::now() + after);
            self.running = true;
        }
        sleep.as_mut().poll(cx)
    }

    fn clear(&mut self) {
        self.running = false;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_starts_the_wait_anew() {
        let start = Instant::now();
        let mut deadline = Deadline::new(Duration::from_secs(20));
        for _ in 0..10 {
            let wait = poll_fn(|cx| deadline.poll(cx));
            let cut = timeout(Duration::from_secs(15), wait).await;
            assert!(cut.is_err(), "cut after {:?}", start.elapsed());
            deadline.clear();
        }
        poll_fn(|cx| deadline.poll(cx)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(10 * 15 + 20));
    }

    #[tokio::test(start_paused = true)]
    async fn asking_again_does_not_lengthen_the_wait() {
        let start = Instant::now();
        let mut deadline = Deadline::new(Duration::from_secs(20));
        while timeout(Duration::from_secs(3), poll_fn(|cx| deadline.poll(cx)))
            .await
            .is_err()
        {}
        assert_eq!(start.elapsed(), Duration::from_secs(20));
    }
}

//! WebSockets: the upgrade by hand, and the loop that speaks on a socket until either side ends it.
//!
//! A socket has no queue: its [`Conversation`] is asked for the next message when the one before is written, so whoever
//! reads slowly holds one message here and makes nobody wait but itself. A reader that stalls is cut by the connection's own
//! write deadline. Compression is not offered.

mod handshake;
mod socket;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::Body;

pub use handshake::NotWebSocket;

/// The bounds of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketLimits {
    /// Bytes of a message or frame that is taken (64 KiB): clients of an event stream say little.
    pub inbound_bytes: usize,
    /// Bytes of a message that is sent (32 MiB): the largest picture. A socket that is to send more is closed.
    pub outbound_bytes: usize,
    /// Bytes of the read buffer (4 KiB): most sockets never fill it, and there are thousands.
    pub read_buffer_bytes: usize,
    /// How often a socket is pinged (20 s). One that has not said anything for two of these is dead.
    pub ping: Duration,
    /// How long a message may take to be written without any progress (20 s). The server's own write deadline is below this
    /// one; this one also covers a connection that makes a byte of progress now and then.
    pub stall: Duration,
    /// How long the other side may take to answer a close (2 s).
    pub goodbye: Duration,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A text. It must be UTF-8, as every text is.
    Text(Arc<str>),
    /// Bytes, given as parts that are sent as one message: a head and what many sockets share.
    Binary(Bytes, Bytes),
}

/// One side of a socket: what it has to say, and what it makes of what it hears.
pub trait Conversation: Send + 'static {
    /// The next message, when there is one; `None` ends the socket. Cancel-safe: called again after being dropped.
    fn next(&mut self) -> impl Future<Output = Option<Outgoing>> + Send;

    /// Whether the client may stay; asked with every ping, and a socket whose client may not is closed with 1008. Cancel-safe: where
    /// it does not answer for the time of [`SocketLimits::goodbye`], the client stays until it is asked again.
    fn may_stay(&mut self) -> impl Future<Output = bool> + Send;

    /// Hears a text of the client. Binary messages are passed over.
    fn hear(&mut self, text: &str);
}

/// The sockets of a server: counts them, and joins their tasks when it drains. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sockets {
    limits: SocketLimits,
    open: Arc<AtomicUsize>,
    tasks: TaskTracker,
    drain: CancellationToken,
}

impl SocketLimits {
    /// The defaults named at each field.
    pub const DEFAULT: Self = Self {
        inbound_bytes: 64 * 1024,
        outbound_bytes: 32 << 20,
        read_buffer_bytes: 4 * 1024,
        ping: Duration::from_secs(20),
        stall: Duration::from_secs(20),
        goodbye: Duration::from_secs(2),
    };
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Sockets {
    /// No sockets yet. When `drain` fires, every socket is told that the server goes away (1001).
    #[must_use]
    pub fn new(limits: SocketLimits, drain: CancellationToken) -> Self {
        Self {
            limits,
            open: Arc::default(),
            tasks: TaskTracker::new(),
            drain,
        }
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Answers a request for a socket and starts `conversation` on it, on a task of its own: the request ends with its
    /// answer, the socket when either side ends it.
    ///
    /// # Errors
    /// If the request asks for no WebSocket, or for one that cannot be given.
    pub fn accept<C: Conversation>(
        &self,
        request: &Parts,
        conversation: C,
    ) -> Result<Response<Body>, NotWebSocket> {
        let (upgrade, response) = handshake::answer(request)?;
        let open = Open::one_more(&self.open);
        let (limits, drain) = (self.limits, self.drain.clone());
        // Boxed: each async function that takes it by value would store it once more.
        let conversation = Box::new(conversation);
        self.tasks.spawn(async move {
            let _open = open;
            // The client may leave before its connection is handed over.
            if let Ok(upgraded) = upgrade.await {
                socket::run(upgraded, conversation, &limits, &drain).await;
            }
        });
        Ok(response)
    }

    /// Fires the drain.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Completes when the server drains and the last socket is closed: at the latest after the time for goodbyes, or for
    /// the message that was being written.
    pub async fn closed(&self) {
        self.drain.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Counts one open socket until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn one_more(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

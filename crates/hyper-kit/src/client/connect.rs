//! One connection: vetted address, TCP, TLS.
//!
//! Every connection of the pool is made here, so nothing that the client does can pass the policy by. The name stays what
//! TLS and the request speak of; the socket goes to the address that was vetted.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::FetchError;
use super::policy::{AddressPolicy, Target};
use super::resolve::Resolve;

/// How many addresses of one host are tried: enough for a dead IPv6 route and a dead machine.
const MOST_TRIED: usize = 4;

/// Makes connections for the pool.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) policy: Arc<AddressPolicy>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) tls: TlsConnector,
    /// For resolution, TCP and TLS together.
    pub(super) limit: Duration,
}

/// A plain or a TLS stream.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

// === impl Connector ===

impl Connector {
    /// Connects to a host whose scheme passes the policy.
    pub(super) async fn connect(&self, target: &Target) -> Result<Stream, FetchError> {
        match timeout(self.limit, self.open(target)).await {
            Ok(opened) => opened,
            Err(_) => Err(target.unreachable(&"no connection in time")),
        }
    }

    async fn open(&self, target: &Target) -> Result<Stream, FetchError> {
        let resolver = self.resolver.as_ref();
        let addresses = self.policy.addresses(target, resolver).await?;
        let tcp = self
            .dial(&addresses)
            .await
            .map_err(|error| target.unreachable(&error))?;
        if !target.https {
            return Ok(Stream::Plain(tcp));
        }

        let broken = |error: &dyn std::error::Error| FetchError::Tls {
            host: target.host.to_string(),
            cause: error.to_string(),
        };
        let bare = target.host.name().trim_matches(['[', ']']);
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| broken(&error))?;
        let tls = self.tls.connect(name, tcp).await;
        let tls = tls.map_err(|error| broken(&error))?;
        Ok(Stream::Tls(Box::new(tls)))
    }

    /// Tries one address after the other, each for its share of the time.
    async fn dial(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let tried = addresses.len().clamp(1, MOST_TRIED);
        let share = self.limit / tried as u32;
        let mut failure = io::Error::from(io::ErrorKind::TimedOut);
        for address in &addresses[..tried] {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => {
                    // A request is written whole; waiting for more of it would only delay it.
                    tcp.set_nodelay(true)?;
                    return Ok(tcp);
                }
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failure)
    }
}

// === impl Stream ===

impl Stream {
    pub(super) fn speaks_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    /// Whether the other side neither closed it nor sent anything, as is right while nothing was asked.
    ///
    /// The kernel is asked. What the runtime knows of a socket is as old as its last look at all of them: on a busy thread
    /// that misses a connection which was closed a moment ago, and a request over it would be lost.
    pub(super) fn is_quiet(&mut self) -> bool {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        let mut byte = [0_u8; 1];
        let peeked = recv(tcp, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        if peeked.err() != Some(Errno::AGAIN) {
            return false;
        }
        match self {
            Self::Plain(_) => true,
            // What was decrypted already is not in the socket any more.
            Self::Tls(tls) => {
                let mut context = Context::from_waker(Waker::noop());
                Pin::new(tls)
                    .poll_read(&mut context, &mut ReadBuf::new(&mut byte))
                    .is_pending()
            }
        }
    }

    /// Whether a write that failed at its first byte left nothing on the wire. TLS may have sent records before it failed.
    pub(super) fn fails_whole(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(_) => false,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

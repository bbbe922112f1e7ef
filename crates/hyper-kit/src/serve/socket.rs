//! The sockets that are served: TCP, and Unix sockets, on which a proxy or a client of the same machine asks.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::{ConnectionInfo, ServerLimits};

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// On an address of the network.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener),
}

/// One accepted connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The client of a Unix socket has no address. It counts as this machine, so it is one of `trusted_proxies` where `127.0.0.1`
/// is, and its connections are not counted.
pub(super) const UNIX_PEER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Listener {
    /// Accepts a connection, and tells whose it is.
    pub(super) async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                (Stream::Tcp(stream), peer)
            }
            Self::Unix(listener) => (Stream::Unix(listener.accept().await?.0), UNIX_PEER),
        })
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

impl Stream {
    /// Both ends of the connection; `None` when the client is gone already.
    ///
    /// The local end of a Unix socket is no loopback address: a proxy in front may pass strangers on, who must not get what
    /// only this machine may see.
    pub(super) fn info(&self, peer: SocketAddr) -> Option<ConnectionInfo> {
        match self {
            Self::Tcp(stream) => {
                let local = stream.local_addr().ok()?;
                Some(ConnectionInfo { peer, local })
            }
            Self::Unix(_) => Some(ConnectionInfo::from_peer(peer)),
        }
    }

    /// Failing to set an option makes a worse connection, not a wrong one.
    pub(super) fn tune(&self, limits: &ServerLimits) {
        let Self::Tcp(stream) = self else { return };
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
        let _ = rustix::net::sockopt::set_tcp_keepidle(stream, limits.user_timeout);
        #[cfg(target_os = "linux")]
        {
            let millis = u32::try_from(limits.user_timeout.as_millis()).unwrap_or(u32::MAX);
            let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, millis);
        }
    }

    /// Makes the system forget what it has buffered for the client when the connection closes; a Unix socket does so anyway.
    pub(super) fn forget_buffered(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

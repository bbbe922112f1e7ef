//! One connection: vetted address, TCP, TLS.
//!
//! Every connection of the pool is made here, so nothing that the client does can pass the policy by. The name stays what
//! TLS and the request speak of; the socket goes to the address that was vetted.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

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
pub(super) struct Stream {
    io: Box<dyn Io>,
    http2: bool,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

// === impl Connector ===

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, FetchError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), FetchError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let target = connector.policy.target(&uri)?;
            match timeout(connector.limit, connector.connect(&target)).await {
                Ok(connected) => connected.map(TokioIo::new),
                Err(_) => Err(target.unreachable(&"no connection in time")),
            }
        })
    }
}

impl Connector {
    async fn connect(&self, target: &Target) -> Result<Stream, FetchError> {
        let resolver = self.resolver.as_ref();
        let addresses = self.policy.addresses(target, resolver).await?;
        let tcp = self
            .dial(&addresses)
            .await
            .map_err(|error| target.unreachable(&error))?;
        if !target.https {
            return Ok(Stream {
                io: Box::new(tcp),
                http2: false,
            });
        }

        let broken = |error: &dyn std::error::Error| FetchError::Tls {
            host: target.host.to_string(),
            cause: error.to_string(),
        };
        let bare = target.host.name().trim_matches(['[', ']']);
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| broken(&error))?;
        let tls = self.tls.connect(name, tcp).await;
        let tls = tls.map_err(|error| broken(&error))?;
        Ok(Stream {
            http2: tls.get_ref().1.alpn_protocol() == Some(b"h2"),
            io: Box::new(tls),
        })
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

impl Connection for Stream {
    fn connected(&self) -> Connected {
        if self.http2 {
            Connected::new().negotiated_h2()
        } else {
            Connected::new()
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

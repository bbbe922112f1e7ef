//! What a server serves: the application answers requests, and words every refusal that is made before or after it.

use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{Request, Response};

use super::{Incoming, Refusal};
use crate::body::Body;

/// The served application.
///
/// A handler's future is dropped when its client goes away; work that must outlive the client is spawned by the handler.
pub trait Application: Send + Sync + 'static {
    /// Answers one request. A panic in it is caught and becomes [`Refusal::Panicked`].
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Words a refusal in the envelope of the API that `path` belongs to. The status is [`Refusal::status`];
    /// `Connection: close` is added by the server where it is due.
    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body>;
}

/// Where a request came from, and where it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The other end of the socket: the client, or the last proxy before this server.
    pub peer: SocketAddr,
    /// This end of the socket.
    pub local: SocketAddr,
}

impl ConnectionInfo {
    /// For a server that knows the other end alone.
    #[must_use]
    pub fn from_peer(peer: SocketAddr) -> Self {
        let local = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        Self { peer, local }
    }
}

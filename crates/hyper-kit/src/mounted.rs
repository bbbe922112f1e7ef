//! The routes of an API as a `tower::Service`, for a host whose server is not this crate's: axum, or hyper with tower's layers.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use tower_service::Service;

use crate::body::{Body, BoxError};
use crate::serve::ConnectionInfo;

/// An API that any server can mount. Clones are the same API.
pub trait Mountable: Clone + Send + Sync + 'static {
    /// Answers one request, whichever path it has.
    fn handle(
        &self,
        request: Request<Body>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// An API as a [`Service`] that never fails and is always ready. Clones are the same API.
///
/// The server in front of it keeps the bounds that [`serve`](crate::serve()) keeps otherwise: on connections, heads and slow
/// clients, and on how long a drain takes. Paths arrive as the client sent them, so mount it where the host strips no prefix (in
/// axum `fallback_service`, or `route_service` with whole paths) and give the API its mount path.
#[derive(Clone, Debug)]
pub struct Mounted<A> {
    api: A,
    connection: fn(&Extensions) -> Option<ConnectionInfo>,
}

impl<A: Mountable> Mounted<A> {
    /// Mounts an API. The address of the client is read from an extension of the request, a [`ConnectionInfo`] or a
    /// [`SocketAddr`]; without one, requests seem to come from this machine.
    #[must_use]
    pub fn new(api: A) -> Self {
        Self {
            api,
            connection: |_| None,
        }
    }

    /// Reads the addresses from what the host's server puts into a request, such as `axum::extract::ConnectInfo`.
    #[must_use]
    pub fn with_connection(self, connection: fn(&Extensions) -> Option<ConnectionInfo>) -> Self {
        Self { connection, ..self }
    }

    fn connection(&self, extensions: &Extensions) -> ConnectionInfo {
        let given = || extensions.get::<ConnectionInfo>().copied();
        let peer = || {
            let peer = extensions.get::<SocketAddr>()?;
            Some(ConnectionInfo::from_peer(*peer))
        };
        let unknown = || ConnectionInfo::from_peer((Ipv4Addr::LOCALHOST, 0).into());
        (self.connection)(extensions)
            .or_else(given)
            .or_else(peer)
            .unwrap_or_else(unknown)
    }
}

impl<A, B> Service<Request<B>> for Mounted<A>
where
    A: Mountable,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let connection = self.connection(request.extensions());
        let (api, request) = (self.api.clone(), request.map(Body::new));
        Box::pin(async move { Ok(api.handle(request, connection).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with the address of the client.
    #[derive(Clone)]
    struct WhoAmI;

    impl Mountable for WhoAmI {
        async fn handle(&self, _: Request<Body>, connection: ConnectionInfo) -> Response<Body> {
            Response::new(Body::full(connection.peer.to_string()))
        }
    }

    async fn peer(service: &mut Mounted<WhoAmI>, request: Request<Body>) -> String {
        let response = service.call(request).await.expect("it cannot fail");
        let body = crate::read_limited(response.into_body(), 100, crate::ReadPace::default()).await;
        String::from_utf8(body.expect("it is short").to_vec()).expect("a text")
    }

    fn request() -> Request<Body> {
        Request::new(Body::empty())
    }

    #[tokio::test]
    async fn the_client_is_who_the_host_says() {
        let mut service = Mounted::new(WhoAmI);
        assert_eq!(peer(&mut service, request()).await, "127.0.0.1:0");
        let client: SocketAddr = "192.0.2.7:4711".parse().expect("an address");
        let mut from_client = request();
        from_client.extensions_mut().insert(client);
        assert_eq!(peer(&mut service, from_client).await, "192.0.2.7:4711");
        let mut from_client = request();
        let info = ConnectionInfo::from_peer(client);
        from_client.extensions_mut().insert(info);
        assert_eq!(peer(&mut service, from_client).await, "192.0.2.7:4711");
        let mut named = service.with_connection(|_| {
            let host: SocketAddr = "192.0.2.8:1".parse().ok()?;
            Some(ConnectionInfo::from_peer(host))
        });
        assert_eq!(peer(&mut named, request()).await, "192.0.2.8:1");
    }
}

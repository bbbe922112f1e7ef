//! Asking other servers: pooled connections over vetted addresses.
//!
//! What is asked is often chosen by a stranger, so a client reaches nothing but what its [`AddressPolicy`] allows, whoever
//! asks and by whatever redirect. It takes no proxy from the environment, which would resolve names behind its back.

mod address;
mod connect;
mod error;
mod fetch;
mod http1;
mod policy;
mod pool;
mod resolve;
mod tls;

#[cfg(fuzzing)]
pub(crate) use http1::fuzzing::answer as fuzz_answer;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use http::header::{HOST, UPGRADE, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsConnector;

use crate::body::Body;
use connect::Connector;
use http1::{Message, Unanswered};
use policy::Target;
use pool::{Line, Pool};

pub use error::{FetchError, Reason};
pub use fetch::{Download, FetchLimits, Fetched, MOST_REDIRECTS};
pub use policy::AddressPolicy;
pub use resolve::{Resolve, SystemResolver};
pub use tls::{ExtraCaError, tls_config};

/// How often a request that a closing connection did not begin to send is sent over another one.
const MORE_TRIES: u32 = 2;

/// How long an unused connection is kept unless its owner says otherwise. Servers and load balancers close theirs after 20 s
/// and more; who closes first never sends a request into a connection that is being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// What a client is made of.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// What may be asked.
    pub policy: AddressPolicy,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Authorities to trust beside the usual ones: the content of a PEM file.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// The time for resolution, TCP and TLS together.
    pub connect_timeout: Duration,
    /// How many unused connections are kept for each host.
    pub idle_per_host: usize,
    /// How long an unused connection is kept: less than servers keep theirs.
    pub idle_timeout: Duration,
    /// The `User-Agent` of requests that have none.
    pub user_agent: Option<HeaderValue>,
}

/// An HTTP/1.1 and HTTP/2 client. Clones share one pool.
#[derive(Clone)]
pub struct Client {
    policy: Arc<AddressPolicy>,
    pool: Pool,
    user_agent: Option<HeaderValue>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            policy: AddressPolicy::default(),
            resolver: Arc::new(SystemResolver),
            extra_ca_pem: None,
            connect_timeout: Duration::from_secs(10),
            idle_per_host: 8,
            idle_timeout: IDLE_TIMEOUT,
            user_agent: None,
        }
    }
}

impl Client {
    /// Makes a client; it connects when first asked to. Fails when the extra authorities cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, ExtraCaError> {
        let tls = tls::client_config(config.extra_ca_pem.as_deref())?;
        let policy = Arc::new(config.policy);
        let connector = Connector {
            policy: Arc::clone(&policy),
            resolver: config.resolver,
            tls: TlsConnector::from(Arc::new(tls)),
            limit: config.connect_timeout,
        };
        let pool = Pool::new(connector, config.idle_per_host, config.idle_timeout);
        Ok(Self {
            policy,
            pool,
            user_agent: config.user_agent,
        })
    }

    /// Sends a request with an absolute address, and returns the head of the answer with its body still to be read.
    ///
    /// No redirect is followed, no status is an error, and no time is set beyond that for connecting: the caller sets it,
    /// and gives the request up by dropping the future or the body. A request that may have reached the host is never
    /// sent a second time.
    pub fn send(
        &self,
        mut request: Request<Body>,
    ) -> BoxFuture<'_, Result<Response<Body>, FetchError>> {
        let target = match self.policy.target(request.uri()) {
            Ok(target) => target,
            Err(refused) => return ready(Err(refused)).boxed(),
        };
        if let Some(user_agent) = &self.user_agent {
            let headers = request.headers_mut();
            headers
                .entry(USER_AGENT)
                .or_insert_with(|| user_agent.clone());
        }
        if request.headers().contains_key(UPGRADE) {
            return self.upgrade(target, request).boxed();
        }
        // What is waited for holds the request no longer than it takes to write it.
        match self.pool.kept(target) {
            Ok(Line::Http1(lease)) => self.exchange(Message::new(request, lease)).boxed(),
            Ok(Line::Http2(sender)) => self.share(sender, request).boxed(),
            Err(target) => self.connect(target, Box::new(request)).boxed(),
        }
    }

    /// Sends a request over a new connection.
    async fn connect(
        &self,
        target: Target,
        request: Box<Request<Body>>,
    ) -> Result<Response<Body>, FetchError> {
        match self.pool.connect(target).boxed().await? {
            Line::Http1(lease) => self.exchange(Message::new(*request, lease)).await,
            Line::Http2(sender) => self.share(sender, *request).boxed().await,
        }
    }

    /// Sends a request over a connection of its own, and over another one if that closed before a byte of it was written.
    async fn exchange(&self, message: Box<Message>) -> Result<Response<Body>, FetchError> {
        match http1::exchange(message).await {
            Ok(answer) => Ok(answer),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::Unsent(message, _)) => self.again(message).boxed().await,
        }
    }

    /// Sends a request that was not begun to be sent over a new connection.
    async fn again(&self, mut message: Box<Message>) -> Result<Response<Body>, FetchError> {
        let mut tries_left = MORE_TRIES;
        loop {
            let target = message.target().clone();
            let lease = match self.pool.connect(target).await? {
                Line::Http1(lease) => lease,
                Line::Http2(_) => {
                    let cause = "the host changed its protocol".to_owned();
                    return Err(FetchError::Broken { cause });
                }
            };
            message = match http1::exchange(message.over(lease)).await {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::Unsent(message, _)) if tries_left > 1 => message,
                Err(Unanswered::Unsent(_, error)) => return Err(broken(&error)),
                Err(Unanswered::Failed(error)) => return Err(error),
            };
            tries_left -= 1;
        }
    }

    /// Sends a request over a connection that others use as well.
    async fn share(
        &self,
        mut sender: http2::SendRequest<Body>,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, FetchError> {
        let mut tries_left = MORE_TRIES;
        loop {
            let mut refused = match sender.try_send_request(request).await {
                Ok(answer) => return Ok(answer.map(Body::new)),
                Err(refused) => refused,
            };
            // A connection that closes gives back what it has not begun to send.
            let unsent = refused.take_message().filter(|_| tries_left > 0);
            request = unsent.ok_or_else(|| broken(refused.error()))?;
            tries_left -= 1;
            let target = self.policy.target(request.uri())?;
            sender = match self.pool.connect(target).await? {
                Line::Http1(lease) => return self.exchange(Message::new(request, lease)).await,
                Line::Http2(sender) => sender,
            };
        }
    }

    /// Sends a request after which the connection may speak something else.
    async fn upgrade(
        &self,
        target: Target,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, FetchError> {
        let stream = TokioIo::new(self.pool.alone(&target).await?);
        let handshake = hyper::client::conn::http1::handshake(stream).await;
        let (mut sender, connection) = handshake.map_err(|error| target.unreachable(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection ended");
            }
        });
        let origin = request.uri().path_and_query().cloned();
        *request.uri_mut() = origin.map_or_else(Uri::default, Uri::from);
        let host = HeaderValue::try_from(target.named());
        let host = host.map_err(|_| FetchError::BadUrl("its host cannot be read"))?;
        request.headers_mut().entry(HOST).or_insert(host);
        let answer = sender.send_request(request).await;
        Ok(answer.map_err(|error| broken(&error))?.map(Body::new))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The connection failed, for the innermost of these causes.
fn broken(error: &(dyn std::error::Error + 'static)) -> FetchError {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    FetchError::Broken {
        cause: cause.to_string(),
    }
}

#[cfg(test)]
mod tests;

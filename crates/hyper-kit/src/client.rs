//! Asking other servers: pooled connections over vetted addresses.
//!
//! What is asked is often chosen by a stranger, so a client reaches nothing but what its [`AddressPolicy`] allows, whoever
//! asks and by whatever redirect. It takes no proxy from the environment, which would resolve names behind its back.

mod address;
mod connect;
mod error;
mod fetch;
mod policy;
mod resolve;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::TlsConnector;

use crate::body::Body;
use connect::Connector;

pub use error::{FetchError, Reason};
pub use fetch::{FetchLimits, Fetched, MOST_REDIRECTS};
pub use policy::AddressPolicy;
pub use resolve::{Resolve, SystemResolver};
pub use tls::ExtraCaError;

/// How often a silent HTTP/2 connection with requests under way is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);

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
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// The `User-Agent` of requests that have none.
    pub user_agent: Option<HeaderValue>,
}

/// An HTTP/1.1 and HTTP/2 client. Clones share one pool.
#[derive(Debug, Clone)]
pub struct Client {
    policy: Arc<AddressPolicy>,
    pool: legacy::Client<Connector, Body>,
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
            idle_timeout: Duration::from_secs(60),
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
        let pool = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.idle_timeout)
            .pool_max_idle_per_host(config.idle_per_host)
            .http2_keep_alive_interval(PING_EVERY)
            .build(connector);
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
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, FetchError> {
        self.policy.target(request.uri())?;
        if let Some(user_agent) = &self.user_agent {
            let headers = request.headers_mut();
            headers
                .entry(USER_AGENT)
                .or_insert_with(|| user_agent.clone());
        }
        match self.pool.request(request).await {
            Ok(answer) => Ok(answer.map(Body::new)),
            Err(error) => Err(cause_of(&error)),
        }
    }
}

/// What the connector said, where it was the connector; else the innermost cause.
fn cause_of(error: &legacy::Error) -> FetchError {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(inner) = cause.source() {
        if let Some(refusal) = inner.downcast_ref::<FetchError>() {
            return refusal.clone();
        }
        cause = inner;
    }
    FetchError::Broken {
        cause: cause.to_string(),
    }
}

#[cfg(test)]
mod tests;

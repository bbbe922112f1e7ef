//! The socket of a server, from the moment that it is bound to the moment that nothing is served any more.
//!
//! It is bound before anything else is opened, so its address is known before the server runs, and a port that is taken
//! fails at once and leaves nothing behind.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_kit::{Application, Drained, ServerLimits, ServerStats};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;
use crate::front::{Endpoints, EndpointsOnly};

/// Connections of the listener of metrics: a few scrapers and orchestrators.
const METRICS_CONNECTIONS: usize = 64;

/// How long answers about metrics may go on after everything else is over.
const METRICS_GRACE: Duration = Duration::from_secs(1);

/// How long connections are left open behind the grace of a drain: what ends requests at its end gets its answers out.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A bound socket.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    limits: ServerLimits,
    stats: Arc<ServerStats>,
    delay: Duration,
    leave: Leave,
}

/// How a server leaves: first it is not ready any more, then it stops to accept.
#[derive(Clone, Debug, Default)]
pub struct Leave {
    /// Fired when the server begins to leave.
    pub leaving: CancellationToken,
    /// Fired when it stops accepting: streams end, nothing new is taken up.
    pub drain: CancellationToken,
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} cannot be listened on; stop what uses it, or choose another address with {flag}"
)]
pub struct ListenError {
    address: SocketAddr,
    flag: &'static str,
    source: io::Error,
}

/// The bound socket of metrics, health and readiness alone.
#[derive(Debug)]
pub struct MetricsListening {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListening {
    /// Binds the socket where one is configured.
    ///
    /// # Errors
    /// If the address is taken, or not one of this machine.
    pub async fn bind(config: &ServerConfig) -> Result<Option<Self>, ListenError> {
        let Some(address) = config.metrics_listen else {
            return Ok(None);
        };
        let (listener, address) = bind(address, "--metrics-listen").await?;
        Ok(Some(Self { listener, address }))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`.
    pub(crate) async fn serve(self, endpoints: Endpoints, shutdown: impl Future<Output = ()>) {
        let limits = ServerLimits {
            max_connections: METRICS_CONNECTIONS,
            grace: METRICS_GRACE,
            ..ServerLimits::default()
        };
        // The APIs that the root lists are not on this listener.
        let front = EndpointsOnly(Endpoints {
            home: None,
            ..endpoints
        });
        hyper_kit::serve(self.listener, front, limits, Arc::default(), shutdown).await;
    }
}

async fn bind(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError {
        address,
        flag,
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

impl Listening {
    /// Binds the socket.
    ///
    /// # Errors
    /// If the address is taken, or not one of this machine.
    pub async fn bind(config: &ServerConfig) -> Result<Self, ListenError> {
        let (listener, address) = bind(config.listen, "--listen").await?;
        let defaults = ServerLimits::default();
        let limits = ServerLimits {
            max_connections: config
                .max_connections
                .map_or(defaults.max_connections, |most| most as usize),
            uncounted_peers: config.trusted_proxies.clone(),
            // Where a credential is asked, a page whose name resolves to this machine has none to show.
            host_names: config.access.anonymous.then(|| config.host_names()),
            grace: config.drain_grace + LAST_ANSWERS,
            ..defaults
        };
        Ok(Self {
            listener,
            address,
            limits,
            stats: Arc::new(ServerStats::default()),
            delay: config.drain_delay,
            leave: Leave::default(),
        })
    }

    /// Where it listens; tells the port when any free one was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the accept loop counts.
    #[must_use]
    pub fn stats(&self) -> Arc<ServerStats> {
        Arc::clone(&self.stats)
    }

    /// How it will leave.
    #[must_use]
    pub fn leave(&self) -> Leave {
        self.leave.clone()
    }

    /// Serves until `shutdown`, then ends well: not ready at once, accepting for the configured delay, then requests have
    /// the configured grace.
    pub async fn serve<A: Application>(
        self,
        application: A,
        shutdown: impl Future<Output = ()>,
    ) -> Drained {
        tracing::info!(address = %self.address, "serving");
        let stop = async {
            shutdown.await;
            tracing::info!("leaving: no longer ready");
            self.leave.leaving.cancel();
            tokio::time::sleep(self.delay).await;
            self.leave.drain.cancel();
        };
        hyper_kit::serve(self.listener, application, self.limits, self.stats, stop).await
    }
}

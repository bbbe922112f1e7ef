//! The socket of a server, from the moment that it is bound to the moment that nothing is served any more.
//!
//! It is bound before anything else is opened, so its address is known before the server runs, and a port that is taken
//! fails at once and leaves nothing behind.

mod unix;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_kit::{Application, Drained, Listener, ServerLimits, ServerStats};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Listen, ServerConfig};
use crate::front::{Endpoints, EndpointsOnly};
use crate::systemd::{self, NoSocket};
use unix::SocketFile;

/// Connections of the listener of metrics: a few scrapers and orchestrators.
const METRICS_CONNECTIONS: usize = 64;

/// How long answers about metrics may go on after everything else is over.
const METRICS_GRACE: Duration = Duration::from_secs(1);

/// How long connections are left open behind the grace of a drain: what ends requests at its end gets its answers out.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A bound socket.
#[derive(Debug)]
pub struct Listening {
    listener: Listener,
    address: ListenAddress,
    /// The file of a Unix socket that was made here.
    file: Option<SocketFile>,
    limits: ServerLimits,
    stats: Arc<ServerStats>,
    delay: Duration,
    leave: Leave,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// On an address of the network, or of this machine alone.
    Tcp(SocketAddr),
    /// At a path.
    Unix(PathBuf),
}

/// How a server leaves: first it is not ready any more, then it stops to accept.
#[derive(Clone, Debug, Default)]
pub struct Leave {
    /// Fired when the server begins to leave.
    pub leaving: CancellationToken,
    /// Fired when it stops accepting: streams end, nothing new is taken up.
    pub drain: CancellationToken,
}

/// Nothing can be listened on. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is taken, or not one of this machine.
    #[error(
        "{address} cannot be listened on; stop what uses it, or choose another address with {flag}"
    )]
    Address {
        /// The address.
        address: SocketAddr,
        /// What names it.
        flag: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    #[error(
        "the socket {} cannot be made; check that its directory is there and that this user may write there, stop the \
         server that listens on it, or choose another path with --listen",
        path.display()
    )]
    Path {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No socket came from systemd, or one that cannot be served.
    #[error(
        "`--listen systemd` needs exactly one stream socket from systemd; start the server by a .socket unit with one \
         ListenStream, or name an address or a path with --listen"
    )]
    Systemd(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The socket of systemd would let everybody in.
    #[error(
        "the socket that systemd passes on listens on {0}, which would let everybody who can reach it use this server; \
         set a token (EASEL_TOKEN), change ListenStream to a loopback address or a path, or allow it on purpose \
         (--insecure-no-auth)"
    )]
    Open(SocketAddr),
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
        let (listener, address) = bind_tcp(address, "--metrics-listen").await?;
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

async fn bind_tcp(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError::Address {
        address,
        flag,
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Takes the socket of systemd, with where it listens.
fn inherit(config: &ServerConfig) -> Result<(Listener, ListenAddress), ListenError> {
    let unfit = |error: NoSocket| ListenError::Systemd(error.into());
    let listener = systemd::socket().map_err(unfit)?;
    let address = address_of(&listener).map_err(|error| unfit(error.into()))?;
    let open = config.access.anonymous && !config.insecure_no_auth;
    match &address {
        ListenAddress::Tcp(tcp) if open && !address.is_local() => Err(ListenError::Open(*tcp)),
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) => Ok((listener, address)),
    }
}

fn address_of(listener: &Listener) -> io::Result<ListenAddress> {
    Ok(match listener {
        Listener::Tcp(listener) => ListenAddress::Tcp(listener.local_addr()?),
        Listener::Unix(listener) => {
            let address = listener.local_addr()?;
            let path = address.as_pathname().unwrap_or("(unnamed)".as_ref());
            ListenAddress::Unix(path.to_owned())
        }
    })
}

impl ListenAddress {
    /// The address and port, unless it is a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Whether only programs of this machine reach it, a proxy among them.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.tcp()
            .is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listening {
    /// Binds the socket, or takes the one that systemd bound.
    ///
    /// # Errors
    /// If the address is taken or not one of this machine, or systemd passed no socket, or one that would let everybody in.
    pub async fn bind(config: &ServerConfig) -> Result<Self, ListenError> {
        let (listener, address, file) = match &config.listen {
            Listen::Tcp(address) => {
                let (listener, address) = bind_tcp(*address, "--listen").await?;
                (listener.into(), ListenAddress::Tcp(address), None)
            }
            Listen::Unix(path) => {
                let bound = unix::bind(path, config.listen_mode.0).await;
                let (listener, file) = bound.map_err(|source| ListenError::Path {
                    path: path.clone(),
                    source,
                })?;
                let address = ListenAddress::Unix(path.clone());
                (listener.into(), address, Some(file))
            }
            Listen::Systemd => {
                let (listener, address) = inherit(config)?;
                (listener, address, None)
            }
        };
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
            file,
            limits,
            stats: Arc::new(ServerStats::default()),
            delay: config.drain_delay,
            leave: Leave::default(),
        })
    }

    /// Where it listens; tells the port when any free one was asked for.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
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

    /// Serves until `shutdown`, then ends well: not ready at once, accepting for the configured delay while each answer asks its
    /// client to connect anew elsewhere, then requests have the configured grace.
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
        let leaving = self.leave.leaving.cancelled();
        let (limits, stats) = (self.limits, self.stats);
        let served =
            hyper_kit::serve_and_leave(self.listener, application, limits, stats, leaving, stop);
        let drained = served.await;
        drop(self.file);
        drained
    }
}

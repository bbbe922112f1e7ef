//! A whole server: the stack, the API over it, and the socket it listens on.
//!
//! The socket is bound when the app is made, so its address is known before it runs and a port that is taken fails at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use accounts::AccountId;
use hyper_kit::{PublicAddress, ReadPace, RouteError, ServerLimits, ServerStats};
use identity::Identity;
use kit::Front;
use kit::config::Credentials;
use kit::metrics::{HttpMetrics, Metrics};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use workflow_http::{Observed, WorkflowApi, WorkflowConfig, WorkflowService};

use crate::config::Config;
use crate::stack::{Stack, StackError};

/// A server that is ready to run.
#[derive(Debug)]
pub struct App {
    stack: Stack,
    listener: TcpListener,
    address: SocketAddr,
    front: Front<WorkflowApi>,
    limits: ServerLimits,
    stats: Arc<ServerStats>,
    config: Config,
    /// Fired when the server begins to leave: it is not ready any more.
    leaving: CancellationToken,
    /// Fired when it stops accepting: streams end, no job is taken up.
    drain: CancellationToken,
}

/// Why a server cannot be assembled. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// What is behind the API.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The address cannot be listened on.
    #[error(
        "{address} cannot be listened on; stop what uses it, or choose another address with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The API cannot be mounted.
    #[error("the API cannot be mounted below this path")]
    Mount(#[from] RouteError),
}

/// Opens the installation, binds the socket and mounts the API; nothing is served yet.
///
/// # Errors
/// If the data directory is taken or broken, or the address cannot be listened on.
pub async fn assemble(config: &Config) -> Result<App, AssembleError> {
    // The socket first: its failure is the likelier one, and leaves no directory behind.
    let address = config.server.listen;
    let listen_failed = |source| AssembleError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen_failed)?;
    let address = listener.local_addr().map_err(listen_failed)?;

    let mut metrics = Metrics::new("easel", env!("CARGO_PKG_VERSION"));
    let stats = Arc::new(ServerStats::default());
    let requests = HttpMetrics::register(&mut metrics, stats.clone());
    let stack = Stack::open(&config.server.data_dir, &config.workflows, &mut metrics).await?;
    let (leaving, drain) = (CancellationToken::new(), CancellationToken::new());
    let api = workflow_http::routes(service(config, &stack, &requests, &drain))?;
    let front = Front {
        api,
        mount_path: config.server.mount_path.clone(),
        probe: probe(&stack, &leaving),
        metrics: Arc::new(metrics),
        requests,
    };

    let defaults = ServerLimits::default();
    let limits = ServerLimits {
        max_connections: config
            .server
            .max_connections
            .map_or(defaults.max_connections, |most| most as usize),
        uncounted_peers: config.server.trusted_proxies.clone(),
        grace: config.server.drain_grace,
        ..defaults
    };
    Ok(App {
        stack,
        listener,
        address,
        front,
        limits,
        stats,
        config: config.clone(),
        leaving,
        drain,
    })
}

impl App {
    /// Where it listens; tells the port when any free one was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is behind the API.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Serves and runs jobs until `shutdown`, then ends well: not ready at once, accepting for the configured delay, then
    /// requests and jobs have the configured grace. Answers when nothing runs any more.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let server = &self.config.server;
        let (delay, grace) = (server.drain_delay, server.drain_grace);
        let background = self.stack.start();
        tracing::info!(address = %self.address, "serving");
        let (leaving, drain) = (self.leaving, self.drain);
        let stop = async {
            shutdown.await;
            tracing::info!("leaving: no longer ready");
            leaving.cancel();
            tokio::time::sleep(delay).await;
            drain.cancel();
        };
        let serving = hyper_kit::serve(self.listener, self.front, self.limits, self.stats, stop);
        let working = async {
            drain.cancelled().await;
            background.drain(grace).await;
        };
        let (drained, ()) = tokio::join!(serving, working);
        tracing::info!(cut_connections = drained.cut, "stopped");
    }
}

fn service(
    config: &Config,
    stack: &Stack,
    requests: &HttpMetrics,
    drain: &CancellationToken,
) -> WorkflowService {
    let (accounts, local) = (stack.local_accounts(), AccountId::local());
    let identity = match &config.server.credentials {
        Credentials::Nothing => Identity::none(accounts, local),
        Credentials::Token(token) => Identity::token(accounts, local, token),
    };
    let requests = requests.clone();
    let observer = move |seen: &Observed| {
        requests.observe(
            seen.method.as_str(),
            seen.route,
            seen.status.as_u16(),
            seen.elapsed,
        );
    };
    WorkflowService {
        jobs: stack.jobs.clone(),
        assets: stack.assets.clone(),
        link_keys: stack.link_keys.clone(),
        identity,
        clock: stack.timer.clone(),
        drain: drain.clone(),
        observer: Arc::new(observer),
        config: WorkflowConfig {
            address: PublicAddress {
                configured: config.server.public_url.clone(),
                trusted_proxies: config.server.trusted_proxies.clone(),
                mount_prefix: config.server.mount_path.clone(),
            },
            allowed_origins: config.server.allowed_origins.clone(),
            upload_bytes: config.workflows.upload_bytes,
            json_bytes: usize::try_from(config.server.json_limit_bytes).unwrap_or(usize::MAX),
            link_lifetime: config.workflows.link_lifetime,
            read_pace: ReadPace::default(),
        },
    }
}

fn probe(stack: &Stack, leaving: &CancellationToken) -> kit::Probe {
    let (stack, leaving) = (stack.clone(), leaving.clone());
    Arc::new(move || {
        let (stack, leaving) = (stack.clone(), leaving.clone());
        Box::pin(async move {
            let mut complaints = stack.complaints().await;
            if leaving.is_cancelled() {
                complaints.push("the server is shutting down".to_owned());
            }
            complaints
        })
    })
}

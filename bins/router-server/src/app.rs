//! A whole server: store, router, the API over them, and the socket it listens on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accounts::AdminError;
use console::{Console, Families, Reference, WithConsole};
use hyper_kit::RouteError;
use identity::JwtSetupError;
use installation::{Health, Installation, MinFree, OpenError, OpenOptions, ReserveOptions};
use jiff::Timestamp;
use router_http::RouterApi;
use server_kit::admin::{AdminApi, AdminPorts, AdminSocket, AdminSocketError};
use server_kit::config::{PlaceError, ServerConfig};
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::opening::{self, Keeps};
use server_kit::reload::{Adjustable, ReloadStatus, SettingsInForce};
use server_kit::store_metrics;
use server_kit::sweeps::Sweeps;
use server_kit::webhooks::WebhookSender;
use server_kit::{
    Endpoints, Front, Home, HomeEntry, ListenAddress, ListenError, Listening, MetricsListening,
    Server,
};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::stack::{Background, RouterStack, RouterStackError};
use crate::store::store_at;

/// A server that is ready to run.
#[derive(Debug)]
pub struct App {
    installation: Installation,
    server: Server<WithConsole<RouterApi>>,
    background: Background,
    welcome: Vec<(&'static str, String)>,
    grace: Duration,
}

/// Why a server cannot be assembled. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The data directory.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The router.
    #[error(transparent)]
    Router(#[from] RouterStackError),
    /// Its first account.
    #[error("the account `local` cannot be made in the data directory")]
    Accounts(#[from] AdminError),
    /// There is no store at its place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Commands cannot reach it.
    #[error(transparent)]
    Admin(#[from] AdminSocketError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Credentials cannot be verified.
    #[error(transparent)]
    Identity(#[from] JwtSetupError),
    /// The API cannot be mounted.
    #[error("the API cannot be mounted below this path")]
    Mount(#[from] RouteError),
}

/// What is served, as the answer at the root lists it.
pub const HOME_ENTRIES: &[HomeEntry] = &[HomeEntry {
    path: "/v1/models",
    what: "Partner models: one call to any of them",
    document: Some("/v1/openapi.json"),
}];

const ABOUT: &str = "A router to partner models: one API, keys that pay once, limits that hold.";

/// Opens the installation, binds the socket, takes up what ran when it stopped last and mounts the API; nothing is served
/// yet.
///
/// # Errors
/// If the data directory is taken or broken, the catalog is wrong, or the address cannot be listened on.
pub async fn assemble(config: &Config) -> Result<App, AssembleError> {
    // The socket first: its failure is the likelier one, and leaves no directory behind.
    let listening = Listening::bind(&config.server).await?;
    let metrics_listening = MetricsListening::bind(&config.server).await?;
    let mut metrics = Metrics::new("easel-router", env!("CARGO_PKG_VERSION"));
    let requests = HttpMetrics::register(&mut metrics, listening.stats());
    // No upload is kept from the disk here; the ballast is for the ends of calls and their bills.
    let reserve = ReserveOptions {
        min_free: MinFree::Bytes(0),
        ballast_bytes: ReserveOptions::BALLAST_BYTES,
    };
    let options = OpenOptions {
        tier: config.router.tier(),
        reserve,
        fresh: config.server.fresh,
    };
    let store = store_at(&config.server.place)?;
    let installation = opening::open(&*store, options).await?;
    accounts::ensure_local(&*installation.account_admin, Timestamp::now()).await?;
    let admin = AdminSocket::bind_at(&config.server.place)?;
    let identity = config
        .server
        .access
        .identity(installation.accounts.clone())?;
    let stack = RouterStack::open(&installation, &config.router, &mut metrics, &requests);
    let stack = stack.await?.sweeping_files();
    store_metrics::register(installation.health.clone(), &mut metrics);
    let sweeps = Sweeps::register(installation.assets.sweeps.clone(), &mut metrics);
    let mut ports = AdminPorts {
        catalog: Some(stack.catalog_control()),
        ..opening::admin_ports(&installation, Keeps::NoAssets)
    };
    ports.webhooks.private_hosts = Some(config.server.webhook_private_hosts.clone());
    ports.settings = Some(SettingsInForce::new(config.server.in_force.clone()));
    let reloads = ReloadStatus::register(&mut metrics, sweeps.notes());
    let webhooks = WebhookSender::new(&config.server, &mut metrics);
    let mount_path = &config.server.mount_path;
    let front = Front {
        refuses: None,
        admin: AdminApi::new(
            mount_path,
            Arc::new(ports.clone()),
            identity.clone(),
            requests.observer(),
        )?,
        api: WithConsole {
            console: console(&config.server),
            reference: Reference::new(&config.server.mount_path, families()),
            api: stack.api(&config.server, identity.clone())?,
        },
        endpoints: Endpoints {
            mount_path: config.server.mount_path.clone(),
            host_names: config.server.host_names(),
            probe: probe(&installation.health, &listening.leave().leaving),
            home: Some(Home::new(
                ABOUT,
                &config.server.home_entries(HOME_ENTRIES),
                &config.server.mount_path,
            )),
            metrics: Arc::new(metrics),
            notes: sweeps.notes(),
            requests,
        },
        identity: identity.clone(),
    };
    let server = Server {
        listening,
        metrics: metrics_listening,
        front,
        admin,
        ports,
        identity,
        installation: installation.clone(),
        webhooks,
        reloads,
    };
    Ok(App {
        welcome: stack.welcome(),
        background: stack.start(sweeps).await?,
        installation,
        server,
        grace: config.server.drain_grace,
    })
}

impl App {
    /// Where it listens; tells the port when any free one was asked for.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        self.server.address()
    }

    /// What it changes of itself while it serves.
    #[must_use]
    pub fn adjustable(&self) -> Adjustable {
        self.server.adjustable()
    }

    /// Where metrics are served besides.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.server.metrics_address()
    }

    /// The installation.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// What is said about partners at start.
    #[must_use]
    pub fn welcome(&self) -> &[(&'static str, String)] {
        &self.welcome
    }

    /// Serves until `shutdown`, then ends well: not ready at once, accepting for the configured delay, then requests and
    /// executions have the configured grace. Answers when nothing runs any more.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (background, grace) = (self.background, self.grace);
        let working = async |drain: CancellationToken| {
            drain.cancelled().await;
            background.drain(grace).await;
        };
        self.server.run(shutdown, working).await;
    }
}

/// The console of a server of models alone, unless it is switched off.
fn console(server: &ServerConfig) -> Option<Console> {
    server
        .console
        .then(|| Console::new(&server.mount_path, families()))
}

fn families() -> Families {
    Families {
        workflows: false,
        open: false,
        models: true,
    }
}

fn probe(health: &Arc<dyn Health>, leaving: &CancellationToken) -> server_kit::Probe {
    let (health, leaving) = (health.clone(), leaving.clone());
    Arc::new(move || {
        let (health, leaving) = (health.clone(), leaving.clone());
        Box::pin(async move {
            let mut complaints = Vec::new();
            if let Err(unhealthy) = health.writable() {
                complaints.push(unhealthy.to_string());
            }
            if leaving.is_cancelled() {
                complaints.push("the server is shutting down".to_owned());
            }
            complaints
        })
    })
}

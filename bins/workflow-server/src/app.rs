//! A whole server: the stack, the API over it, and the socket it listens on.
//!
//! The socket is bound when the app is made, so its address is known before it runs and a port that is taken fails at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use console::{Console, Families, Reference, WithConsole};
use hyper_kit::{PublicAddress, ReadPace, RouteError};
use identity::{Identity, JwtSetupError};
use installation::OpenOptions;
use server_kit::admin::{AdminApi, AdminSocket, AdminSocketError};
use server_kit::config::{PlaceError, ServerConfig};
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::opening;
use server_kit::reload::{Adjustable, ReloadStatus, SettingsInForce};
use server_kit::webhooks::WebhookSender;
use server_kit::{
    Endpoints, Front, Home, HomeEntry, ListenAddress, ListenError, Listening, MetricsListening,
    Server,
};
use tokio_util::sync::CancellationToken;
use workflow_http::{WebPage, WorkflowApi, WorkflowConfig, WorkflowService};

use crate::config::Config;
use crate::role::Role;
use crate::stack::{Stack, StackError};
use crate::store::store_at;

/// A server that is ready to run.
#[derive(Debug)]
pub struct App {
    stack: Stack,
    server: Server<WithConsole<WorkflowApi>>,
    role: Role,
    grace: Duration,
}

/// Why a server cannot be assembled. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// What is behind the API.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no store at its place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Commands cannot reach it.
    #[error(transparent)]
    Admin(#[from] AdminSocketError),
    /// Credentials cannot be verified.
    #[error(transparent)]
    Identity(#[from] JwtSetupError),
    /// The API cannot be mounted.
    #[error("the API cannot be mounted below this path")]
    Mount(#[from] RouteError),
}

/// What is served, as the answer at the root lists it.
pub const HOME_ENTRIES: &[HomeEntry] = &[
    HomeEntry {
        path: "/api/v2",
        what: "Workflows: jobs and their events, assets, signed links",
        document: Some("/api/v2/openapi.json"),
    },
    HomeEntry {
        path: "/api",
        what: "The same jobs in the words of ComfyUI; its WebSocket is /ws",
        document: Some("/api/openapi.json"),
    },
];

const ABOUT: &str = "A server that runs image workflows in ComfyUI's format.";

/// Opens the installation, binds the socket and mounts the API; nothing is served yet.
///
/// # Errors
/// If the data directory is taken or broken, or the address cannot be listened on.
pub async fn assemble(config: &Config) -> Result<App, AssembleError> {
    // The socket first: its failure is the likelier one, and leaves no directory behind.
    let listening = Listening::bind(&config.server).await?;
    let metrics_listening = MetricsListening::bind(&config.server).await?;
    let leave = listening.leave();

    let mut metrics = Metrics::new("easel", env!("CARGO_PKG_VERSION"));
    let requests = HttpMetrics::register(&mut metrics, listening.stats());
    let (server, limits) = (&config.server, &config.workflows);
    let options = OpenOptions {
        fresh: server.fresh,
        ..limits.opening()
    };
    let store = store_at(&server.place)?;
    let installation = opening::open(&*store, options).await;
    let installation = installation.map_err(StackError::from)?;
    let stack = Stack::over(installation.clone(), limits, &mut metrics).await?;
    let admin = AdminSocket::bind_at(&config.server.place)?;
    let identity = config.server.access.identity(stack.accounts.clone())?;
    let mut ports = stack.admin();
    ports.webhooks.private_hosts = Some(server.webhook_private_hosts.clone());
    ports.settings = Some(SettingsInForce::new(server.in_force.clone()));
    let reloads = ReloadStatus::register(&mut metrics, stack.sweeps().notes());
    let webhooks = WebhookSender::new(server, &mut metrics);
    let admin_api = AdminApi::new(
        &config.server.mount_path,
        Arc::new(ports.clone()),
        identity.clone(),
        requests.observer(),
    );
    let front = Front {
        refuses: config.role.refuses(),
        admin: admin_api?,
        api: WithConsole {
            console: console(&config.server),
            reference: Reference::new(&config.server.mount_path, families(&config.server)),
            api: api(config, &stack, &identity, &requests, &leave.drain)?,
        },
        endpoints: Endpoints {
            mount_path: config.server.mount_path.clone(),
            host_names: config.server.host_names(),
            probe: probe(&stack, &leave.leaving),
            home: home(config, ABOUT, HOME_ENTRIES),
            metrics: Arc::new(metrics),
            notes: stack.sweeps().notes(),
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
        installation,
        webhooks,
        reloads,
    };
    Ok(App {
        stack,
        server,
        role: config.role,
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

    /// What is behind the API.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Serves and runs jobs until `shutdown`, then ends well: not ready at once, accepting for the configured delay, then
    /// requests and jobs have the configured grace. Answers when nothing runs any more.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let background = self.stack.serve(self.role);
        self.stack.hears_of_replicas().await;
        let grace = self.grace;
        let working = async |drain: CancellationToken| {
            drain.cancelled().await;
            background.drain(grace).await;
        };
        self.server.run(shutdown, working).await;
    }
}

/// The API over a stack, mounted for the callers that `identity` knows. `drain` ends its streams.
///
/// # Errors
/// If the mount path is none.
pub fn api(
    config: &Config,
    stack: &Stack,
    identity: &Identity,
    requests: &HttpMetrics,
    drain: &CancellationToken,
) -> Result<WorkflowApi, RouteError> {
    let api = workflow_http::routes(service(config, stack, identity, requests, drain))?;
    // The metrics are part of the stack: what they hold must not hold the stack.
    stack.metrics().watch_streams(api.stream_counter());
    stack.metrics().watch_memory(api.memory_counter());
    Ok(api)
}

fn service(
    config: &Config,
    stack: &Stack,
    identity: &Identity,
    requests: &HttpMetrics,
    drain: &CancellationToken,
) -> WorkflowService {
    WorkflowService {
        jobs: stack.jobs.clone(),
        assets: stack.assets.clone(),
        accounts: stack.accounts.clone(),
        link_keys: stack.link_keys.clone(),
        identity: identity.clone(),
        clock: stack.timer.clone(),
        drain: drain.clone(),
        observer: requests.observer(),
        v1: Some(stack.v1(web_page(config))),
        deployments: Some(stack.base_addresses()),
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

/// The web page, and what else it links to on this server.
fn web_page(config: &Config) -> Option<WebPage> {
    let console = config.server.console.then_some("console/");
    let root = config.web_root.clone();
    root.map(|root| WebPage::new(root, console))
}

/// The console of a server of workflows alone, unless it is switched off.
fn console(server: &ServerConfig) -> Option<Console> {
    server
        .console
        .then(|| Console::new(&server.mount_path, families(server)))
}

fn families(server: &ServerConfig) -> Families {
    Families {
        workflows: true,
        open: server.access.anonymous,
        models: false,
    }
}

/// What is at the root; nothing where the web page is.
#[must_use]
pub fn home(config: &Config, about: &str, entries: &[HomeEntry]) -> Option<Home> {
    let server = &config.server;
    let home = || Home::new(about, &server.home_entries(entries), &server.mount_path);
    let is_shown = config.web_root.is_none() && config.role.refuses().is_none();
    is_shown.then(home)
}

/// Looks at a stack; a server that is `leaving` is not ready.
#[must_use]
pub fn probe(stack: &Stack, leaving: &CancellationToken) -> server_kit::Probe {
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

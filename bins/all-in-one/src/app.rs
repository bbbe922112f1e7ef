//! The whole server: one installation, both stacks over it, every family on one port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use console::{Console, Reference, WithConsole};
use hyper_kit::RouteError;
use identity::JwtSetupError;
use installation::OpenError;
use router_server::{RouterStack, RouterStackError};
use secrecy::SecretString;
use server_kit::admin::{AdminApi, AdminPorts, AdminSocket, AdminSocketError};
use server_kit::config::{Access, PlaceError, ServerConfig};
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::reload::{Adjustable, ReloadStatus, SettingsInForce};
use server_kit::webhooks::WebhookSender;
use server_kit::{
    Endpoints, Front, HomeEntry, ListenAddress, ListenError, Listening, MetricsListening, Server,
    opening, program,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow_server::{Role, Stack, StackError};

use crate::config::Config;
use crate::families::Families;
use crate::models::{self, Workflows};
use crate::nodes::{self, ResultsError};

/// A server that is ready to run.
#[derive(Debug)]
pub struct App {
    stack: Stack,
    server: Server<WithConsole<Families>>,
    calls: router_server::Background,
    /// Keeps the classes of partner nodes as the catalog is.
    offering: JoinSet<()>,
    partners: Vec<(&'static str, String)>,
    development_token: Option<SecretString>,
    role: Role,
    grace: Duration,
}

/// Why a server cannot be assembled. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The data directory.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// What is behind the workflow API.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// What is behind the router.
    #[error(transparent)]
    Router(#[from] RouterStackError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Results of partners cannot be fetched.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// There is no store at its place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Commands cannot reach it.
    #[error(transparent)]
    Admin(#[from] AdminSocketError),
    /// Credentials cannot be verified.
    #[error(transparent)]
    Identity(#[from] JwtSetupError),
    /// The APIs cannot be mounted.
    #[error("the APIs cannot be mounted below this path")]
    Mount(#[from] RouteError),
}

const ABOUT: &str =
    "A server that runs image workflows in ComfyUI's format and calls partner models.";

/// Opens the installation, binds the socket, takes up calls that ran when it stopped last and mounts the APIs; nothing is
/// served yet.
///
/// # Errors
/// If the data directory is taken or broken, the catalog is wrong, or the address cannot be listened on.
pub async fn assemble(config: &Config) -> Result<App, AssembleError> {
    let server = &config.workflows.server;
    // The socket first: its failure is the likelier one, and leaves no directory behind.
    let listening = Listening::bind(server).await?;
    let metrics_listening = MetricsListening::bind(server).await?;
    let leave = listening.leave();
    let mut metrics = Metrics::new("easel", env!("CARGO_PKG_VERSION"));
    let requests = HttpMetrics::register(&mut metrics, listening.stats());

    let limits = &config.workflows.workflows;
    let store = workflow_server::store_at(&server.place)?;
    let installation = opening::open(&*store, config.opening()).await?;
    let stack = Stack::over(installation.clone(), limits, &mut metrics).await?;
    let base = program::base(server, listening.address());
    let router = RouterStack::open_with(
        &installation,
        &config.router,
        models::own(Workflows::of(&stack, base.clone())),
        &mut metrics,
        &requests,
    );
    let router = router.await?;

    let admin = AdminSocket::bind_at(&server.place)?;
    let development_token = development_token(&server.access, listening.address());
    let access = Access {
        token: development_token
            .clone()
            .or_else(|| server.access.token.clone()),
        ..server.access.clone()
    };
    let identity = access.identity(stack.accounts.clone())?;
    let offering = nodes::offer(&stack, &router, &identity, config, &base).await?;
    let mut ports = AdminPorts {
        catalog: Some(router.catalog_control()),
        models: router.model_admin(),
        ..stack.admin()
    };
    ports.webhooks.private_hosts = Some(server.webhook_private_hosts.clone());
    ports.settings = Some(SettingsInForce::new(server.in_force.clone()));
    let reloads = ReloadStatus::register(&mut metrics, stack.sweeps().notes());
    let webhooks = WebhookSender::new(server, &mut metrics);
    let front = Front {
        refuses: config.workflows.role.refuses(),
        admin: AdminApi::new(
            &server.mount_path,
            Arc::new(ports.clone()),
            identity.clone(),
            requests.observer(),
        )?,
        api: WithConsole {
            console: console(server),
            reference: Reference::new(&server.mount_path, families(server)),
            api: Families {
                router: router.api(server, identity.clone())?,
                workflows: workflow_server::api(
                    &config.workflows,
                    &stack,
                    &identity,
                    &requests,
                    &leave.drain,
                )?,
            },
        },
        endpoints: Endpoints {
            mount_path: server.mount_path.clone(),
            host_names: server.host_names(),
            probe: workflow_server::probe(&stack, &leave.leaving),
            home: workflow_server::home(&config.workflows, ABOUT, &home_entries()),
            metrics: Arc::new(metrics),
            notes: stack.sweeps().notes(),
            requests,
        },
        identity: identity.clone(),
    };
    Ok(App {
        partners: router.welcome(),
        calls: router.start(stack.sweeps()).await?,
        offering,
        server: Server {
            listening,
            metrics: metrics_listening,
            front,
            admin,
            ports,
            identity,
            installation,
            webhooks,
            reloads,
        },
        stack,
        development_token,
        role: config.workflows.role,
        grace: server.drain_grace,
    })
}

/// The console of both families, unless it is switched off.
fn console(server: &ServerConfig) -> Option<Console> {
    server
        .console
        .then(|| Console::new(&server.mount_path, families(server)))
}

fn families(server: &ServerConfig) -> console::Families {
    console::Families {
        workflows: true,
        open: server.access.anonymous,
        models: true,
    }
}

fn home_entries() -> Vec<HomeEntry> {
    [workflow_server::HOME_ENTRIES, router_server::HOME_ENTRIES].concat()
}

/// The router is never anonymous: where everything else is, on loopback, the person who starts the program gets a token for it.
fn development_token(access: &Access, address: &ListenAddress) -> Option<SecretString> {
    let open = access.anonymous && address.is_local();
    let random = || Uuid::new_v4().simple().to_string();
    open.then(|| format!("dev-{}{}", random(), random()).into())
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

    /// What is said about partners at start.
    #[must_use]
    pub fn partners(&self) -> &[(&'static str, String)] {
        &self.partners
    }

    /// The token for the router that was made for this run alone, where one was.
    #[must_use]
    pub fn development_token(&self) -> Option<&SecretString> {
        self.development_token.as_ref()
    }

    /// Serves, runs jobs and calls until `shutdown`, then ends well: not ready at once, accepting for the configured delay,
    /// then requests, jobs and calls have the configured grace. Answers when nothing runs any more.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (jobs, calls, grace) = (self.stack.serve(self.role), self.calls, self.grace);
        self.stack.hears_of_replicas().await;
        let mut offering = self.offering;
        let working = async |drain: CancellationToken| {
            drain.cancelled().await;
            tokio::join!(jobs.drain(grace), calls.drain(grace));
            offering.shutdown().await;
        };
        self.server.run(shutdown, working).await;
    }
}

//! Both stacks over one directory, without a server: what a single graph runs in, and what its classes of nodes come from.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_kit::ServerStats;
use router_core::ModelId;
use router_server::RouterStack;
use server_kit::config::Access;
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::opening;
use tempfile::TempDir;
use tokio::task::JoinSet;
use workflow_server::Stack;

use crate::app::AssembleError;
use crate::config::Config;
use crate::models::{WorkflowKind, Workflows};
use crate::nodes;
use crate::store::store_in;

/// A directory for an installation that goes with the command; only its user may read it.
///
/// # Errors
/// If the system has no place for it.
pub(crate) fn temporary() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

/// Both stacks, open; nothing runs yet.
pub(crate) struct Local {
    pub(crate) stack: Stack,
    router: RouterStack,
    offering: JoinSet<()>,
}

/// Their loops.
pub(crate) struct Running {
    jobs: workflow_server::Background,
    calls: router_server::Background,
    offering: JoinSet<()>,
}

impl Local {
    /// Opens the installation in `data_dir`, creating it where it is missing.
    ///
    /// # Errors
    /// As a server that is assembled.
    pub(crate) async fn open(data_dir: &Path, config: &Config) -> Result<Self, AssembleError> {
        let limits = &config.workflows.workflows;
        let mut metrics = Metrics::new("easel", env!("CARGO_PKG_VERSION"));
        // No request comes over HTTP; the router counts all the same.
        let requests = HttpMetrics::register(&mut metrics, Arc::new(ServerStats::default()));
        let store = store_in(data_dir);
        let installation = opening::open(&*store, config.opening()).await?;
        let stack = Stack::over(installation.clone(), limits, &mut metrics).await?;
        let base = format!("file://{}", data_dir.display());
        let kind = Arc::new(WorkflowKind::new(Workflows::of(&stack, base.clone())));
        let accounts = stack.accounts.clone();
        let router = RouterStack::open_with(
            &installation,
            &config.router,
            vec![kind],
            &mut metrics,
            &requests,
        )
        .await?;
        let closed = Access {
            anonymous: false,
            token: None,
            jwt: None,
        };
        let identity = closed.identity(accounts)?;
        let offering = nodes::offer(&stack, &router, &identity, config, &base).await?;
        Ok(Self {
            stack,
            router,
            offering,
        })
    }

    /// Why a class of partner nodes is not among those that run here, and what brings it in; nothing for other classes.
    pub(crate) fn absence(&self, class: &str) -> Option<String> {
        let model: ModelId = nodes::model_of(class)?;
        let partner = model.provider();
        let known = self.router.partners().iter();
        let Some(known) = known.into_iter().find(|known| known.id == partner) else {
            return Some(format!(
                "there is no partner `{partner}`; `nodes list` shows the models that run here"
            ));
        };
        Some(match known.missing {
            Some(_) => format!(
                "the partner {} needs its key; set {} in the environment",
                known.name,
                known.credentials.join(" and ")
            ),
            None => format!(
                "the partner {} has no model `{}`; `nodes list` shows those that it has",
                known.name,
                model.model()
            ),
        })
    }

    /// Starts what runs jobs and calls.
    ///
    /// # Errors
    /// If the rows of calls cannot be read.
    pub(crate) async fn start(self) -> Result<Running, AssembleError> {
        Ok(Running {
            jobs: self.stack.start(),
            calls: self.router.start(self.stack.sweeps()).await?,
            offering: self.offering,
        })
    }
}

impl Running {
    /// Ends well, within `grace`.
    pub(crate) async fn drain(mut self, grace: Duration) {
        tokio::join!(self.jobs.drain(grace), self.calls.drain(grace));
        self.offering.shutdown().await;
    }
}

//! Both stacks over one directory, without a server: what a single graph runs in, and what its classes of nodes come from.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper_kit::ServerStats;
use router_core::ModelId;
use router_server::RouterStack;
use server_kit::config::{Access, InstallationPlace};
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::opening;
use tempfile::TempDir;
use tokio::task::JoinSet;
use workflow_server::{Role, Stack};

use crate::app::AssembleError;
use crate::config::Config;
use crate::models::{self, Workflows};
use crate::nodes;

/// What the names of temporary installations begin with.
const PREFIX: &str = "easel-run-";

/// A younger folder may belong to a command that has not locked it yet.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// A directory for an installation that goes with the command; only its user may read it. Those that killed commands of the same
/// user left are removed.
///
/// # Errors
/// If the system has no place for it.
pub(crate) fn temporary() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    if let Some(parent) = folder.path().parent()
        && let Err(error) = remove_abandoned(parent, folder.path())
    {
        tracing::warn!(%error, "folders of killed commands were not removed");
    }
    Ok(folder)
}

fn remove_abandoned(parent: &Path, own: &Path) -> io::Result<()> {
    let user = fs::metadata(own)?.uid();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) || entry.path() == own {
            continue;
        }
        // One that goes just now is no failure.
        match remove_if_abandoned(&entry.path(), user) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Removes a folder of this user that no process holds.
fn remove_if_abandoned(folder: &Path, user: u32) -> io::Result<()> {
    // Not through links, which anybody may put into a folder for temporary files.
    let metadata = fs::symlink_metadata(folder)?;
    let age = SystemTime::now().duration_since(metadata.modified()?);
    let is_young = age.map_or(true, |age| age < ABANDONED_AFTER);
    if !metadata.is_dir() || metadata.uid() != user || is_young {
        return Ok(());
    }
    let lock = match File::open(folder.join("lock")) {
        Ok(lock) => Some(lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let is_held = |lock: &File| matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
    match lock.as_ref().is_some_and(is_held) {
        true => Ok(()),
        false => fs::remove_dir_all(folder),
    }
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
        let store = workflow_server::store_at(&InstallationPlace::directory(data_dir))?;
        let installation = opening::open(&*store, config.opening()).await?;
        let stack = Stack::over(installation.clone(), limits, &mut metrics).await?;
        let base = format!("file://{}", data_dir.display());
        let own = models::own(Workflows::of(&stack, base.clone()));
        let accounts = stack.accounts.clone();
        let router =
            RouterStack::open_with(&installation, &config.router, own, &mut metrics, &requests)
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
            jobs: self.stack.start(Role::All),
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

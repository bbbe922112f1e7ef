//! The commands about catalogs, usage and classes of nodes, where models may be workflows and nodes may be models.
//!
//! Checking a catalog needs what runs graphs, and trying a model runs one: both have an installation of their own, which
//! goes with the command.

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use server_kit::config::InstallationPlace;
use server_kit::metrics::Metrics;
use server_kit::program::{self, Failure};
use workflow_server::{Role, Stack};

use crate::config::Config;
use crate::local::{self, Local};
use crate::models::{WorkflowKind, Workflows};

/// How long the loops may take to end once the command has.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the command of this name.
///
/// # Errors
/// If it fails.
pub(crate) fn run(name: &str, arguments: &ArgMatches, config: &Config) -> Result<(), Failure> {
    let server = &config.workflows.server;
    if name != "catalog" {
        let store = workflow_server::store_at(&server.place)?;
        return router_server::run(name, arguments, &*store, &config.router, Vec::new());
    }
    let folder = local::temporary().map_err(|error| Failure::fault(&error))?;
    let store = workflow_server::store_at(&InstallationPlace::directory(folder.path()))?;
    let runtime = program::runtime()?;
    let opened = runtime.block_on(async {
        let mut metrics = Metrics::new("easel", env!("CARGO_PKG_VERSION"));
        let stack = Stack::open(&*store, &config.workflows.workflows, &mut metrics).await?;
        let running = stack.start(Role::All);
        Ok((stack, running))
    });
    let (stack, running) =
        opened.map_err(|error: workflow_server::StackError| Failure::fault(&error))?;
    let base = format!("file://{}", folder.path().display());
    let kind = Arc::new(WorkflowKind::new(Workflows::of(&stack, base)));
    let ended = router_server::run(name, arguments, &*store, &config.router, vec![kind]);
    runtime.block_on(running.drain(GRACE));
    ended
}

/// Lists the classes that the engine and the partners in use give.
///
/// # Errors
/// If the catalog is wrong.
pub(crate) fn list_nodes(arguments: &ArgMatches, config: &Config) -> Result<(), Failure> {
    let folder = local::temporary().map_err(|error| Failure::fault(&error))?;
    let opened = program::runtime()?.block_on(Local::open(folder.path(), config));
    let local = opened.map_err(|error| Failure::fault(&error))?;
    workflow_server::nodes::list(arguments, &local.stack.engine.nodes());
    Ok(())
}

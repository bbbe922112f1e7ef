//! The commands about catalogs and usage.

mod catalog;
mod usage;

use std::sync::Arc;

use clap::{ArgMatches, Command};
use installation::InstallationStore;
use providers::Kind;
use server_kit::program::Failure;

use crate::config::RouterSettings;

/// `catalog` and `usage`, with the commands below them.
#[must_use]
pub fn commands() -> [Command; 2] {
    [catalog::command(), usage::command()]
}

/// Runs the command of this name. `kinds` are those of partners besides the ones asked over HTTP.
///
/// # Errors
/// If it fails.
pub fn run(
    name: &str,
    arguments: &ArgMatches,
    store: &dyn InstallationStore,
    router: &RouterSettings,
    kinds: Vec<Arc<dyn Kind>>,
) -> Result<(), Failure> {
    match name {
        "catalog" => catalog::run(arguments, router, kinds),
        _ => usage::run(arguments, store),
    }
}

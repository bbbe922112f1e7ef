//! The commands about catalogs and usage.

mod catalog;
mod usage;

use clap::{ArgMatches, Command};
use kit::config::ServerConfig;
use kit::program::Failure;

use crate::config::RouterSettings;

/// `catalog check`, `catalog try`, `usage export`, `usage totals`.
#[must_use]
pub fn commands() -> [Command; 2] {
    [catalog::command(), usage::command()]
}

/// Runs the command of this name.
///
/// # Errors
/// If it fails.
pub fn run(
    name: &str,
    arguments: &ArgMatches,
    server: &ServerConfig,
    router: &RouterSettings,
) -> Result<(), Failure> {
    match name {
        "catalog" => catalog::run(arguments, router),
        _ => usage::run(arguments, server),
    }
}

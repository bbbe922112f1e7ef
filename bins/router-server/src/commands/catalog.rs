//! `catalog new DIR`, `catalog check DIR`, `catalog try MODEL FILE.json` and `catalog diff LIST`: for people who write
//! catalogs; `catalog off NAME` and `catalog on NAME` for operators. `catalog list` and `catalog reload` ask a running server and are `server_kit::admin`'s.

use std::sync::Arc;

use clap::{ArgMatches, Command};
use providers::Kind;
use server_kit::program::Failure;
use server_kit::timer::TokioTimer;

use crate::catalog::CatalogSource;
use crate::config::RouterSettings;

mod check;
mod diff;
mod new;
mod switch;
mod trial;

/// The commands.
pub(super) fn command() -> Command {
    Command::new("catalog")
        .about("Makes and looks at catalogs of partners and models, and switches models off and on")
        .subcommand_required(true)
        .subcommands([
            new::command(),
            check::command(),
            trial::command(),
            diff::command(),
        ])
        .subcommands(switch::commands())
        .subcommands(server_kit::admin::catalog_commands())
}

/// Runs one of them.
pub(super) fn run(
    arguments: &ArgMatches,
    router: &RouterSettings,
    kinds: Vec<Arc<dyn Kind>>,
) -> Result<(), Failure> {
    let source = CatalogSource::new(&router.partners, Arc::new(TokioTimer))
        .map_err(|error| Failure::usage(&error))?
        .with_kinds(kinds);
    match arguments.subcommand() {
        Some(("check", arguments)) => check::run(arguments, &source),
        Some(("new", arguments)) => new::run(arguments, source.settings()),
        Some(("diff", arguments)) => diff::run(arguments, &source),
        Some(("off", arguments)) => switch::run(arguments, false, &source),
        Some(("on", arguments)) => switch::run(arguments, true, &source),
        Some((_, arguments)) => trial::run(arguments, &source, router),
        None => Ok(()),
    }
}

//! `catalog new DIR`, `catalog check DIR`, `catalog try MODEL FILE.json` and `catalog diff LIST`: for people who write
//! catalogs; `catalog off NAME` and `catalog on NAME` for operators. `catalog list` and `catalog reload` ask a running server and are `server_kit::admin`'s.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command, value_parser};
use providers::{Kind, Source};
use server_kit::program::{self, Failure};
use server_kit::timer::TokioTimer;

use crate::catalog::{CatalogFaults, CatalogSource};
use crate::config::RouterSettings;

mod diff;
mod new;
mod switch;
mod trial;

/// The commands.
pub(super) fn command() -> Command {
    let folder = Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The catalog: a folder for each partner");
    let check = Command::new("check")
        .about("Says what is wrong with a catalog: file, line and reason")
        .arg(folder);
    Command::new("catalog")
        .about("Makes and looks at catalogs of partners and models, and switches models off and on")
        .subcommand_required(true)
        .subcommands([new::command(), check, trial::command(), diff::command()])
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
        Some(("check", arguments)) => {
            let folder: &PathBuf = arguments.get_one("directory").expect("it is required");
            check(folder, &source)
        }
        Some(("new", arguments)) => new::run(arguments, source.settings()),
        Some(("diff", arguments)) => diff::run(arguments, &source),
        Some(("off", arguments)) => switch::run(arguments, false, &source),
        Some(("on", arguments)) => switch::run(arguments, true, &source),
        Some((_, arguments)) => trial::run(arguments, &source, router),
        None => Ok(()),
    }
}

fn check(folder: &Path, source: &CatalogSource) -> Result<(), Failure> {
    let folder = Source::with_builtin(Some(folder.to_owned()));
    let models = providers::check(&folder, source.settings())
        .map_err(|faults| Failure::usage(&CatalogFaults(faults)))?;
    program::print(&format!(
        "The catalog is right: {models} models, with those built in.\n"
    ));
    Ok(())
}

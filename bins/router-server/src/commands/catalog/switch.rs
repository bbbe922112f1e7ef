//! `catalog off NAME` and `catalog on NAME`: a model, or all of a partner, without touching their files.
//!
//! They write `switches.toml` in the folder of the catalog, which a running server reads again within two seconds.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use providers::{SWITCHES_FILE, Switch};
use server_kit::program::{self, Failure};

use crate::catalog::CatalogSource;

/// The commands.
pub(super) fn commands() -> [Command; 2] {
    let name = || {
        Arg::new("name")
            .value_name("NAME")
            .required(true)
            .help("A model, such as bfl/flux-2-pro, or a partner, such as bfl")
    };
    let off = Command::new("off")
        .about("Switches off a model, or all models of a partner: they are not listed, new calls get 503, and running calls continue")
        .arg(name());
    let on = Command::new("on")
        .about("Switches on a model, or all models of a partner")
        .arg(name());
    [off, on]
}

/// Runs one of them.
pub(super) fn run(arguments: &ArgMatches, on: bool, source: &CatalogSource) -> Result<(), Failure> {
    let name: &String = arguments.get_one("name").expect("it is required");
    let switch: Switch = name.parse().map_err(|error| Failure::usage(&error))?;
    let refuse = |message: String| Failure {
        exit_code: 2,
        message,
    };
    let Some(folder) = source.folder() else {
        return Err(refuse(
            "there is no folder to keep switches in; name one with --catalog, for the server too"
                .to_owned(),
        ));
    };
    let offer = source.load().map_err(|faults| Failure::usage(&faults))?;
    if !offer.has(&switch) {
        return Err(refuse(format!(
            "the catalog has nothing that `{switch}` names"
        )));
    }
    let mut switches = offer.switches;
    if on && let Some(partner) = switches.partner_of(&switch) {
        return Err(refuse(format!(
            "{partner} is switched off as a whole; switch it on first: catalog on {partner}"
        )));
    }
    let state = if on { "on" } else { "off" };
    if !switches.set(&switch, on) {
        program::print(&format!("{switch} is {state} already.\n"));
        return Ok(());
    }
    write(folder, &switches.to_text())
        .map_err(|error| refuse(format!("{SWITCHES_FILE} cannot be written: {error}")))?;
    program::print(&format!(
        "{switch} is switched {state}; a running server follows within two seconds.\n"
    ));
    Ok(())
}

/// In one step, so that no server reads half of it.
fn write(folder: &Path, text: &str) -> io::Result<()> {
    let beside = folder.join(".switches.toml.new");
    fs::write(&beside, text)?;
    fs::rename(&beside, folder.join(SWITCHES_FILE))
}

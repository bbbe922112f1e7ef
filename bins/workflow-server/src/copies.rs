//! The commands for an installation as a whole: `backup`, while a server runs or not, `check` and `rotate-link-keys`, while
//! none does.

use std::path::PathBuf;

use accounts::Tier;
use clap::{Arg, ArgMatches, Command, value_parser};
use installation::{Contents, InstallationStore, OpenOptions, ReserveOptions};
use server_kit::program::{self, Failure};

/// Adds the commands to a program.
#[must_use]
pub fn add_to(command: Command) -> Command {
    let target = Arg::new("target")
        .value_name("DIR")
        .help("The directory of the backup; an earlier backup in it is updated")
        .required(true)
        .value_parser(value_parser!(PathBuf));
    let backup = Command::new("backup")
        .about("Copies the data directory, also while a server uses it; a server can start with the copy")
        .arg(target);
    let check = Command::new("check")
        .about("Checks the rows and every file of a data directory that no server uses");
    let rotate = Command::new("rotate-link-keys").about(
        "Makes a new key for signed links, while no server runs; links of the previous key still work, older ones do not",
    );
    command
        .subcommand(backup)
        .subcommand(check)
        .subcommand(rotate)
}

/// Whether a subcommand is one of these.
#[must_use]
pub fn is_command(name: &str) -> bool {
    ["backup", "check", "rotate-link-keys"].contains(&name)
}

/// Runs the command of this name. `tier` is what an account gets that is given nothing else.
///
/// # Errors
/// If it fails. An earlier backup is then as it was.
pub fn run(
    name: &str,
    arguments: &ArgMatches,
    store: &dyn InstallationStore,
    tier: Tier,
) -> Result<(), Failure> {
    program::runtime()?.block_on(async {
        match name {
            "backup" => back_up(store, arguments).await,
            "check" => check(store).await,
            _ => rotate_link_keys(store, tier).await,
        }
    })
}

async fn back_up(store: &dyn InstallationStore, arguments: &ArgMatches) -> Result<(), Failure> {
    let target: &PathBuf = arguments
        .get_one("target")
        .expect("the command requires it");
    let made = store.back_up(target).await;
    let made = made.map_err(|error| Failure::fault(&error))?;
    program::print(&format!(
        "{} is a backup of {}: {}, {} of them from an earlier one\n",
        target.display(),
        store.location(),
        described(made),
        made.kept,
    ));
    Ok(())
}

/// Fails if the installation is in use, cannot be read, or is not sound.
async fn check(store: &dyn InstallationStore) -> Result<(), Failure> {
    let inspected = store.inspect().await;
    let (met, faults) = inspected.map_err(|error| Failure::fault(&error))?;
    let place = store.location();
    if faults.is_empty() {
        program::print(&format!("{place} is sound: {}\n", described(met)));
        return Ok(());
    }
    Err(Failure {
        exit_code: 1,
        message: format!(
            "{place} is damaged; restore the following from a backup:\n{}",
            faults.join("\n")
        ),
    })
}

async fn rotate_link_keys(store: &dyn InstallationStore, tier: Tier) -> Result<(), Failure> {
    let options = OpenOptions {
        tier,
        reserve: ReserveOptions::NONE,
        fresh: false,
    };
    let opened = store.open(options).await;
    let opened = opened.map_err(|error| Failure::fault(&error))?;
    let rotated = opened.keys.rotate_link_keys().await;
    rotated.map_err(|error| Failure::fault(&error))?;
    program::print("links are signed by a new key from the next start on\n");
    Ok(())
}

fn described(contents: Contents) -> String {
    format!("{} files of {} bytes", contents.blobs, contents.bytes)
}

//! The commands for the data directory itself: `backup`, while a server runs or not, `check` and `rotate-link-keys`, while
//! none does.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use server_kit::program::{self, Failure};
use store_local::{Contents, Store};

/// Adds the commands to a program.
#[must_use]
pub fn add_to(command: Command) -> Command {
    let target = Arg::new("target")
        .value_name("DIR")
        .help("Where the backup goes; an earlier one in it is brought up to date")
        .required(true)
        .value_parser(value_parser!(PathBuf));
    let backup = Command::new("backup")
        .about("Copies the data directory, also while a server uses it; a server can start over the copy")
        .arg(target);
    let check = Command::new("check").about(
        "Looks over a data directory that no server uses: its rows, and that every file is whole",
    );
    let rotate = Command::new("rotate-link-keys").about(
        "Makes a new key that signs links, while no server runs; links of the one before go on to work, older ones end",
    );
    command
        .subcommand(backup)
        .subcommand(check)
        .subcommand(rotate)
}

/// Copies the data directory.
///
/// # Errors
/// If it cannot be copied; an earlier backup in its place is then as it was.
pub fn back_up(data_dir: &Path, arguments: &ArgMatches) -> Result<(), Failure> {
    let target: &PathBuf = arguments
        .get_one("target")
        .expect("the command requires it");
    let made = store_local::back_up(data_dir, target);
    let made = made.map_err(|error| Failure::fault(&error))?;
    program::print(&format!(
        "{} is a backup of {}: {}, {} of them from an earlier one\n",
        target.display(),
        data_dir.display(),
        told(made),
        made.kept,
    ));
    Ok(())
}

/// Looks over the data directory.
///
/// # Errors
/// If it is in use, cannot be read, or is not sound.
pub fn check(data_dir: &Path) -> Result<(), Failure> {
    let inspected = store_local::inspect(data_dir);
    let (met, faults) = inspected.map_err(|error| Failure::fault(&error))?;
    let path = data_dir.display();
    if faults.is_empty() {
        program::print(&format!("{path} is sound: {}\n", told(met)));
        return Ok(());
    }
    Err(Failure {
        exit_code: 1,
        message: format!(
            "{path} is damaged; restore what is named here from a backup:\n{}",
            faults.join("\n")
        ),
    })
}

/// Makes a new key that signs links.
///
/// # Errors
/// If the data directory is in use or cannot be written.
pub fn rotate_link_keys(data_dir: &Path) -> Result<(), Failure> {
    let store = Store::open(data_dir).map_err(|error| Failure::fault(&error))?;
    let rotated = program::runtime()?.block_on(store.rotate_link_keys());
    rotated.map_err(|error| Failure::fault(&error))?;
    program::print("links are signed by a new key from the next start on\n");
    Ok(())
}

fn told(contents: Contents) -> String {
    format!("{} files of {} bytes", contents.blobs, contents.bytes)
}

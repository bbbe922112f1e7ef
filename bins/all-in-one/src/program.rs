//! The commands: `serve`, `run`, `config show`, those of operators, and those for the data directory.

use std::process::ExitCode;

use clap::Command;
use kit::{admin, program};
use workflow_server::{KEYS, copies};

use crate::run;

const ABOUT: &str = "Runs ComfyUI-format image workflows: as a server with an API, or one graph from the command line.";

/// The program `all-in-one`.
#[must_use]
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    program::finish(match matches.subcommand() {
        Some(("run", arguments)) => run::run(arguments),
        Some(("backup", arguments)) => copies::back_up(&matches, arguments),
        Some(("check", _)) => copies::check(&matches),
        Some(("rotate-link-keys", _)) => copies::rotate_link_keys(&matches),
        Some((name, _)) if admin::is_command(name) => workflow_server::program::operate(&matches),
        Some(("config", _)) => workflow_server::program::show_config(&matches),
        Some(_) | None => workflow_server::program::serve(&matches),
    })
}

fn command() -> Command {
    let command = program::command("all-in-one", ABOUT, KEYS).subcommand(run::command());
    copies::add_to(command.subcommands(admin::commands(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}

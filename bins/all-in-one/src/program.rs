//! The commands: `serve`, `run` and `config show`.

use std::process::ExitCode;

use kit::program;
use workflow_server::KEYS;

use crate::run;

const ABOUT: &str = "Runs ComfyUI-format image workflows: as a server with an API, or one graph from the command line.";

/// The program `all-in-one`.
#[must_use]
pub fn main() -> ExitCode {
    let command = program::command("all-in-one", ABOUT, KEYS).subcommand(run::command());
    let matches = command.get_matches();
    program::finish(match matches.subcommand() {
        Some(("run", arguments)) => run::run(arguments),
        Some(("config", _)) => workflow_server::program::show_config(&matches),
        Some(_) | None => workflow_server::program::serve(&matches),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        program::command("all-in-one", ABOUT, KEYS)
            .subcommand(run::command())
            .debug_assert();
    }
}

//! Reads the command line of `cargo xtask`; each command is a module of the library.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use xtask::commands::Command;

/// The repository's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Args::parse().command.run(&mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

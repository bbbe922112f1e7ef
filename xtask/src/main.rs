//! Reads the command line of `cargo xtask`; each command is a module of the library.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{ci, repository_root, tidy};

/// The repository's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check layers, domain purity, file shapes and documents.
    Tidy,
    /// Run formatting, clippy, tidy and every test; stop at the first failure.
    Ci,
}

fn main() -> ExitCode {
    let out = &mut io::stdout();
    let outcome = match Args::parse().command {
        Command::Tidy => tidy::run(repository_root(), out),
        Command::Ci => ci::run(repository_root(), out),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

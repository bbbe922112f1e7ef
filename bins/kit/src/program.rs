//! What the programs have in common besides serving: their commands, and how they say that something failed.
//!
//! Standard output carries what a command was asked for, standard error what went wrong. The exit code is 2 for what the
//! user can correct on the command line or in the configuration, 1 for everything else that fails.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Command;

use crate::config::{ConfigError, Key, Settings};

/// Why a program ends without success.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit_code: u8,
    /// What to print, with what to do about it; printed as it is. Empty when everything was said already.
    pub message: String,
}

/// A program with the flags of `keys`, and its subcommands `serve` (what it does when none is named) and `config show`.
#[must_use]
pub fn command(name: &'static str, about: &'static str, keys: &[&[Key]]) -> Command {
    let serve = Command::new("serve").about("Serves until it is told to stop (the default)");
    let show = Command::new("show")
        .about("Prints what is in force as a TOML file, with where each value comes from; secrets are masked");
    let config = Command::new("config")
        .about("Looks at the configuration")
        .subcommand_required(true)
        .subcommand(show);
    let command = Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand(serve)
        .subcommand(config);
    Settings::flags(command, keys)
}

/// Ends a program: prints why it failed, if it did, and answers its exit code.
#[must_use]
pub fn finish(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    if !failure.message.is_empty() {
        let printed = writeln!(io::stderr().lock(), "error: {}", failure.message);
        // Without a standard error there is nobody left to tell.
        drop(printed);
    }
    ExitCode::from(failure.exit_code)
}

/// Prints to standard output; a reader that went away early is no failure.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

impl Failure {
    /// Something that the user can correct.
    #[must_use]
    pub fn usage(error: &dyn Error) -> Self {
        Self {
            exit_code: 2,
            message: chain(error),
        }
    }

    /// Anything else.
    #[must_use]
    pub fn fault(error: &dyn Error) -> Self {
        Self {
            exit_code: 1,
            message: chain(error),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(&error)
    }
}

/// An error and everything behind it, in one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SERVER_KEYS;

    #[test]
    fn the_command_line_is_consistent() {
        command("easel", "Runs.", &[SERVER_KEYS]).debug_assert();
    }

    #[test]
    fn a_failure_tells_everything_behind_it() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = ConfigError::Unreadable {
            path: "a.toml".into(),
            origin: crate::config::Origin::Default,
            source,
        };
        let failure = Failure::from(error);
        assert_eq!(failure.exit_code, 2);
        assert!(
            failure
                .message
                .ends_with("cannot be read; correct its path: no such file"),
            "{}",
            failure.message
        );
    }
}

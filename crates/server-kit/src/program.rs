//! What the programs have in common besides serving: their commands, and how they say that something failed.
//!
//! Standard output carries what a command was asked for, standard error what went wrong. The exit code is 2 for what the
//! user can correct on the command line or in the configuration, 1 for everything else that fails.

use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::{Arg, ArgMatches, Command};
use hyper_kit::error_chain;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::config::{Access, ConfigError, Key, PlaceError, ServerConfig, Settings};
use crate::listening::ListenAddress;
use crate::logging::{LogConfig, LogControl};
use crate::manual;
use crate::reload::Reloader;
use crate::signals::{Ended, Hangups, Signals};
use crate::systemd;

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
    let serve = Command::new("serve").about("Serves until a signal stops it (the default)");
    let show = Command::new("show")
        .about("Prints the settings in force as a TOML file, with the origin of each value; secrets are masked");
    let config = Command::new("config")
        .about("Shows the configuration")
        .subcommand_required(true)
        .subcommand(show);
    let command = Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand(serve)
        .subcommand(config);
    Settings::flags(command, keys)
}

/// The subcommand that writes manual pages.
pub const MAN: &str = "man";

/// The subcommand [`MAN`].
#[must_use]
pub fn man() -> Command {
    let folder = Arg::new("folder")
        .value_name("FOLDER")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help("The folder for the pages; it is created if it is missing");
    Command::new(MAN)
        .about("Writes manual pages of this program and its commands")
        .arg(folder)
}

/// Writes the manual pages of a whole program.
///
/// # Errors
/// If the folder cannot be written.
pub fn write_manual(program: Command, arguments: &ArgMatches) -> Result<(), Failure> {
    let folder = arguments.get_one::<PathBuf>("folder");
    let folder = folder.expect("clap requires it");
    let written = manual::write(program, &manual::day(), folder);
    written.map_err(|error| Failure {
        exit_code: 1,
        message: format!(
            "{} cannot be written; name another folder: {error}",
            folder.display()
        ),
    })
}

/// What flags, environment and file make for a program with `keys`.
///
/// # Errors
/// If they make no sense.
pub fn settings(matches: &ArgMatches, keys: &[&[Key]]) -> Result<Settings, Failure> {
    // Flags behind a subcommand stand in its own matches, which those of every level below complete.
    let mut innermost = matches;
    while let Some((_, deeper)) = innermost.subcommand() {
        innermost = deeper;
    }
    let environment = std::env::vars_os().collect();
    Ok(Settings::gather(keys, innermost, environment)?)
}

/// Begins to log, first of all about variables that mean nothing.
///
/// # Errors
/// If traces and logs cannot be exported as the environment says.
pub fn start_log(settings: &Settings, log: &LogConfig) -> Result<LogControl, Failure> {
    let control = crate::logging::start(log).map_err(|error| Failure::usage(&error))?;
    for warning in settings.unknown_variables() {
        tracing::warn!("{warning}");
    }
    Ok(control)
}

/// The threads that requests and loops run on: one for each processor.
///
/// # Errors
/// If they cannot be started.
pub fn runtime() -> Result<Runtime, Failure> {
    built(&mut Builder::new_multi_thread())
}

/// The same with one thread less, for programs that write to the store with every request: its thread takes most of a
/// processor, and threads that share one wait for each other's locks.
///
/// # Errors
/// If they cannot be started.
pub fn runtime_beside_store() -> Result<Runtime, Failure> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let threads = processors.saturating_sub(1).max(1);
    built(Builder::new_multi_thread().worker_threads(threads))
}

fn built(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::fault(&error))
}

/// Serves on these threads until the first signal, then ends well; a second one ends it at once. `assembled` is the server,
/// ready to run, with what to print for the person who started it by hand, and what reads its configuration again at SIGHUP.
///
/// # Errors
/// If the server cannot start, or is ended at once.
pub fn serve<A, E>(
    runtime: &Runtime,
    assemble: impl Future<Output = Result<A, E>>,
    welcome: impl FnOnce(&A) -> String,
    reloader: impl FnOnce(&A) -> Reloader,
    run: impl AsyncFnOnce(A, CancellationToken),
    cut: &str,
) -> Result<(), Failure>
where
    E: Error,
{
    runtime.block_on(async {
        let mut signals = Signals::of_server().map_err(|error| Failure::fault(&error))?;
        // One that arrives while the server starts counts once it serves.
        let hangups = Hangups::listen().map_err(|error| Failure::fault(&error))?;
        let app = assemble.await.map_err(|error| Failure::fault(&error))?;
        let reloader = reloader(&app);
        print(&welcome(&app));
        systemd::notify("READY=1");
        let served = signals.over(|asked| {
            let stopping = asked.clone();
            tokio::spawn(async move {
                stopping.cancelled().await;
                systemd::notify("STOPPING=1");
            });
            let reloading = reloader.keep(hangups, asked.clone());
            async {
                tokio::join!(run(app, asked), reloading);
            }
        });
        match served.await {
            Ended::Finished(()) => Ok(()),
            Ended::Cut => Err(Failure {
                exit_code: 1,
                message: format!("stopped at once by a second signal; {cut}"),
            }),
        }
    })
}

/// Where a server is reached, without a slash at the end. Behind a Unix socket every name is as good as `localhost`.
#[must_use]
pub fn base(server: &ServerConfig, address: &ListenAddress) -> String {
    let root = match (&server.public_url, address) {
        (Some(url), _) => url.to_string(),
        (None, ListenAddress::Tcp(address)) => format!("http://{}", reachable(*address)),
        (None, ListenAddress::Unix(_)) => "http://localhost".to_owned(),
    };
    format!("{root}{}", server.mount_path)
}

/// Where the web console is.
#[must_use]
pub fn console(server: &ServerConfig, base: &str) -> String {
    match server.console {
        true => format!("{base}/console/"),
        false => "switched off".to_owned(),
    }
}

/// Where metrics are read: below `base`, or where they have a listener of their own.
#[must_use]
pub fn metrics(base: &str, own: Option<SocketAddr>) -> String {
    match own {
        Some(address) => format!("http://{}/metrics", reachable(address)),
        None => format!("{base}/metrics"),
    }
}

/// What a person who starts a server by hand reads: a line for each name.
#[must_use]
pub fn welcome(address: &ListenAddress, lines: &[(&str, String)]) -> String {
    let mut text = match address {
        ListenAddress::Tcp(_) => "Easel is serving.\n".to_owned(),
        ListenAddress::Unix(_) => format!("Easel is serving on {address}.\n"),
    };
    for (name, value) in lines {
        text.push_str(&format!("  {name:<10}{value}\n"));
    }
    text
}

/// Whom a server lets in, in words.
#[must_use]
pub fn open_to(access: &Access, address: &ListenAddress) -> &'static str {
    match (access.anonymous, &access.token, &access.jwt) {
        (true, _, _) if address.tcp().is_none() => "every program that may open the socket",
        (true, _, _) if address.is_local() => "every program on this machine",
        (true, _, _) => "EVERYBODY who can reach this address: no credential is required",
        (false, Some(_), _) => "clients that send the token as `Authorization: Bearer ...`",
        (false, None, Some(_)) => "clients that send a JSON Web Token or an API key",
        (false, None, None) => "clients that send an API key",
    }
}

/// Ends a program: delivers what is exported, prints why it failed, if it did, and answers its exit code.
#[must_use]
pub fn finish(result: Result<(), Failure>) -> ExitCode {
    #[cfg(feature = "otlp")]
    crate::otlp::finish();
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
            message: error_chain(error),
        }
    }

    /// Anything else.
    #[must_use]
    pub fn fault(error: &dyn Error) -> Self {
        Self {
            exit_code: 1,
            message: error_chain(error),
        }
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        Self::usage(&error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(&error)
    }
}

/// An address that a client on this machine can use, also where every network is listened on.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DATA_DIR, LISTEN, SERVER_KEYS};

    #[test]
    fn the_command_line_is_consistent() {
        command("easel", "Runs.", &[&[LISTEN, DATA_DIR], SERVER_KEYS]).debug_assert();
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

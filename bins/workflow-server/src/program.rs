//! The commands of a server of workflows: `serve` and `config show`.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use clap::ArgMatches;
use kit::config::{Credentials, Settings};
use kit::program::{self, Failure};
use kit::signals::{Ended, Signals};

use crate::app::assemble;
use crate::config::{Config, KEYS};

const ABOUT: &str = "Runs ComfyUI-format image workflows behind an API.";

/// The program `workflow-server`.
#[must_use]
pub fn main() -> ExitCode {
    let matches = program::command("workflow-server", ABOUT, KEYS).get_matches();
    program::finish(match matches.subcommand_name() {
        Some("config") => show_config(&matches),
        Some(_) | None => serve(&matches),
    })
}

/// Prints the configuration that the flags, the environment and the file make.
///
/// # Errors
/// If they make none.
pub fn show_config(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, _) = configured(matches)?;
    program::print(&settings.show());
    Ok(())
}

/// Serves until the first signal, then ends well; a second one ends it at once.
///
/// # Errors
/// If the configuration makes no sense, or the server cannot start.
pub fn serve(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, config) = configured(matches)?;
    start_log(&settings, &config);
    runtime()?.block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failure::fault(&error))?;
        let app = assemble(&config).await.map_err(|error| Failure::fault(&error))?;
        program::print(&welcome(&config, app.address()));
        match signals.over(|asked| app.run(asked.cancelled_owned())).await {
            Ended::Finished(()) => Ok(()),
            Ended::Cut => Err(Failure {
                exit_code: 1,
                message: "stopped at once by a second signal; jobs that ran are taken up again at the next start".to_owned(),
            }),
        }
    })
}

/// What flags, environment and file make.
///
/// # Errors
/// If they make no sense.
pub fn settings(matches: &ArgMatches) -> Result<Settings, Failure> {
    // Flags behind a subcommand stand in its own matches, which those of every level below complete.
    let mut innermost = matches;
    while let Some((_, deeper)) = innermost.subcommand() {
        innermost = deeper;
    }
    Ok(Settings::gather(
        KEYS,
        innermost,
        std::env::vars_os().collect(),
    )?)
}

/// Begins to log, first of all about variables that mean nothing.
pub fn start_log(settings: &Settings, config: &Config) {
    kit::logging::start(&config.server.log);
    for warning in settings.unknown_variables() {
        tracing::warn!("{warning}");
    }
}

/// The threads that requests and loops run on.
///
/// # Errors
/// If they cannot be started.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    built.map_err(|error| Failure::fault(&error))
}

fn configured(matches: &ArgMatches) -> Result<(Settings, Config), Failure> {
    let mut settings = settings(matches)?;
    let config = Config::read(&mut settings)?;
    Ok((settings, config))
}

/// Where everything is, for whoever started the program by hand.
fn welcome(config: &Config, address: SocketAddr) -> String {
    let server = &config.server;
    let root = match &server.public_url {
        Some(url) => url.to_string(),
        None => format!("http://{}", reachable(address)),
    };
    let base = format!("{root}{}", server.mount_path);
    let mut text = String::from("Easel is serving.\n");
    let open_to = match &server.credentials {
        Credentials::Token(_) => "whoever sends the token as `Authorization: Bearer ...`",
        Credentials::Nothing if address.ip().to_canonical().is_loopback() => {
            "every program on this machine"
        }
        Credentials::Nothing => "EVERYBODY who can reach this address: there is no token",
    };
    let lines = [
        ("API", format!("{base}/api/v2")),
        ("Reference", format!("{base}/api/v2/openapi.json")),
        ("Ready?", format!("{base}/ready")),
        ("Metrics", format!("{base}/metrics")),
        ("Data", server.data_dir.display().to_string()),
        ("Open to", open_to.to_owned()),
        ("Stop", "Ctrl-C; twice to stop at once".to_owned()),
    ];
    for (name, value) in lines {
        writeln!(text, "  {name:<10}{value}").expect("writing into a string does not fail");
    }
    text
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

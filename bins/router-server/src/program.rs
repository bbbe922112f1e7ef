//! The program `router-server`: `serve`, `config show`, and the commands about catalogs and usage.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use server_kit::admin;
use server_kit::config::Settings;
use server_kit::migrate;
use server_kit::opening::Keeps;
use server_kit::program::{self, Failure};
use server_kit::reload::{ConfigSource, Reloader, Reread};

use crate::app::{App, assemble};
use crate::commands;
use crate::config::{Config, KEYS, LIMITS, RouterSettings};
use crate::store::{movable_at, store_at};

const ABOUT: &str =
    "Calls partner models behind one API, with keys that pay once and limits that hold.";

/// The program `router-server`.
#[must_use]
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    program::finish(match matches.subcommand() {
        Some(("config", _)) => show_config(&matches),
        Some(_) if admin::is_command(&matches) => operate(&matches),
        Some((program::MAN, arguments)) => program::write_manual(command(), arguments),
        Some((migrate::NAME, arguments)) => migrate::run(arguments, movable_at),
        Some(("serve", _)) | None => serve(&matches),
        Some((name, arguments)) => configured(&matches).and_then(|(_, config)| {
            let store = store_at(&config.server.place)?;
            commands::run(name, arguments, &*store, &config.router, Vec::new())
        }),
    })
}

fn command() -> Command {
    program::command("router-server", ABOUT, KEYS)
        .subcommands(admin::commands(false))
        .subcommands(commands::commands())
        .subcommand(migrate::command())
        .subcommand(program::man())
}

/// Carries out a command on accounts and keys.
fn operate(matches: &ArgMatches) -> Result<(), Failure> {
    let settings = program::settings(matches, KEYS)?;
    let tier = |settings: &mut Settings| Ok(RouterSettings::read(settings)?.tier());
    admin::run(matches, settings, Keeps::NoAssets, store_at, tier)
}

fn show_config(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, _) = configured(matches)?;
    program::print(&settings.show());
    Ok(())
}

fn serve(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, config) = configured(matches)?;
    let log = program::start_log(&settings, &config.server.log)?;
    program::serve(
        &program::runtime_beside_store()?,
        assemble(&config),
        |app| welcome(&config, app),
        |app| Reloader::new(app.adjustable(), log, source(matches), settings),
        async |app: App, asked| app.run(asked.cancelled_owned()).await,
        "calls that run at partners are recovered at the next start",
    )
}

/// Where the configuration comes from when it is read again.
fn source(matches: &ArgMatches) -> ConfigSource {
    let read = |settings: &mut Settings| {
        let config = Config::read(settings)?;
        Ok(Reread {
            tier: config.router.tier(),
            server: config.server,
        })
    };
    ConfigSource::of(matches, KEYS, read, &[LIMITS])
}

fn configured(matches: &ArgMatches) -> Result<(Settings, Config), Failure> {
    let mut settings = program::settings(matches, KEYS)?;
    let config = Config::read(&mut settings)?;
    Ok((settings, config))
}

/// Where everything is, for the person who started the program by hand.
fn welcome(config: &Config, app: &App) -> String {
    let server = &config.server;
    let address = app.address();
    let base = program::base(server, address);
    let mut lines = vec![
        ("API", format!("{base}/v1/models")),
        ("Reference", format!("{base}/docs/")),
        ("Console", program::console(server, &base)),
        ("Ready?", format!("{base}/ready")),
        ("Metrics", program::metrics(&base, app.metrics_address())),
        ("Data", server.place.data_dir.display().to_string()),
        (
            "Open to",
            program::open_to(&server.access, address).to_owned(),
        ),
    ];
    lines.extend(app.welcome().iter().cloned());
    lines.push(("Stop", "Ctrl-C; twice to stop at once".to_owned()));
    program::welcome(address, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}

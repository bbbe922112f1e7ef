//! The commands: `serve`, `run`, `nodes list`, `config show`, those of operators, of catalogs and usage, and of the data directory.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use secrecy::ExposeSecret;
use server_kit::admin;
use server_kit::config::Settings;
use server_kit::migrate;
use server_kit::opening::Keeps;
use server_kit::program::{self, Failure};
use server_kit::reload::{ConfigSource, Reloader, Reread};
use workflow_server::copies;

use crate::app::{App, assemble};
use crate::config::{Config, KEYS};
use crate::{catalog, run};

const ABOUT: &str = "Runs ComfyUI-format image workflows and calls partner models: as a server with their APIs, or one graph from the command line.";

/// The program `all-in-one`.
#[must_use]
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    program::finish(match matches.subcommand() {
        Some(("run", arguments)) => run::run(arguments),
        Some((name, arguments)) if copies::is_command(name) => {
            configured(&matches).and_then(|(_, config)| {
                let store = workflow_server::store_at(&config.workflows.server.place)?;
                copies::run(name, arguments, &*store, config.tier())
            })
        }
        Some(_) if admin::is_command(&matches) => operate(&matches),
        Some(("nodes", arguments)) => {
            configured(&matches).and_then(|(_, config)| catalog::list_nodes(arguments, &config))
        }
        Some(("config", _)) => show_config(&matches),
        Some((program::MAN, arguments)) => program::write_manual(command(), arguments),
        Some((migrate::NAME, arguments)) => migrate::run(arguments, workflow_server::movable_at),
        Some(("serve", _)) | None => serve(&matches),
        Some((name, arguments)) => {
            configured(&matches).and_then(|(_, config)| catalog::run(name, arguments, &config))
        }
    })
}

fn command() -> Command {
    let command = program::command("all-in-one", ABOUT, KEYS)
        .subcommand(run::command())
        .subcommand(workflow_server::nodes::command());
    copies::add_to(command.subcommands(admin::commands(true)))
        .subcommand(admin::model_command())
        .subcommands(router_server::commands())
        .subcommand(migrate::command())
        .subcommand(program::man())
}

fn operate(matches: &ArgMatches) -> Result<(), Failure> {
    let settings = program::settings(matches, KEYS)?;
    let tier = |settings: &mut Settings| Ok(Config::read(settings)?.tier());
    admin::run(
        matches,
        settings,
        Keeps::Assets,
        workflow_server::store_at,
        tier,
    )
}

fn show_config(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, _) = configured(matches)?;
    program::print(&settings.show());
    Ok(())
}

fn serve(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, config) = configured(matches)?;
    let log = program::start_log(&settings, &config.workflows.server.log)?;
    program::serve(
        &program::runtime()?,
        assemble(&config),
        |app| welcome(&config, app),
        |app| Reloader::new(app.adjustable(), log, source(matches), settings),
        async |app: App, asked| app.run(asked.cancelled_owned()).await,
        "jobs and calls that ran are recovered at the next start",
    )
}

/// Where the configuration comes from when it is read again.
fn source(matches: &ArgMatches) -> ConfigSource {
    let read = |settings: &mut Settings| {
        let config = Config::read(settings)?;
        Ok(Reread {
            tier: config.tier(),
            server: config.workflows.server,
        })
    };
    ConfigSource::of(
        matches,
        KEYS,
        read,
        &[workflow_server::LIMITS, router_server::LIMITS],
    )
}

fn configured(matches: &ArgMatches) -> Result<(Settings, Config), Failure> {
    let mut settings = program::settings(matches, KEYS)?;
    let config = Config::read(&mut settings)?;
    Ok((settings, config))
}

/// Where everything is, for the person who started the program by hand.
fn welcome(config: &Config, app: &App) -> String {
    let server = &config.workflows.server;
    let base = program::base(server, app.address());
    let mut lines = vec![
        ("API", format!("{base}/api/v2")),
        ("Router", format!("{base}/v1/models")),
        ("Reference", format!("{base}/docs/")),
        ("Console", program::console(server, &base)),
        ("Ready?", format!("{base}/ready")),
        ("Metrics", program::metrics(&base, app.metrics_address())),
        ("Data", server.place.data_dir.display().to_string()),
        (
            "Open to",
            program::open_to(&server.access, app.address()).to_owned(),
        ),
    ];
    if let Some(token) = app.development_token() {
        let token = token.expose_secret();
        lines.push((
            "Token",
            format!("{token} for the router, until this server ends"),
        ));
    }
    lines.extend(app.partners().iter().cloned());
    lines.push(("Stop", "Ctrl-C; twice to stop at once".to_owned()));
    program::welcome(app.address(), &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}

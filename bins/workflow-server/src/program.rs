//! The commands of a server of workflows: `serve`, `nodes list`, `config show`, those of operators, and those for the data
//! directory.

use std::process::ExitCode;

use clap::ArgMatches;
use server_kit::admin;
use server_kit::config::Settings;
use server_kit::migrate;
use server_kit::opening::Keeps;
use server_kit::program::{self, Failure};
use server_kit::reload::{ConfigSource, Reloader, Reread};

use crate::app::{App, assemble};
use crate::config::{Config, KEYS, LIMITS, WorkflowLimits};
use crate::store::{movable_at, store_at};
use crate::{copies, nodes};

const ABOUT: &str = "Runs ComfyUI-format image workflows behind an API.";

/// The program `workflow-server`.
#[must_use]
pub fn main() -> ExitCode {
    let command = program::command("workflow-server", ABOUT, KEYS);
    let command = command.subcommand(nodes::command());
    let command = copies::add_to(command.subcommands(admin::commands(true)));
    let command = command
        .subcommand(migrate::command())
        .subcommand(program::man());
    let matches = command.clone().get_matches();
    program::finish(match matches.subcommand() {
        Some((name, arguments)) if copies::is_command(name) => {
            configured(&matches).and_then(|(_, config)| {
                let store = store_at(&config.server.place)?;
                copies::run(name, arguments, &*store, config.workflows.tier())
            })
        }
        Some((program::MAN, arguments)) => program::write_manual(command, arguments),
        Some((migrate::NAME, arguments)) => migrate::run(arguments, movable_at),
        Some(("nodes", arguments)) => {
            nodes::list(arguments, &nodes::of_engine());
            Ok(())
        }
        Some(("config", _)) => show_config(&matches),
        Some(_) if admin::is_command(&matches) => operate(&matches),
        Some(_) | None => serve(&matches),
    })
}

/// Carries out a command on accounts, keys or assets.
fn operate(matches: &ArgMatches) -> Result<(), Failure> {
    let settings = program::settings(matches, KEYS)?;
    let tier = |settings: &mut Settings| Ok(WorkflowLimits::read(settings)?.tier());
    admin::run(matches, settings, Keeps::Assets, store_at, tier)
}

/// Prints the configuration that the flags, the environment and the file make.
fn show_config(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, _) = configured(matches)?;
    program::print(&settings.show());
    Ok(())
}

/// Serves until the first signal, then ends well; a second one ends it at once.
fn serve(matches: &ArgMatches) -> Result<(), Failure> {
    let (settings, config) = configured(matches)?;
    let log = program::start_log(&settings, &config.server.log)?;
    program::serve(
        &program::runtime()?,
        assemble(&config),
        |app| welcome(&config, app),
        |app| Reloader::new(app.adjustable(), log, source(matches), settings),
        async |app, asked| app.run(asked.cancelled_owned()).await,
        "jobs that ran are recovered at the next start",
    )
}

/// Where the configuration comes from when it is read again.
fn source(matches: &ArgMatches) -> ConfigSource {
    let read = |settings: &mut Settings| {
        let config = Config::read(settings)?;
        Ok(Reread {
            tier: config.workflows.tier(),
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
    let lines = [
        ("API", format!("{base}/api/v2")),
        ("Reference", format!("{base}/docs/")),
        ("Console", program::console(server, &base)),
        ("Ready?", format!("{base}/ready")),
        ("Metrics", program::metrics(&base, app.metrics_address())),
        ("Data", server.place.data_dir.display().to_string()),
        (
            "Open to",
            program::open_to(&server.access, address).to_owned(),
        ),
        ("Stop", "Ctrl-C; twice to stop at once".to_owned()),
    ];
    program::welcome(address, &lines)
}

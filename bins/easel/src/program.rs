//! From the command line to an exit code.

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use crate::arguments::{Arguments, Command, Online, Shared};
use crate::commands;
use crate::failure::{Failure, Kind};
use crate::{session, terminal, text};

/// The program `easel`.
#[must_use]
pub fn main() -> ExitCode {
    let Arguments {
        mut shared,
        command,
    } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(&error),
    };
    // Then standard error has the error alone, or nothing.
    shared.quiet |= shared.json;
    match run(&shared, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if shared.json {
                terminal::say(text::json(&failure.json()).trim_end());
            } else {
                terminal::say(&text::clean(&failure.text(), true));
            }
            ExitCode::from(failure.kind.exit_code())
        }
    }
}

/// Help and the version, or what is wrong with the command line: as JSON where JSON is asked for.
fn not_parsed(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().skip(1).any(|it| it == "--json");
    if !wants_json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let mut parts = text.split("\n\n").map(in_a_line);
    let message = parts.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let tip = parts.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned));
    let hint = tip.unwrap_or_else(|| "`--help` shows what the command takes".to_owned());
    let failure = Failure::usage(message).hint(hint);
    terminal::say(text::json(&failure.json()).trim_end());
    ExitCode::from(failure.kind.exit_code())
}

fn in_a_line(part: &str) -> String {
    part.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(shared: &Shared, command: Command) -> Result<(), Failure> {
    match command {
        Command::Completions { shell } => commands::reference::completions(shell),
        Command::Schema { output } => commands::reference::schema(output.as_deref()),
        Command::Man { folder } => commands::reference::manual(&folder),
        Command::Logout { server } => commands::login::logout(shared, server),
        Command::Login(login) => wait_for(commands::login::login(shared, login)),
        Command::Doctor => wait_for(commands::doctor::doctor(shared)),
        Command::Online(command) => wait_for(online(shared, command)),
    }
}

/// One thread waits for one server; more would only take time to start.
fn wait_for(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        let message = format!("the program cannot wait for events: {error}");
        Failure::new(Kind::Failed, message)
    })?;
    let done = runtime.block_on(work);
    // A read of a file that never ends must not keep the program.
    runtime.shutdown_background();
    done
}

async fn online(shared: &Shared, command: Online) -> Result<(), Failure> {
    let client = session::open(shared)?;
    match command {
        Online::Run(run) => commands::run::run(shared, &client, run).await,
        Online::Submit(submit) => commands::run::submit(shared, &client, submit).await,
        Online::Watch(watch) => commands::run::watch(shared, &client, watch).await,
        Online::Jobs(jobs) => commands::jobs::jobs(shared, &client, jobs).await,
        Online::Logs { job } => commands::jobs::logs(shared, &client, &job).await,
        Online::Cancel { jobs } => commands::jobs::cancel(shared, &client, &jobs).await,
        Online::Outputs { job, out } => commands::jobs::outputs(shared, &client, &job, &out).await,
        Online::Workflow { job } => commands::jobs::workflow(&client, &job).await,
        Online::Assets(assets) => commands::assets::assets(shared, &client, assets).await,
        Online::Models { model, search } => {
            commands::models::models(shared, &client, model.as_deref(), search.as_deref()).await
        }
        Online::Call(call) => commands::models::call(shared, &client, call).await,
        Online::Estimate { input } => commands::models::estimate(shared, &client, &input).await,
        Online::Results { request, save } => {
            commands::results::results(shared, &client, &request, save.as_deref()).await
        }
        Online::Usage(usage) => commands::operate::usage(shared, &client, usage).await,
        Online::Accounts(asked) => commands::operate::accounts(shared, &client, &asked).await,
        Online::Keys(asked) => commands::operate::keys(shared, &client, asked).await,
        Online::Webhooks(asked) => commands::webhooks::webhooks(shared, &client, asked).await,
        Online::Workers(asked) => commands::workers::workers(shared, &client, asked).await,
        Online::Deployments(asked) => {
            commands::deployments::deployments(shared, &client, asked).await
        }
    }
}

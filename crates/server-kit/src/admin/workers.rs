//! The commands on ComfyUI workers. Workers belong to a running server: without one there is nobody to ask.

use admin_http::wire::{Answer, Problem, Request, WorkerBody, WorkerChange};
use clap::{Arg, ArgMatches, Command};

use super::client::Client;
use super::commands::say;
use super::flags::group;
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// The workers of a server.
pub trait WorkerAdmin: Send + Sync {
    /// All of them, in the order in which they were added.
    fn list(&self) -> Vec<WorkerBody>;

    /// Changes them.
    ///
    /// # Errors
    /// With a sentence that says what to do.
    fn change(&self, change: WorkerChange) -> Result<(), Problem>;
}

/// The subcommand `worker`.
pub(super) fn command() -> Command {
    let name = || {
        Arg::new("id")
            .value_name("WORKER")
            .required(true)
            .help("The name of the worker, as `worker list` shows it")
    };
    let of_worker =
        |word: &'static str, about: &'static str| Command::new(word).about(about).arg(name());
    let add = Command::new("add")
        .about("Adds a ComfyUI worker to the running server, and to its next starts")
        .arg(
            Arg::new("url")
                .value_name("URL")
                .required(true)
                .help("The address of the worker, such as http://gpu-box:8188"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .help("The name of the worker; by default its host and port"),
        );
    group("worker", "Shows and changes ComfyUI workers")
        .subcommand(add)
        .subcommand(
            Command::new("list")
                .about("Lists all workers")
                .arg(json_flag()),
        )
        .subcommand(of_worker("show", "Shows everything of a worker").arg(json_flag()))
        .subcommand(of_worker(
            "drain",
            "Gives a worker no new jobs; its present jobs continue",
        ))
        .subcommand(of_worker("resume", "Gives a drained worker jobs again"))
        .subcommand(of_worker(
            "remove",
            "Takes a worker out of the pool once its jobs are over",
        ))
}

/// Carries a command out.
pub(super) async fn run(
    word: &str,
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let text = |name: &str| {
        let text = arguments.try_get_one::<String>(name).ok().flatten();
        text.cloned()
    };
    let name = || text("id").unwrap_or_default();
    let change = match word {
        "add" => Some(WorkerChange::Add {
            name: text("name"),
            url: text("url").unwrap_or_default(),
        }),
        "drain" | "resume" => Some(WorkerChange::Drain {
            name: name(),
            draining: word == "drain",
        }),
        "remove" => Some(WorkerChange::Remove { name: name() }),
        _ => None,
    };
    let said = match word {
        "add" => Some(format!(
            "worker {} added; `worker list` shows when it is ready",
            text("url").unwrap_or_default()
        )),
        "drain" => Some(format!("worker {} gets no more jobs", name())),
        "resume" => Some(format!("worker {} gets jobs again", name())),
        "remove" => Some(format!("worker {} leaves once its jobs are over", name())),
        _ => None,
    };
    if let Some(change) = change {
        client.ask(Request::ChangeWorker(change)).await??;
        say(&said.unwrap_or_default());
        return Ok(());
    }
    let mut workers = all(client).await?;
    if word == "show" {
        workers.retain(|worker| worker.name == name());
        if workers.is_empty() {
            return Err(Failure {
                exit_code: 2,
                message: format!(
                    "there is no worker {}; `worker list` shows those there are",
                    name()
                ),
            });
        }
    }
    program::print(&match (listing::wants_json(arguments), word) {
        (true, _) => listing::json(&workers),
        (false, "show") => workers.iter().map(shown).collect(),
        (false, _) => listed(&workers),
    });
    Ok(())
}

/// All workers, page by page.
async fn all(client: &mut Client<'_>) -> Result<Vec<WorkerBody>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let limit = None;
        let Answer::Workers(page) = client.ask(Request::Workers { after, limit }).await?? else {
            return Ok(all);
        };
        all.extend(page.workers);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(all);
        }
    }
}

fn listed(workers: &[WorkerBody]) -> String {
    let rows = workers.iter().map(|worker| {
        vec![
            worker.name.clone(),
            worker.state.clone(),
            worker.since.clone(),
            worker.version.clone(),
            format!("{}/{}", worker.jobs, worker.slots),
            worker.staged_bytes.to_string(),
            took(worker.answer_ms),
            worker.breaker.clone(),
            worker.why.clone(),
        ]
    });
    let heading = [
        "NAME", "STATE", "SINCE", "VERSION", "JOBS", "STAGED", "ANSWER", "BREAKER", "WHY",
    ];
    table(&heading, rows)
}

fn shown(worker: &WorkerBody) -> String {
    let fields = [
        ("name", worker.name.clone()),
        ("address", worker.url.clone()),
        ("state", worker.state.clone()),
        ("since", worker.since.clone()),
        ("why", worker.why.clone()),
        ("version", worker.version.clone()),
        ("classes", worker.classes.to_string()),
        ("jobs", worker.jobs.to_string()),
        ("slots", worker.slots.to_string()),
        ("breaker", worker.breaker.clone()),
        ("last answer", took(worker.answer_ms)),
        ("mean job", took(worker.job_ms)),
        ("succeeded", worker.succeeded.to_string()),
        ("failed", worker.failed.to_string()),
        ("lost", worker.lost.to_string()),
        ("staged bytes", worker.staged_bytes.to_string()),
        ("output bytes", worker.output_bytes.to_string()),
    ];
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name:<17}{value}\n"));
    lines.collect()
}

/// A time in milliseconds, or `-` where there is none.
fn took(millis: Option<f64>) -> String {
    millis.map_or_else(|| "-".to_owned(), |millis| format!("{millis:.1} ms"))
}

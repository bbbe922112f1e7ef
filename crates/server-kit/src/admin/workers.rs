//! The commands on ComfyUI workers. Workers belong to a running server: without one there is nobody to ask.

use clap::{Arg, ArgMatches, Command};
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::commands::{group, say};
use super::wire::{Answer, Problem, Request};
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// A worker, as it is listed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerBody {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// How it is.
    pub state: String,
    /// Since when.
    pub since: String,
    /// Why, in a sentence.
    pub why: String,
    /// The version of ComfyUI; empty if it is not known.
    pub version: String,
    /// How many classes it has.
    pub classes: u64,
    /// Jobs that it has now.
    pub jobs: u64,
    /// Jobs that succeeded on it since the server started.
    pub succeeded: u64,
    /// Jobs that failed on it.
    pub failed: u64,
    /// Jobs that were lost with it.
    pub lost: u64,
    /// Bytes of inputs that were staged at it.
    pub staged_bytes: u64,
    /// Bytes of outputs that were fetched from it.
    pub output_bytes: u64,
}

/// What a command does to workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerChange {
    /// Adds one, and keeps it for the next start.
    Add {
        /// What it is to be called; its host and port if nothing is said.
        name: Option<String>,
        /// Where it is.
        url: String,
    },
    /// Gives it no more jobs, or jobs again.
    Drain {
        /// Which.
        name: String,
        /// Whether it gets no more.
        draining: bool,
    },
    /// Takes it out once its jobs are over.
    Remove {
        /// Which.
        name: String,
    },
}

/// The workers of a server.
pub trait WorkerAdmin: Send + Sync {
    /// All of them.
    fn list(&self) -> Vec<WorkerBody>;

    /// Changes them.
    ///
    /// # Errors
    /// With a sentence that says what to do.
    fn change(&self, change: WorkerChange) -> Result<(), String>;
}

/// What a request about workers is answered with.
pub(super) fn perform(
    workers: Option<&dyn WorkerAdmin>,
    change: Option<WorkerChange>,
) -> Result<Answer, Problem> {
    let refused = |message: String| Problem {
        usage: true,
        taken: false,
        message,
    };
    let workers = workers.ok_or_else(|| {
        refused(
            "no server with workers runs over this directory; start one, such as `all-in-one --comfyui http://127.0.0.1:8188`"
                .to_owned(),
        )
    })?;
    if let Some(change) = change {
        workers.change(change).map_err(refused)?;
    }
    Ok(Answer::Workers(workers.list()))
}

/// The subcommand `worker`.
pub(super) fn command() -> Command {
    let name = || {
        Arg::new("id")
            .value_name("WORKER")
            .required(true)
            .help("Its name, as `worker list` shows it")
    };
    let of_worker =
        |word: &'static str, about: &'static str| Command::new(word).about(about).arg(name());
    let add = Command::new("add")
        .about("Adds a ComfyUI worker to the running server, and to its next starts")
        .arg(
            Arg::new("url")
                .value_name("URL")
                .required(true)
                .help("Its address, such as http://gpu-box:8188"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .help("What it is called; by default its host and port"),
        );
    group("worker", "Looks at ComfyUI workers and changes them")
        .subcommand(add)
        .subcommand(
            Command::new("list")
                .about("Lists all workers")
                .arg(json_flag()),
        )
        .subcommand(of_worker("show", "Shows everything of a worker").arg(json_flag()))
        .subcommand(of_worker(
            "drain",
            "Gives a worker no more jobs; those that it has go on",
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
    let request = Request::Workers { change };
    let Answer::Workers(mut workers) = client.ask(request).await?? else {
        return Ok(());
    };
    if let Some(said) = said {
        say(&said);
        return Ok(());
    }
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

fn listed(workers: &[WorkerBody]) -> String {
    let rows = workers.iter().map(|worker| {
        vec![
            worker.name.clone(),
            worker.state.clone(),
            worker.since.clone(),
            worker.version.clone(),
            worker.jobs.to_string(),
            worker.why.clone(),
        ]
    });
    table(&["NAME", "STATE", "SINCE", "VERSION", "JOBS", "WHY"], rows)
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

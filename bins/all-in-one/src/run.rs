//! `run GRAPH.json`: one graph through the whole stack in this process, partners included, from its input files to its
//! output files.
//!
//! The installation is a temporary one that goes when the graph is done, unless a data directory is named. The exit code is
//! 0 when the job succeeded, 1 when it failed, 2 for a graph or inputs that cannot be used, 130 when it was interrupted.

mod files;
mod follow;
mod graph;
mod inputs;
mod outputs;
mod show;

use std::path::{Path, PathBuf};
use std::time::Duration;

use accounts::Principal;
use bytes::Bytes;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use server_kit::config::{Origin, Settings};
use server_kit::program::{self, Failure};
use server_kit::signals::Signals;
use uuid::Uuid;
use workflow_core::{JobId, JobsError, Metadata, Submission};
use workflow_server::Stack;

use crate::config::Config;
use crate::local::{self, Local};
use graph::GraphFile;
use inputs::Assignment;

/// How long the loops may take to end once the job has.
const GRACE: Duration = Duration::from_secs(5);

/// The settings that a run goes by; the others are those of a server, and its help does not list them.
const SETTINGS: &[&str] = &[
    "data_dir",
    "min_free",
    "ballast",
    "upload_limit",
    "threads",
    "cache_size",
    "job_memory",
    "run_limit",
    "private_hosts",
    "extra_ca",
    "catalog",
    "give_up_after",
    "body_limit",
    "relocate_partners",
    "plain_partners",
    "partner_ca",
    "log_format",
    "log_level",
];

/// Settings that have other defaults here, as the help shows them.
const PRESETS: &[(&str, &str)] = &[
    ("data_dir", "a temporary one"),
    ("min_free", MIN_FREE),
    ("log_level", LOG_LEVEL),
];

const MIN_FREE: &str = "0B";
const LOG_LEVEL: &str = "warn";

/// What was asked for.
#[derive(Debug)]
struct Arguments {
    graph: PathBuf,
    inputs: Vec<Assignment>,
    out: PathBuf,
}

/// The subcommand.
#[must_use]
pub fn command() -> Command {
    let command = Command::new("run")
        .about("Runs one workflow in API format and writes what it makes")
        .arg(
            Arg::new("graph")
                .value_name("GRAPH.json")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The workflow; files that it names are searched for in its folder, then in the current folder"),
        )
        .arg(
            Arg::new("input")
                .long("input")
                .value_name("NODE.FIELD=FILE_OR_VALUE")
                .action(ArgAction::Append)
                .value_parser(value_parser!(Assignment))
                .help("Sets an input of a node: a file or an https address where the node wants a file, otherwise a value; may be repeated"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .default_value("out")
                .value_parser(value_parser!(PathBuf))
                .help("The folder for the outputs; their numbers continue after those of existing files, which are never overwritten"),
        );
    Settings::narrow(command, crate::KEYS, SETTINGS, PRESETS)
}

/// Runs the graph.
///
/// # Errors
/// With the exit code of the module's documentation.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let arguments = Arguments::read(matches);
    let mut settings = server_kit::program::settings(matches, crate::KEYS)?;
    settings.preset("log_level", LOG_LEVEL, "the terminal shows the progress");
    settings.preset("min_free", MIN_FREE, "one graph needs only what it writes");
    let temporary = *settings.origin("data_dir") == Origin::Default;
    let mut config = Config::read(&mut settings)?;
    server_kit::program::start_log(&settings, &config.workflows.server.log)?;
    let graph = GraphFile::read(&arguments.graph)?;
    outputs::probe(&arguments.out)?;

    let folder = temporary.then(local::temporary).transpose();
    let folder = folder.map_err(|error| Failure::fault(&error))?;
    if let Some(folder) = &folder {
        config.workflows.server.place.data_dir = folder.path().to_owned();
    }
    server_kit::program::runtime()?.block_on(run_graph(&arguments, graph, &config))
}

async fn run_graph(
    arguments: &Arguments,
    graph: GraphFile,
    config: &Config,
) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::fault(&error))?;
    let local = Local::open(&config.workflows.server.place.data_dir, config).await;
    let local = local.map_err(|error| Failure::fault(&error))?;
    let stack = local.stack.clone();
    let principal = stack.local_standing();

    let workflow = inputs::apply(graph, &arguments.inputs, &stack, &principal).await?;
    let submitted = submit(&stack, &principal, workflow).await;
    let id = submitted.map_err(|error| refused(&error, &local))?;
    let background = local
        .start()
        .await
        .map_err(|error| Failure::fault(&error))?;
    let ended = follow::to_the_end(&stack, &principal.account, id, &mut signals).await;
    // A person who interrupts does not want to wait: the loops are cut off with the return.
    let job = ended?;
    let (written, whole) = outputs::write(&stack.assets, &job, &arguments.out).await;
    background.drain(GRACE).await;

    for path in written {
        program::print(&format!("{}\n", path.display()));
    }
    whole?;
    show::verdict(&job)
}

async fn submit(stack: &Stack, principal: &Principal, workflow: Bytes) -> Result<JobId, JobsError> {
    let id = JobId(Uuid::now_v7());
    let submission = Submission {
        id,
        account: principal.account.clone(),
        tier: principal.tier.clone(),
        workflow,
        metadata: Metadata::new(),
        secret: None,
        key: None,
        origin: Bytes::new(),
        targets: None,
        partial: false,
        flat_uploads: false,
        extra_pnginfo: Default::default(),
        trace: None,
    };
    stack.jobs.submit(submission, stack.timer.now()).await?;
    Ok(id)
}

fn refused(error: &JobsError, local: &Local) -> Failure {
    let usage = |message| Failure {
        exit_code: 2,
        message,
    };
    match error {
        JobsError::Invalid(validation) => {
            usage(show::validation(validation, |class| local.absence(class)))
        }
        JobsError::MissingAsset(references) => usage(show::missing(references)),
        JobsError::Graph(_) | JobsError::NoOutputs | JobsError::Refused(_) => Failure::usage(error),
        JobsError::KeyReused(_)
        | JobsError::IdTaken
        | JobsError::PartnersForbidden { .. }
        | JobsError::QueueFull { .. }
        | JobsError::RateLimited(_)
        | JobsError::StorageQuota { .. }
        | JobsError::NotReady { .. }
        | JobsError::Stopped
        | JobsError::NotFound
        | JobsError::Store(_)
        | JobsError::Abandoned(_)
        | JobsError::Assets(_) => Failure::fault(error),
    }
}

impl Arguments {
    fn read(matches: &ArgMatches) -> Self {
        let path = |name: &str| -> PathBuf {
            let path: Option<&PathBuf> = matches.get_one(name);
            path.cloned()
                .expect("the command requires it or has a default")
        };
        let inputs = matches.get_many("input").into_iter().flatten();
        Self {
            graph: path("graph"),
            inputs: inputs.cloned().collect(),
            out: path("out"),
        }
    }
}

/// The folder that a file is in, for looking beside it.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    }
}

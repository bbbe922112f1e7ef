//! What operators ask of deployments, and what they are answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an operator asks of deployments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DeploymentRequest {
    /// A page of them, in the order of their names.
    List {
        /// Only those behind this name.
        after: Option<String>,
        /// Most deployments of the page.
        limit: Option<u32>,
    },
    /// One of them.
    Show {
        /// Its name.
        name: String,
    },
    /// Makes one, or a new revision of it.
    Apply {
        /// Its name.
        name: String,
        /// What it is to be.
        definition: DefinitionBody,
    },
    /// Starts it after it was stopped, or failed.
    Start {
        /// Its name.
        name: String,
    },
    /// Stops it once its jobs are over.
    Stop {
        /// Its name.
        name: String,
    },
    /// Changes how many workers it has, until the next revision.
    Scale {
        /// Its name.
        name: String,
        /// At least so many; as it is without it.
        min: Option<u32>,
        /// At most so many; as it is without it.
        max: Option<u32>,
    },
    /// Goes back to a revision.
    RollBack {
        /// Its name.
        name: String,
        /// Which; without it, the one before the current, or away from one that is not ready.
        revision: Option<u32>,
    },
    /// Removes it with all that is kept of it.
    Remove {
        /// Its name.
        name: String,
    },
    /// A page of what happened to it, newest first.
    Events {
        /// Its name.
        name: String,
        /// Only those before the one with this number.
        before: Option<u64>,
        /// Most events of the page.
        limit: Option<u32>,
    },
    /// What its workers wrote lately.
    Logs {
        /// Its name.
        name: String,
    },
}

/// What an operator is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentAnswer {
    /// A page of deployments.
    List(DeploymentsPage),
    /// A deployment as it is then.
    One(Box<DeploymentBody>),
    /// It is removed.
    Removed,
    /// A page of events.
    Events(EventsPage),
    /// Logs.
    Logs(LogsBody),
}

/// What a revision of a deployment says: `urls` or `command`. What is left out has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionBody {
    /// Addresses of workers that others start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<Vec<String>>,
    /// The program that starts a worker, and its arguments, with `{port}`, `{name}` and `{models}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Variables of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, VariableBody>,
    /// The folder that it is started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// What `{models}` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<String>,
    /// At least so many workers stay up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// At most so many are started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Seconds that a worker beyond `min` stays without a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_window_s: Option<u32>,
    /// Seconds that a job waits before another worker is started for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_after_s: Option<u32>,
    /// Seconds that a worker may take until it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_limit_s: Option<u32>,
    /// Jobs that may wait while no worker is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waking_queue: Option<u32>,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VariableBody {
    /// This text, which operators see.
    Text(String),
    /// A value that nobody sees.
    Secret(SecretSource),
}

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SecretSource {
    /// In this variable of the server.
    Env(String),
    /// In this file, without the line feed at its end.
    File(String),
}

/// A page of deployments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeploymentsPage {
    /// The deployments.
    pub deployments: Vec<DeploymentBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A deployment as operators see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeploymentBody {
    /// Its name.
    pub name: String,
    /// Its base address below that of the server.
    pub path: String,
    /// How it is: `stopped`, `starting`, `ready`, `draining` or `failed`.
    pub state: String,
    /// Why, in a sentence.
    pub why: String,
    /// The revision that takes jobs.
    pub revision: Option<u32>,
    /// The revision that is started beside it.
    pub next_revision: Option<u32>,
    /// At least so many workers stay up.
    pub min: u32,
    /// At most so many are started.
    pub max: u32,
    /// How long the last worker took until it answered, in milliseconds.
    pub start_ms: Option<u64>,
    /// Its workers, as far as this server has them.
    pub workers: Vec<DeploymentWorkerBody>,
    /// The revisions that are kept, oldest first.
    pub revisions: Vec<RevisionBody>,
}

/// A worker of a deployment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeploymentWorkerBody {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// The revision that it is of.
    pub revision: u32,
    /// How it is.
    pub state: String,
    /// Since when: RFC 3339, to the second.
    pub since: String,
    /// Why, in a sentence.
    pub why: String,
    /// The number of its process; absent if others started it.
    pub pid: Option<i32>,
    /// When it was started, or connected to first: RFC 3339, to the second.
    pub started_at: String,
    /// The version of ComfyUI; empty if it is not known.
    pub version: String,
    /// Jobs that it has now.
    pub jobs: u64,
    /// Jobs that it may have at once: one runs, and the inputs of the others are staged meanwhile.
    pub slots: u64,
    /// What its circuit breaker lets through: all jobs (`closed`), one that tries (`half_open`), or none (`open`).
    pub breaker: String,
}

/// A revision of a deployment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevisionBody {
    /// Its number.
    pub number: u32,
    /// When it was applied: RFC 3339, to the second.
    pub created_at: String,
    /// What it says.
    pub definition: DefinitionBody,
}

/// A page of events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventsPage {
    /// The events, newest first.
    pub events: Vec<EventBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Something that happened to a deployment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventBody {
    /// Its number.
    pub number: u64,
    /// When: RFC 3339, to the millisecond.
    pub at: String,
    /// What kind of thing, for programs.
    pub kind: String,
    /// What happened, in a sentence.
    pub text: String,
}

/// What the workers of a deployment wrote lately.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogsBody {
    /// A log for each worker, those that are gone included.
    pub logs: Vec<WorkerLogBody>,
}

/// What a worker wrote lately.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerLogBody {
    /// The worker.
    pub worker: String,
    /// At most its last 64 KiB, in whole lines.
    pub text: String,
}

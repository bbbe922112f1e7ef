//! ComfyUI workers as operators see and change them, and why jobs wait for them.

use serde::{Deserialize, Serialize};

/// A page of the ComfyUI workers of a server.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkersPage {
    /// The workers.
    pub workers: Vec<WorkerBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

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
    /// Jobs that it may have at once: one runs, and the inputs of the others are staged meanwhile.
    pub slots: u64,
    /// What its circuit breaker lets through: all jobs (`closed`), one that tries (`half_open`), or none (`open`).
    pub breaker: String,
    /// How long it took to answer the last question for its health, in milliseconds; `null` before the first.
    pub answer_ms: Option<f64>,
    /// How long a job had it for itself on average, in milliseconds; `null` before the first one ended.
    pub job_ms: Option<f64>,
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

/// Where a job runs, or why it waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobExplanation {
    /// The job.
    pub id: String,
    /// Whose it is.
    pub account: String,
    /// How it is.
    pub status: String,
    /// The engine that was chosen for it; absent if a newer version of the program chose it.
    pub engine: Option<String>,
    /// How many jobs will be claimed before it; absent unless it is queued.
    pub queue_position: Option<u64>,
    /// How many jobs of its account run.
    pub account_running: u32,
    /// How many may run at once.
    pub account_room: u32,
    /// The workers of its engine.
    pub workers: Vec<WorkerNote>,
}

/// A worker, and why it does not take a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerNote {
    /// Its name.
    pub worker: String,
    /// Whether it has the job.
    pub has_job: bool,
    /// Why it does not take the job; absent if it has it, or could take it now.
    pub why_not: Option<String>,
}

/// What an operator does to workers.
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

//! What a worker is like, for people and metrics.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::breaker::BreakerState;
use crate::durations::Durations;
use crate::worker::{Worker, WorkerState};

/// What a worker is like.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// How it is.
    pub state: WorkerState,
    /// Since when.
    pub since: Timestamp,
    /// Why, in a sentence.
    pub why: String,
    /// The version of ComfyUI; empty if it is not known.
    pub version: String,
    /// How many classes it has.
    pub classes: usize,
    /// Jobs that it has now.
    pub jobs: usize,
    /// Jobs that it may have at once.
    pub slots: u32,
    /// What its breaker lets through.
    pub breaker: BreakerState,
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
    /// How long it took to answer the questions for its health.
    pub answers: Durations,
    /// How long jobs had it for themselves, those that were lost apart.
    pub runs: Durations,
}

/// What a worker is like now.
pub(super) fn report(worker: &Worker) -> WorkerReport {
    let (state, since, why) = worker.state();
    let jobs = worker.jobs();
    let shared = worker.shared();
    let definitions = shared.definitions.as_ref();
    WorkerReport {
        name: worker.name.clone(),
        url: worker.url.to_string(),
        state,
        since,
        why,
        version: definitions.map_or_else(String::new, |known| known.version.clone()),
        classes: definitions.map_or(0, |known| known.len()),
        jobs,
        slots: worker.slots.count(),
        breaker: shared.breaker.state(Instant::now()),
        succeeded: shared.counts.succeeded,
        failed: shared.counts.failed,
        lost: shared.counts.lost,
        staged_bytes: shared.counts.staged_bytes,
        output_bytes: shared.counts.output_bytes,
        answers: shared.counts.answers,
        runs: shared.counts.runs,
    }
}

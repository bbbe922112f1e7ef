//! One deployment at work: its pool, and the workers that are started for it here.
//!
//! What is to be done is decided in `workflow_core::deployment`; here it is looked and done. Nothing here waits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use tokio::time::Instant;
use workflow_core::Engines;
use workflow_core::deployment::{
    Deployment, DeploymentChange, DeploymentName, DeploymentState, Failures, Load, NewEvent,
    RevisionNumber, Seen, SeenWorker, Step, WorkerSource, decide,
};

use super::engine::DeploymentEngine;
use super::process::{self, Process};
use super::record::Record;
use super::seen::{counts, seen};
use super::start;
use crate::pool::{ComfyPool, WorkerReport};
use crate::worker::WorkerState;

/// How long a process may take to end before it is killed.
pub(super) const END_TIME: Duration = Duration::from_secs(10);

/// A deployment at work.
pub(super) struct Running {
    pub(super) name: DeploymentName,
    pub(super) pool: ComfyPool,
    pub(super) engine: Arc<DeploymentEngine>,
    /// The engines of its base address.
    pub(super) engines: Engines,
    /// Where its logs and the records of its processes are.
    pub(super) folder: PathBuf,
    /// Begins the marks of its processes.
    pub(super) mark: String,
    state: Mutex<State>,
}

/// What changes.
pub(super) struct State {
    pub(super) row: Deployment,
    /// Its row is gone: its workers end.
    pub(super) is_removed: bool,
    pub(super) workers: BTreeMap<u32, Managed>,
    /// Processes that were asked to end, with their numbers.
    ending: Vec<(u32, Process, Instant)>,
    failures: BTreeMap<RevisionNumber, Failures>,
    /// What waited when that could be told last.
    load: Load,
}

/// A worker of the deployment.
pub(super) struct Managed {
    pub(super) revision: RevisionNumber,
    /// Its name in the pool.
    pub(super) worker: String,
    pub(super) started_at: Timestamp,
    /// Nothing of one that others start.
    pub(super) process: Option<Process>,
    pub(super) idle_since: Option<Timestamp>,
    pub(super) was_ready: bool,
    pub(super) is_draining: bool,
}

/// What a look came to.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) changes: Vec<DeploymentChange>,
    pub(super) events: Vec<NewEvent>,
    /// A worker whose definitions are to be kept.
    pub(super) ready: Option<String>,
}

impl Managed {
    pub(super) fn new(
        revision: RevisionNumber,
        worker: String,
        started_at: Timestamp,
        process: Option<Process>,
    ) -> Self {
        Self {
            revision,
            worker,
            started_at,
            process,
            idle_since: None,
            was_ready: false,
            is_draining: false,
        }
    }
}

impl Running {
    pub(super) fn new(
        row: Deployment,
        (pool, engine, engines): (ComfyPool, Arc<DeploymentEngine>, Engines),
        folder: PathBuf,
        mark: String,
    ) -> Self {
        engine.follow(&row);
        Self {
            name: row.name.clone(),
            pool,
            engine,
            engines,
            folder,
            mark,
            state: Mutex::new(State {
                row,
                is_removed: false,
                workers: BTreeMap::new(),
                ending: Vec::new(),
                failures: BTreeMap::new(),
                load: Load::default(),
            }),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic would be a bug of a look; the next one sees what is so.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes by this row from now on.
    pub(super) fn follow(&self, row: Deployment) {
        let mut state = self.state();
        if row.version <= state.row.version {
            return;
        }
        // An operator who starts it again means it: the failures before do not count.
        if state.row.is_stopped() && !row.is_stopped() {
            state.failures.clear();
        }
        self.engine.follow(&row);
        state.row = row;
    }

    /// How it is, and why, with the workers that this process has.
    pub(super) fn shown(&self) -> (DeploymentState, String) {
        let state = self.state();
        state.row.state(counts(&state, &self.reports()))
    }

    /// Whether nothing of it runs here any more.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.workers.is_empty() && state.ending.is_empty()
    }

    /// Looks at the workers and does what is to be done. `is_owner` is whether this process starts and stops workers; without a
    /// load, the one before stands.
    pub(super) fn look(&self, is_owner: bool, load: Option<Load>, now: Timestamp) -> Observed {
        let mut state = self.state();
        state.load = load.unwrap_or(state.load);
        let mut observed = Observed::default();
        self.end_processes(&mut state);
        let reports = self.reports();
        self.see_processes(&mut state, now, &mut observed);
        self.see_workers(&mut state, &reports, now, &mut observed);
        let seen: Vec<SeenWorker> = state
            .workers
            .iter()
            .map(|(number, worker)| seen(*number, worker, reports.get(&worker.worker), now))
            .collect();
        let is_managed = state
            .row
            .serving()
            .is_none_or(|serving| matches!(serving.definition.source, WorkerSource::Command(_)));
        let is_woken = self.engine.take_wake();
        let mut load = state.load;
        if self.engine.is_claimed() {
            // Its worker must not be stopped under its feet.
            load.waiting = load.waiting.max(1);
        }
        let steps = if state.is_removed || (is_managed && !is_owner) {
            // Whoever owns it has workers of its own.
            let mut stopped = state.row.clone();
            stopped.failure = Some(String::new());
            decide(&Seen {
                deployment: &stopped,
                workers: &seen,
                load: Load::default(),
                failures: &state.failures,
                is_woken: false,
                places: self.pool.slots(),
                now,
            })
        } else {
            decide(&Seen {
                deployment: &state.row,
                workers: &seen,
                load,
                failures: &state.failures,
                is_woken,
                places: self.pool.slots(),
                now,
            })
        };
        for step in steps {
            match step {
                Step::Change(change) if is_owner => observed.changes.push(change),
                // The owner writes it.
                Step::Change(_) => {}
                Step::Start(revision) => self.start(&mut state, revision, now, &mut observed),
                Step::Drain(number) => {
                    if let Some(worker) = state.workers.get_mut(&number) {
                        worker.is_draining = true;
                        let _ = self.pool.drain(&worker.worker, true);
                    }
                }
                Step::Stop(number) => self.stop(&mut state, number, now, &mut observed),
                Step::Fail(number, why) => self.fail(&mut state, number, &why, now, &mut observed),
            }
        }
        let workers = counts(&state, &self.reports());
        if is_managed && is_owner && workers != state.row.workers {
            // For the replicas that have none of them.
            observed
                .changes
                .push(DeploymentChange::WorkersSeen(workers));
        }
        observed
    }

    /// Asks every process to end.
    pub(super) fn end_all(&self) {
        let mut state = self.state();
        let numbers: Vec<u32> = state.workers.keys().copied().collect();
        for number in numbers {
            if let Some(worker) = state.workers.remove(&number) {
                self.pool.take_out(&worker.worker);
                end(&mut state, number, worker.process);
            }
        }
    }

    /// Kills what was asked to end and did not; answers whether nothing is left.
    pub(super) fn ended(&self, in_time: bool) -> bool {
        let mut state = self.state();
        if !in_time {
            for (_, process, _) in &state.ending {
                process.signal(Signal::KILL);
            }
        }
        self.end_processes(&mut state);
        state.ending.is_empty()
    }

    /// Takes over a process that an earlier life of the server started.
    pub(super) fn adopt(&self, number: u32, record: &Record, process: Process) {
        let mut state = self.state();
        let worker = self.worker_name(number);
        if state.workers.contains_key(&number) || !start::connect(&self.pool, &worker, record.port)
        {
            end(&mut state, number, Some(process));
            return;
        }
        tracing::info!(
            worker,
            pid = process.id.pid,
            "a worker that ran before the server started is used again"
        );
        let adopted = Managed::new(record.revision, worker, record.started_at, Some(process));
        state.workers.insert(number, adopted);
    }

    fn reports(&self) -> BTreeMap<String, WorkerReport> {
        let reports = self.pool.workers().into_iter();
        reports
            .map(|report| (report.name.clone(), report))
            .collect()
    }

    fn worker_name(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// The file that a worker writes to.
    pub(super) fn log(&self, number: u32) -> PathBuf {
        log(&self.folder, number)
    }

    fn end_processes(&self, state: &mut State) {
        for (_, process, asked_at) in &mut state.ending {
            if asked_at.elapsed() > END_TIME {
                process.signal(Signal::KILL);
            }
        }
        state.ending.retain_mut(|(number, process, _)| {
            let is_over = process.ended().is_some();
            if is_over {
                // What it started itself is of no use without it.
                process.signal(Signal::KILL);
                Record::remove(&self.folder, *number);
            }
            !is_over
        });
    }

    fn see_processes(&self, state: &mut State, now: Timestamp, observed: &mut Observed) {
        let mut over = Vec::new();
        for (number, worker) in &mut state.workers {
            if let Some(ended) = worker.process.as_mut().and_then(Process::ended) {
                over.push((*number, format!("it ended by itself ({ended})")));
            }
            if worker.process.is_some()
                && let Err(error) = process::rotate(&log(&self.folder, *number))
            {
                tracing::warn!(worker = worker.worker, %error, "the log of a worker could not be rotated");
            }
        }
        for (number, why) in over {
            self.fail(state, number, &why, now, observed);
        }
    }

    fn see_workers(
        &self,
        state: &mut State,
        reports: &BTreeMap<String, WorkerReport>,
        now: Timestamp,
        observed: &mut Observed,
    ) {
        for worker in state.workers.values_mut() {
            let Some(report) = reports.get(&worker.worker) else {
                continue;
            };
            let is_ready = matches!(report.state, WorkerState::Ready | WorkerState::Busy);
            worker.idle_since = match is_ready && report.jobs == 0 {
                true => worker.idle_since.or(Some(now)),
                false => None,
            };
            if !is_ready || worker.was_ready {
                continue;
            }
            worker.was_ready = true;
            state.failures.remove(&worker.revision);
            let took = now.duration_since(worker.started_at);
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(0);
            if worker.process.is_some() {
                observed
                    .changes
                    .push(DeploymentChange::StartMeasured(took_ms));
                observed.ready = Some(worker.worker.clone());
            }
            let text = format!(
                "worker {} of revision {} takes jobs {:.1} s after its start",
                worker.worker,
                worker.revision.0,
                took.as_secs_f64()
            );
            observed.events.push(event("worker_ready", text, now));
        }
    }

    fn start(
        &self,
        state: &mut State,
        revision: RevisionNumber,
        now: Timestamp,
        observed: &mut Observed,
    ) {
        let Some(found) = state.row.revision(revision).cloned() else {
            return;
        };
        let is_taken = |number: &u32| {
            state.workers.contains_key(number)
                || state.ending.iter().any(|(ends, ..)| ends == number)
        };
        let number = (1..).find(|number| !is_taken(number)).unwrap_or(1);
        let worker = self.worker_name(number);
        let command = match &found.definition.source {
            WorkerSource::Urls(urls) => {
                start::connect_next(&self.pool, state, &worker, urls, (number, revision), now);
                return;
            }
            WorkerSource::Command(command) => command,
        };
        let started = start::start(self, command, (number, revision), &worker, now);
        match started {
            Ok(process) => {
                let text = format!(
                    "worker {worker} of revision {} is started (process {})",
                    revision.0, process.id.pid
                );
                tracing::info!(worker, pid = process.id.pid, "a worker is started");
                observed.events.push(event("worker_started", text, now));
                let managed = Managed::new(revision, worker, now, Some(process));
                state.workers.insert(number, managed);
            }
            Err(why) => failed(state, revision, &worker, &why, now, observed),
        }
    }

    fn stop(&self, state: &mut State, number: u32, now: Timestamp, observed: &mut Observed) {
        let Some(worker) = state.workers.get(&number) else {
            return;
        };
        // A job may have come since the look: then it stays.
        if !self.pool.retire(&worker.worker) {
            return;
        }
        if let Some(worker) = state.workers.remove(&number) {
            tracing::info!(worker = worker.worker, "a worker is stopped");
            let text = format!(
                "worker {} of revision {} is stopped",
                worker.worker, worker.revision.0
            );
            observed.events.push(event("worker_stopped", text, now));
            end(state, number, worker.process);
        }
    }

    fn fail(
        &self,
        state: &mut State,
        number: u32,
        why: &str,
        now: Timestamp,
        observed: &mut Observed,
    ) {
        let Some(worker) = state.workers.remove(&number) else {
            return;
        };
        self.pool.take_out(&worker.worker);
        end(state, number, worker.process);
        failed(state, worker.revision, &worker.worker, why, now, observed);
    }
}

/// Counts a failure.
fn failed(
    state: &mut State,
    revision: RevisionNumber,
    worker: &str,
    why: &str,
    now: Timestamp,
    observed: &mut Observed,
) {
    let before = state
        .failures
        .get(&revision)
        .map_or(0, |failures| failures.in_row);
    let failures = Failures {
        in_row: before.saturating_add(1),
        last_at: now,
        why: why.to_owned(),
    };
    tracing::warn!(worker, why, in_row = failures.in_row, "a worker failed");
    let text = format!(
        "worker {worker} of revision {} failed: {why}; {} in a row; `deployment logs` shows what it wrote",
        revision.0, failures.in_row
    );
    observed.events.push(event("worker_failed", text, now));
    state.failures.insert(revision, failures);
}

/// Asks a process to end.
fn end(state: &mut State, number: u32, process: Option<Process>) {
    if let Some(process) = process {
        process.signal(Signal::TERM);
        state.ending.push((number, process, Instant::now()));
    }
}

/// The file that a worker writes to.
pub(super) fn log(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("worker-{number}.log"))
}

fn event(kind: &str, text: String, at: Timestamp) -> NewEvent {
    NewEvent {
        at,
        kind: kind.to_owned(),
        text,
    }
}

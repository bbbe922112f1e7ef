//! The engine of a deployment: its pool, which may have no worker for a while.
//!
//! A deployment that sleeps takes submissions as long as it is known what its workers have and not too many wait: they wake it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;
use workflow_core::deployment::{Deployment, DeploymentName, WorkerSource};
use workflow_core::{
    Availability, Engine, EngineName, EngineWorkers, JobId, ModelFile, NodeCatalog, Refusal,
    Requirements, RunContext, RunError, Ticket, ValidGraph, WorkerNote,
};

use crate::pool::{COMFYUI, ComfyPool};

/// How long the row of a submission that was taken may be on its way. A count that begins within this time may miss it.
const ROW_TIME: Duration = Duration::from_secs(1);

/// How long a job may be on its way from the queue to its run: it waits in neither then.
const CLAIM_TIME: Duration = Duration::from_secs(2);

/// The pool of a deployment as an engine.
pub(super) struct DeploymentEngine {
    name: DeploymentName,
    pub(super) pool: ComfyPool,
    facts: Mutex<Facts>,
    /// Rung when a worker may have to be started.
    bell: Arc<Notify>,
}

/// What decides whether submissions are taken.
#[derive(Debug)]
struct Facts {
    is_stopped: bool,
    /// Whether workers are started when jobs wait.
    is_managed: bool,
    /// Whether a worker took jobs when the replica that starts them looked last.
    has_ready: bool,
    /// How many jobs may wait while no worker is up.
    waking_queue: u64,
    start_time: Option<Duration>,
    /// Jobs that waited when they were counted last, and those that were taken since.
    waiting: u64,
    /// When the last of them was taken.
    taken: Option<Instant>,
    /// When a worker had room for a job that waits, last.
    offered: Option<Instant>,
    /// Whether somebody must know what workers have.
    is_woken: bool,
}

/// The name of a deployment's engine, as its jobs are stored with it.
pub(super) fn engine_name(name: &DeploymentName) -> EngineName {
    format!("{COMFYUI}:{name}").as_str().into()
}

impl DeploymentEngine {
    pub(super) fn new(name: DeploymentName, pool: ComfyPool, bell: Arc<Notify>) -> Self {
        Self {
            name,
            pool,
            bell,
            facts: Mutex::new(Facts {
                is_stopped: true,
                is_managed: true,
                has_ready: false,
                waking_queue: 0,
                start_time: None,
                waiting: 0,
                taken: None,
                offered: None,
                is_woken: false,
            }),
        }
    }

    /// Goes by this row from now on.
    pub(super) fn follow(&self, row: &Deployment) {
        let mut facts = self.facts();
        facts.is_stopped = row.is_stopped();
        facts.has_ready = row.workers.ready > 0;
        let Some(serving) = row.serving() else {
            return;
        };
        facts.is_managed = matches!(serving.definition.source, WorkerSource::Command(_));
        facts.waking_queue = serving.definition.waking_queue.into();
        facts.start_time = row.start_ms.map(Duration::from_millis);
    }

    /// Takes no more submissions: the deployment is removed.
    pub(super) fn end(&self) {
        self.facts().is_stopped = true;
    }

    /// So many jobs waited when a count of the rows began.
    pub(super) fn counted(&self, waiting: u64, began: Instant) {
        self.facts().counted(waiting, began);
    }

    /// Whether submissions were taken, or waited, at the last count.
    pub(super) fn is_waited_for(&self) -> bool {
        self.facts().waiting > 0
    }

    /// Whether a job may be on its way to a worker, seen by no count.
    pub(super) fn is_claimed(&self) -> bool {
        self.facts().is_claimed(Instant::now())
    }

    /// Whether a worker was asked for since the last look, although nothing waits.
    pub(super) fn take_wake(&self) -> bool {
        std::mem::take(&mut self.facts().is_woken)
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        // Every change is an assignment.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    fn taken(&mut self, now: Instant) {
        self.waiting += 1;
        self.taken = Some(now);
    }

    fn is_claimed(&self, now: Instant) -> bool {
        self.offered
            .is_some_and(|offered| now < offered + CLAIM_TIME)
    }

    fn counted(&mut self, waiting: u64, began: Instant) {
        let is_whole = self.taken.is_none_or(|taken| taken + ROW_TIME <= began);
        self.waiting = match is_whole {
            true => waiting,
            // Else every submission would make room for the next one: it rings the bell for a count that misses its row.
            false => waiting.max(self.waiting),
        };
    }
}

#[async_trait]
impl Engine for DeploymentEngine {
    fn availability(&self) -> Availability {
        let mut facts = self.facts();
        match () {
            () if facts.is_stopped => Availability::Stopped,
            () if !facts.is_managed => match self.pool.availability() {
                // Its workers come and go by themselves.
                Availability::Stopped => Availability::NotReady,
                other @ (Availability::Ready | Availability::NotReady) => other,
            },
            () if self.pool.has_ready() || facts.has_ready => Availability::Ready,
            () if !self.pool.is_known() => {
                facts.is_woken = true;
                self.bell.notify_one();
                Availability::NotReady
            }
            () if facts.waiting >= facts.waking_queue => Availability::NotReady,
            () => Availability::Ready,
        }
    }

    fn nodes(&self) -> NodeCatalog {
        self.pool.nodes()
    }

    fn capacity(&self, needs: &Requirements) -> usize {
        // Its workers are only drained at the next look.
        if self.facts().is_stopped {
            return 0;
        }
        let capacity = self.pool.capacity(needs);
        if capacity > 0 {
            self.facts().offered = Some(Instant::now());
        }
        capacity
    }

    fn model_files(&self, graph: &ValidGraph) -> BTreeSet<ModelFile> {
        self.pool.model_files(graph)
    }

    fn workers(&self) -> Option<&dyn EngineWorkers> {
        Some(self)
    }

    async fn run(&self, ticket: Ticket, context: RunContext) -> Result<(), RunError> {
        self.pool.run(ticket, context).await
    }
}

#[async_trait]
impl EngineWorkers for DeploymentEngine {
    async fn judge(&self, ticket: &Ticket) -> Result<(), Refusal> {
        self.pool.judge(ticket).await?;
        // It is about to wait.
        self.facts().taken(Instant::now());
        self.bell.notify_one();
        Ok(())
    }

    fn is_idle_for(&self, needs: &Requirements) -> bool {
        self.pool.is_idle_for(needs)
    }

    fn explain(&self, job: JobId, needs: &Requirements) -> Vec<WorkerNote> {
        let notes = self.pool.explain(job, needs);
        if !notes.is_empty() {
            return notes;
        }
        let why = match self.facts().is_stopped {
            true => "the deployment is stopped; `deployment start` starts it",
            false => "no worker of the deployment is up; `deployment show` shows why",
        };
        vec![WorkerNote {
            worker: self.name.to_string(),
            has_job: false,
            why_not: Some(why.to_owned()),
        }]
    }

    fn start_time(&self) -> Option<Duration> {
        self.facts().start_time
    }
}

impl fmt::Debug for DeploymentEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeploymentEngine")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_known() -> Facts {
        Facts {
            is_stopped: false,
            is_managed: true,
            has_ready: false,
            waking_queue: 2,
            start_time: None,
            waiting: 0,
            taken: None,
            offered: None,
            is_woken: false,
        }
    }

    #[test]
    fn a_count_forgets_no_submission_whose_row_is_on_its_way() {
        let begin = Instant::now();
        let mut facts = nothing_known();
        facts.counted(1, begin);
        assert_eq!(facts.waiting, 1, "of before");
        facts.taken(begin);
        facts.counted(0, begin);
        facts.counted(1, begin + ROW_TIME / 2);
        assert_eq!(facts.waiting, 2, "a row may be missing");
        facts.counted(5, begin + ROW_TIME / 2);
        assert_eq!(facts.waiting, 5, "others took some");
        facts.counted(1, begin + ROW_TIME);
        assert_eq!(facts.waiting, 1, "every row is there");
    }

    #[test]
    fn a_job_on_its_way_to_a_worker_keeps_it() {
        let begin = Instant::now();
        let mut facts = nothing_known();
        assert!(!facts.is_claimed(begin));
        facts.offered = Some(begin);
        assert!(facts.is_claimed(begin + CLAIM_TIME / 2));
        assert!(!facts.is_claimed(begin + CLAIM_TIME));
    }
}

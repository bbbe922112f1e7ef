//! A place at a worker for a job: which worker, and waiting for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use workflow_core::{JobId, ModelFile, Requirements};

use super::Shared;
use crate::choose::{Choice, choose};
use crate::worker::{Able, Worker};

/// How long a run that waits for a place sleeps at most before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A job's slot at a worker. Dropping it frees the slot for another job.
pub(crate) struct WorkerSlot {
    pub(crate) worker: Arc<Worker>,
    permit: Option<OwnedSemaphorePermit>,
    pool: Arc<Shared>,
    job: JobId,
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        // The place is free before waiting jobs are woken.
        self.permit = None;
        self.worker.no_promise(self.job);
        self.pool.placed().remove(&self.job);
        self.pool.changed();
    }
}

/// A job that waits, counted while it does.
struct Waiting<'a> {
    pool: &'a Shared,
    files: &'a BTreeSet<ModelFile>,
    began: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.pool.waiting();
        if let Some(count) = waiting.get_mut(self.files) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(self.files);
            }
        }
        drop(waiting);
        let mut began = self.pool.began();
        if let Some(place) = began.iter().position(|began| *began == self.began) {
            began.swap_remove(place);
        }
    }
}

impl Shared {
    /// The worker that takes a job with these needs now, which has waited for so long as one of `waiting`; none of `avoid` if
    /// another one can.
    pub(super) fn choice(
        &self,
        needs: &Requirements,
        avoid: &[String],
        waiting: u64,
        waited: Duration,
    ) -> Option<Arc<Worker>> {
        let (mut able, now) = (Able::new(needs), Instant::now());
        let members = self.members();
        let candidates = members.iter().map(|member| {
            let mut candidate = member.worker.candidate(&mut able, now);
            candidate.is_avoided = avoid.contains(&member.worker.name);
            candidate
        });
        match choose(candidates, waiting, waited) {
            Choice::Take(position) => Some(Arc::clone(&members.get(position)?.worker)),
            Choice::Wait => None,
        }
    }

    /// Waits for a place at the best worker for these needs, but not at one of `avoid`; `None` once every worker is drained or
    /// out of the pool, so that the job waits where it can be seen. Cancel-safe.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        job: JobId,
        needs: &Requirements,
        avoid: &[String],
    ) -> Option<WorkerSlot> {
        let began = Instant::now();
        let _counted = self.count_waiting(&needs.files, began);
        loop {
            // Before the look, so that a place that becomes free meanwhile is not missed.
            let freed = self.freed.notified();
            let same = self.waiting().get(&needs.files).copied().unwrap_or(1);
            if let Some(worker) = self.choice(needs, avoid, same, began.elapsed()) {
                if let Ok(permit) = Arc::clone(&worker.places).try_acquire_owned() {
                    return Some(self.place(job, needs, worker, permit));
                }
                continue;
            }
            if self.is_drained() {
                return None;
            }
            let _ = timeout(LOOK_AGAIN, freed).await;
        }
    }

    /// A place at this very worker.
    pub(crate) async fn acquire_at(
        self: &Arc<Self>,
        job: JobId,
        needs: &Requirements,
        worker: &Arc<Worker>,
    ) -> Option<WorkerSlot> {
        let permit = Arc::clone(&worker.places).acquire_owned().await.ok()?;
        Some(self.place(job, needs, Arc::clone(worker), permit))
    }

    fn place(
        self: &Arc<Self>,
        job: JobId,
        needs: &Requirements,
        worker: Arc<Worker>,
        permit: OwnedSemaphorePermit,
    ) -> WorkerSlot {
        worker.promise(job, &needs.files);
        self.placed().insert(job, worker.name.clone());
        WorkerSlot {
            worker,
            permit: Some(permit),
            pool: Arc::clone(self),
            job,
        }
    }

    pub(super) fn placed(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, String>> {
        // Every change is one insert or remove.
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_waiting<'a>(&'a self, files: &'a BTreeSet<ModelFile>, began: Instant) -> Waiting<'a> {
        *self.waiting().entry(files.clone()).or_default() += 1;
        self.began().push(began);
        Waiting {
            pool: self,
            files,
            began,
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<BTreeSet<ModelFile>, u64>> {
        // Every change is one step of a number.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

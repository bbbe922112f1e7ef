//! The worker loop: claims jobs, runs them through the engine, keeps their leases, and lets go of what others lost.
//!
//! Takes no input but what the queue gives it, is woken by a hint and by the clock, and treats recovery as the ordinary path:
//! what was interrupted, by a drain or by a crash, is simply claimed again. Spawning is left to the binaries: one future per
//! slot and one for the leases.

mod able;
mod claim_state;
mod run;
mod run_log;
mod sink;
mod traces;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use accounts::AccountId;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use jiff::SignedDuration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use asset_store::BlobStore;

use able::ReadSets;
use sink::Sink;

use crate::completion_rate::CompletionRate;
use crate::jobs::JobPorts;
use crate::{
    Claim, ClaimRequest, ComputePermit, Epoch, Job, JobChange, JobId, LeaseNews, Rooms, Shares,
    StoreError, Timer, WorkerId,
};

/// How a worker goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// How many runs may compute at the same time.
    pub slots: usize,
    /// How many of them may be one account's.
    pub account_slots: usize,
    /// Whether it leaves all jobs to other workers, except those whose secrets are in this process.
    pub only_secrets: bool,
    /// How long a claim counts without being renewed; it is renewed three times as often.
    pub lease: Duration,
    /// How long a job may run.
    pub run_limit: Duration,
    /// How long a job may wait.
    pub queue_limit: SignedDuration,
}

/// Runs jobs. One for a process; every slot is a call of [`Worker::run_slot`].
pub struct Worker {
    id: WorkerId,
    ports: JobPorts,
    blobs: Arc<dyn BlobStore>,
    timer: Arc<dyn Timer>,
    config: WorkerConfig,
    pace: Arc<CompletionRate>,
    /// One for each run that computes; runs that merely wait leave theirs.
    permits: Shares,
    /// One for each run that is over, gave its permit back and waits for the store.
    unsaved: Semaphore,
    running: Mutex<HashMap<JobId, Running>>,
    sets: ReadSets,
}

/// A job that a slot is running.
#[derive(Clone)]
struct Running {
    account: AccountId,
    permit: ComputePermit,
    /// What the run of its claim goes through.
    sink: Arc<Sink>,
    /// Stops the run; why is known to the code that fires it.
    cancel: CancellationToken,
}

/// How many jobs of a worker may merely wait for another service, each with its pictures in memory.
const MOST_WAITING: usize = 256;

/// How many runs may be over without being saved while others compute. Their ends share the store's transactions; more would
/// be run again after a crash.
const MOST_UNSAVED: usize = 16;

/// How long an idle slot waits for the bell before it looks at the queue anyway.
const IDLE: Duration = Duration::from_secs(1);

/// Pauses between attempts at something that the store must take in the end: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

impl Worker {
    /// The worker of the process that holds the secrets of `ports`, under the same name; a process that starts anew takes a new
    /// one.
    #[must_use]
    pub fn new(
        ports: JobPorts,
        blobs: Arc<dyn BlobStore>,
        timer: Arc<dyn Timer>,
        config: WorkerConfig,
        pace: Arc<CompletionRate>,
    ) -> Self {
        Self {
            id: ports.secrets.holder(),
            ports,
            blobs,
            timer,
            permits: Shares::new(config.slots, config.account_slots),
            unsaved: Semaphore::new(MOST_UNSAVED),
            config,
            pace,
            running: Mutex::default(),
            sets: ReadSets::default(),
        }
    }

    /// Runs one job after the other until `draining` fires; then finishes what is at hand, or gives it back when `halt` fires.
    /// While a job merely waits for another service, or for its end to be saved, another one is run.
    pub async fn run_slot(&self, draining: &CancellationToken, halt: &CancellationToken) {
        let claimer = Arc::new(Semaphore::new(1));
        let mut runs = FuturesUnordered::new();
        loop {
            // Never dropped half-way: a job that was claimed is run.
            let mut next = pin!(self.next_claim(&claimer, draining));
            let claimed = loop {
                tokio::select! {
                    claimed = &mut next => break claimed,
                    Some(()) = runs.next() => {}
                }
            };
            let Some((claim, permit)) = claimed else {
                break;
            };
            runs.push(self.run_guarded(claim, permit, halt));
        }
        while runs.next().await.is_some() {}
    }

    /// The next job to run and its permit, once the run before it ended or waits; `None` when `draining` fires first.
    async fn next_claim(
        &self,
        claimer: &Arc<Semaphore>,
        draining: &CancellationToken,
    ) -> Option<(Claim, ComputePermit)> {
        let permit = |of: &Arc<Semaphore>| {
            let permit = Arc::clone(of).acquire_owned();
            async move {
                tokio::select! {
                    biased;
                    () = draining.cancelled() => None,
                    // Nobody ever closes it.
                    permit = permit => permit.ok(),
                }
            }
        };
        let claimer = permit(claimer).await?;
        let mut backoff = Backoff::new();
        loop {
            // An idle loop has no permit: a run that waited may want one.
            let permit = permit(self.permits.all()).await?;
            let pause = match self.claim().await {
                Ok(Some(claim)) => {
                    // There may be more where this came from, and another slot may be asleep.
                    self.ports.hub.ring();
                    let share = self.permits.of(&claim.job.account);
                    let permit = ComputePermit::new(share, permit, claimer);
                    return Some((claim, permit));
                }
                Ok(None) => None,
                Err(error) => {
                    tracing::warn!(error = %error, "claiming a job failed; trying again");
                    Some(backoff.next())
                }
            };
            drop(permit);
            tokio::select! {
                () = self.ports.hub.rung(), if pause.is_none() => {}
                () = self.timer.sleep(pause.unwrap_or(IDLE)) => {}
                () = draining.cancelled() => return None,
            }
        }
    }

    /// Runs a claimed job. A panic is a bug that must not cost the runs beside it: the job is claimed anew once its lease is
    /// over.
    async fn run_guarded(&self, claim: Claim, permit: ComputePermit, halt: &CancellationToken) {
        let id = claim.job.id;
        let span = traces::job(&claim);
        let run = self.run_claim(claim, permit, halt).instrument(span);
        let run = AssertUnwindSafe(run).catch_unwind();
        if run.await.is_err() {
            tracing::error!(job.id = %id, "the run of a job panicked");
        }
    }

    /// Renews the leases of this worker's jobs and takes up what other workers lost, until `stop` fires.
    pub async fn keep_leases(&self, stop: &CancellationToken) {
        loop {
            if let Err(error) = self.renew().await {
                tracing::warn!(error = %error, "renewing leases failed; trying again");
            }
            if let Err(error) = self.reap().await {
                tracing::warn!(error = %error, "looking for lost jobs failed; trying again");
            }
            tokio::select! {
                () = self.timer.sleep(self.config.lease / 3) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// How many runs of an account merely wait.
    fn waiting(&self) -> HashMap<AccountId, u32> {
        let mut waiting = HashMap::new();
        for running in self.registry().values() {
            if running.permit.is_left() {
                *waiting.entry(running.account.clone()).or_default() += 1;
            }
        }
        waiting
    }

    /// Accounts whose runs compute in all slots that one account may have.
    fn full(&self) -> HashSet<AccountId> {
        let mut computing: HashMap<AccountId, usize> = HashMap::new();
        for running in self.registry().values() {
            if running.permit.is_taken() {
                *computing.entry(running.account.clone()).or_default() += 1;
            }
        }
        computing.retain(|_, runs| *runs >= self.config.account_slots);
        computing.into_keys().collect()
    }

    /// How many jobs run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.registry().len()
    }

    async fn claim(&self) -> Result<Option<Claim>, StoreError> {
        let now = self.timer.now();
        let demand = self.ports.queue.demand(now).await?;
        let sets = self.able(&demand);
        if sets.is_empty() {
            return Ok(None);
        }
        let request = ClaimRequest {
            worker: self.id,
            sets,
            rooms: Rooms {
                waiting: self.waiting(),
                full: self.full(),
            },
            lease: self.config.lease,
        };
        self.ports.queue.claim(&request, now).await
    }

    async fn renew(&self) -> Result<(), StoreError> {
        let runs: Vec<(JobId, Arc<Sink>, u32)> = self
            .registry()
            .iter()
            .map(|(id, running)| {
                let sink = Arc::clone(&running.sink);
                let again = sink.claim.again();
                (*id, sink, again)
            })
            .collect();
        let claims = runs.iter().map(|(id, sink, _)| (*id, sink.epoch()));
        let claims: Vec<(JobId, Epoch)> = claims.collect();
        // Also without any: while it renews, others know that the secrets of this process are there.
        let news = self
            .ports
            .queue
            .renew(self.id, &claims, self.config.lease, self.timer.now())
            .await?;
        for ((id, sink, again), news) in runs.into_iter().zip(news) {
            let stops = match news {
                LeaseNews::Renewed => false,
                LeaseNews::CancelWanted => true,
                LeaseNews::Lost => sink.claim.lose_unless_made_again(again),
            };
            if stops {
                self.stop(id, &sink);
            }
        }
        Ok(())
    }

    async fn reap(&self) -> Result<(), StoreError> {
        let now = self.timer.now();
        let queued_before = now
            .saturating_sub(self.config.queue_limit)
            .unwrap_or(jiff::Timestamp::MIN);
        for job in self.ports.queue.reap(queued_before, now).await? {
            tracing::info!(job.id = %job.id, job.status = job.status.name(), "recovered a job without a worker");
            self.publish(&job);
            self.ports.hub.ring();
        }
        Ok(())
    }

    /// Stops the run that goes through this sink, if it is still running.
    fn stop(&self, id: JobId, sink: &Arc<Sink>) {
        if let Some(running) = self
            .registry()
            .get(&id)
            .filter(|running| Arc::ptr_eq(&running.sink, sink))
        {
            running.cancel.cancel();
        }
    }

    fn publish(&self, job: &Arc<Job>) {
        if job.status.is_terminal() {
            self.ports.secrets.forget(job.id);
            self.pace.finished(job.updated_at);
        }
        self.ports
            .hub
            .publish(job.id, JobChange::Saved(job.clone()));
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Running>> {
        // Every change is one insert or remove: a panic elsewhere cannot have left the map half-changed.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Growing pauses between attempts.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Self(RETRY.0)
    }

    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(RETRY.1);
        pause
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

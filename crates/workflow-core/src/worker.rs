//! The worker loop: claims jobs, runs them through the engine, keeps their leases, and lets go of what others lost.
//!
//! Takes no input but what the queue gives it, is woken by a hint and by the clock, and treats recovery as the ordinary path:
//! what was interrupted, by a drain or by a crash, is simply claimed again. Spawning is left to the binaries: one future per
//! slot and one for the leases.

mod run;
mod sink;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use asset_store::BlobStore;

use crate::jobs::JobPorts;
use crate::pace::Pace;
use crate::{
    Availability, Claim, ClaimRequest, Epoch, Job, JobChange, JobId, LeaseNews, StoreError, Timer,
    WorkerId,
};

/// How a worker goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
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
    pace: Arc<Pace>,
    running: Mutex<HashMap<JobId, Running>>,
}

/// A job that a slot is running.
#[derive(Clone, Debug)]
struct Running {
    epoch: Epoch,
    /// Stops the run; why is known to whoever fires it.
    cancel: CancellationToken,
}

/// How long an idle slot waits for the bell before it looks at the queue anyway.
const IDLE: Duration = Duration::from_secs(1);

/// Pauses between attempts at something that the store must take in the end: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

impl Worker {
    /// A worker of this name; a process that starts anew takes a new one.
    #[must_use]
    pub fn new(
        id: WorkerId,
        ports: JobPorts,
        blobs: Arc<dyn BlobStore>,
        timer: Arc<dyn Timer>,
        config: WorkerConfig,
        pace: Arc<Pace>,
    ) -> Self {
        Self {
            id,
            ports,
            blobs,
            timer,
            config,
            pace,
            running: Mutex::default(),
        }
    }

    /// Runs one job after the other until `draining` fires; then finishes the one at hand, or gives it back when `halt` fires.
    pub async fn run_slot(&self, draining: &CancellationToken, halt: &CancellationToken) {
        let mut backoff = Backoff::new();
        while !draining.is_cancelled() {
            match self.claim().await {
                Ok(Some(claim)) => {
                    backoff = Backoff::new();
                    // There may be more where this came from, and another slot may be asleep.
                    self.ports.feed.ring();
                    self.run_claim(claim, halt).await;
                }
                Ok(None) => tokio::select! {
                    () = self.ports.feed.rung() => {}
                    () = self.timer.sleep(IDLE) => {}
                    () = draining.cancelled() => {}
                },
                Err(error) => {
                    tracing::warn!(error = %error, "claiming a job failed; trying again");
                    tokio::select! {
                        () = self.timer.sleep(backoff.next()) => {}
                        () = draining.cancelled() => {}
                    }
                }
            }
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

    /// How many jobs run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.registry().len()
    }

    async fn claim(&self) -> Result<Option<Claim>, StoreError> {
        match self.ports.engine.availability() {
            Availability::Ready => {}
            Availability::NotReady | Availability::Stopped => return Ok(None),
        }
        let request = ClaimRequest {
            worker: self.id,
            classes: self.ports.engine.nodes(),
            lease: self.config.lease,
        };
        self.ports.queue.claim(&request, self.timer.now()).await
    }

    async fn renew(&self) -> Result<(), StoreError> {
        let claims: Vec<(JobId, Epoch)> = self
            .registry()
            .iter()
            .map(|(id, running)| (*id, running.epoch))
            .collect();
        if claims.is_empty() {
            return Ok(());
        }
        let news = self
            .ports
            .queue
            .renew(self.id, &claims, self.config.lease, self.timer.now())
            .await?;
        for ((id, epoch), news) in claims.into_iter().zip(news) {
            match news {
                LeaseNews::Renewed => {}
                LeaseNews::CancelWanted | LeaseNews::Lost => self.stop(id, epoch),
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
            tracing::info!(job.id = %job.id, job.status = job.status.name(), "took up a job without a worker");
            self.publish(&job);
            self.ports.feed.ring();
        }
        Ok(())
    }

    /// Stops the run of a claim, if it is still running.
    fn stop(&self, id: JobId, epoch: Epoch) {
        if let Some(running) = self
            .registry()
            .get(&id)
            .filter(|running| running.epoch == epoch)
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
            .feed
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

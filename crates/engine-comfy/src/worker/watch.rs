//! The health of a worker, its definitions, and prompts of ours that must not run there.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use super::{Reach, UNREACHABLE_AFTER, Worker, takes_prompt_ids};
use crate::client::WorkerError;
use crate::definitions::Definitions;
use crate::history::InQueue;
use crate::pool::Shared as Pool;

/// How often a worker is asked whether it is there: one that answers, and one that does not.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(500));

/// How often its definitions are read again: model files come and go while it runs.
const READ_AGAIN: Duration = Duration::from_secs(300);

impl Worker {
    /// Keeps a worker connected until `stop` fires.
    pub(crate) async fn keep(
        self: Arc<Self>,
        pool: Arc<Pool>,
        stop: tokio_util::sync::CancellationToken,
    ) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.listen() => {}
            () = self.watch(&pool) => {}
        }
    }

    async fn watch(&self, pool: &Pool) {
        let mut read_at: Option<Instant> = None;
        loop {
            let asked = Instant::now();
            match self.client.health(self.patience()).await {
                Ok(()) => {
                    {
                        let mut shared = self.shared();
                        shared.alive_at = Instant::now();
                        shared.counts.answers.observe(asked.elapsed());
                    }
                    let is_up = self.shared().reach == Reach::Up;
                    let is_old = read_at.is_none_or(|read| read.elapsed() > READ_AGAIN);
                    if !is_up || is_old {
                        match self.read_definitions(pool).await {
                            Ok(()) => read_at = Some(Instant::now()),
                            Err(error) => {
                                tracing::debug!(worker = self.name, %error, "no definitions of a worker");
                                self.shared().why = error.to_string();
                            }
                        }
                    }
                }
                Err(error) => self.unhealthy(&error, pool),
            }
            self.shared().tried = true;
            self.stop_strays().await;
            let pause = match self.shared().reach {
                Reach::Up | Reach::TooOld => LOOK.0,
                Reach::Never | Reach::Down => LOOK.1,
            };
            // Somebody may know more.
            let _ = timeout(pause, self.look.notified()).await;
        }
    }

    /// How long an answer to the question for its health may take: no longer than until it counts as unreachable.
    fn patience(&self) -> Duration {
        let left = UNREACHABLE_AFTER.saturating_sub(self.silent_for());
        match self.answers() {
            // A question that was put late has its time all the same.
            true => left.max(LOOK.1),
            false => UNREACHABLE_AFTER,
        }
    }

    async fn read_definitions(&self, pool: &Pool) -> Result<(), WorkerError> {
        let version = self.client.version().await?;
        if !takes_prompt_ids(&version) || self.shared().names_prompts {
            let mut shared = self.shared();
            let is_new = shared.reach != Reach::TooOld;
            shared.too_old();
            if is_new {
                tracing::warn!(
                    worker = self.name,
                    version,
                    why = shared.why,
                    "a worker cannot be used"
                );
                drop(shared);
                pool.changed();
            }
            return Ok(());
        }
        let answer = self.client.object_info().await?;
        let definitions = Definitions::read(&version, answer)
            .map_err(|_| WorkerError::Garbage("/object_info"))?;
        let definitions = pool.once(definitions);
        // Its classes come first: a submission that found the worker without them would be refused for good.
        let was = pool.merge_with(Some((self, &definitions)), || {
            let mut shared = self.shared();
            shared.definitions = Some(Arc::clone(&definitions));
            if shared.reach != Reach::Up {
                shared.since = Timestamp::now();
            }
            std::mem::replace(&mut shared.reach, Reach::Up)
        });
        if was != Reach::Up {
            tracing::info!(
                worker = self.name,
                version,
                classes = definitions.len(),
                "a worker is ready"
            );
        }
        pool.definitions_changed(self, &definitions);
        Ok(())
    }

    /// A worker that refuses connections is away at once; one that does not answer in time is given two seconds.
    fn unhealthy(&self, error: &WorkerError, pool: &Pool) {
        let mut shared = self.shared();
        let is_gone = matches!(error, WorkerError::Unsent(_)) && !shared.connected;
        let is_silent = shared.alive_at.elapsed() >= UNREACHABLE_AFTER;
        let was_there = matches!(shared.reach, Reach::Up | Reach::TooOld);
        if shared.reach != Reach::TooOld {
            shared.why = error.to_string();
        }
        if was_there && (is_gone || is_silent) {
            shared.reach = Reach::Down;
            // It may be another version when it comes back.
            shared.names_prompts = false;
            shared.why = error.to_string();
            shared.since = Timestamp::now();
            drop(shared);
            tracing::warn!(worker = self.name, %error, "a worker is unreachable");
            pool.changed();
        }
    }

    /// Deletes or interrupts prompts of ours that turned up after they were given up.
    async fn stop_strays(&self) {
        let strays: Vec<String> = {
            let mut shared = self.shared();
            let now = Instant::now();
            shared.strays.retain(|(_, until)| *until > now);
            shared.strays.iter().map(|(id, _)| id.clone()).collect()
        };
        if strays.is_empty() || !self.answers() {
            return;
        }
        for stray in strays {
            if let Err(error) = self.stop_prompt(&stray).await {
                tracing::debug!(worker = self.name, %error, "a prompt could not be stopped yet");
                return;
            }
        }
    }

    /// Asks the worker to stop one prompt, and no other: what waits is deleted, and what runs is interrupted. Answers where the
    /// prompt stood before.
    pub(crate) async fn stop_prompt(&self, prompt: &str) -> Result<InQueue, WorkerError> {
        let queue = self.client.queue().await?;
        let place = queue.place(prompt);
        if place != InQueue::Absent && self.cancels_by_id() {
            match self.client.cancel(prompt).await {
                // What stands in front of the worker may pass older routes only.
                Err(WorkerError::Status {
                    status: 404 | 405, ..
                }) => {}
                canceled => return canceled.map(|()| place),
            }
        }
        match place {
            InQueue::Pending => self.client.delete(prompt).await?,
            // An older version interrupts whatever runs by then: nothing else may be about to run.
            InQueue::Running if self.interrupts_by_id() || queue.pending.is_empty() => {
                self.client.interrupt(prompt).await?;
            }
            InQueue::Running | InQueue::Absent => {}
        }
        Ok(place)
    }
}

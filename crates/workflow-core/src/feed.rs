//! The port that tells what changed, and its in-process form.
//!
//! A follower sees the newest snapshot and nothing older: it holds no queue, so a slow reader costs nothing. Nothing is told
//! before it is saved; the rows stay the truth.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Notify, watch};

use crate::{Job, JobId, JobStatus, NodeId, Progress};

/// What changed of a job.
#[derive(Clone, Debug)]
pub enum JobChange {
    /// It was saved: a new status, a new output, or both.
    Saved(Arc<Job>),
    /// It got on; told often, kept lazily.
    Progress(Progress),
    /// There is something to look at.
    Preview(Preview),
}

/// A small picture of what a node is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The node.
    pub node_id: NodeId,
    /// The picture's media type.
    pub content_type: &'static str,
    /// The picture.
    pub bytes: Bytes,
}

/// All that is known of a live job, newest of each.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The job as last saved, once it was saved since somebody looked.
    pub job: Option<Arc<Job>>,
    /// The statuses it went through since then, in order; a job has few.
    pub statuses: Vec<JobStatus>,
    /// The latest snapshot of its run.
    pub progress: Option<Progress>,
    /// The latest picture of its run.
    pub preview: Option<Arc<Preview>>,
}

/// Follows one job.
#[derive(Clone, Debug)]
pub struct Follower {
    receiver: watch::Receiver<Live>,
}

/// Tells what happens to jobs.
///
/// **Contract.** `publish` never blocks and is called only after the store has what it tells. A follower created before a
/// change sees it or a later one; where replicas share a store, a change made by another one may come late but comes.
#[async_trait]
pub trait JobFeed: Send + Sync + 'static {
    /// Tells a change.
    fn publish(&self, id: JobId, change: JobChange);

    /// Follows a job from now on.
    fn follow(&self, id: JobId) -> Follower;

    /// The latest snapshot of a run that is under way, if this process knows it.
    fn progress(&self, id: JobId) -> Option<Progress>;

    /// Says that a job may be waiting to be claimed.
    fn ring(&self);

    /// Completes when [`JobFeed::ring`] was called since the last call returned; one caller per ring. A hint only: whoever
    /// waits here looks again after a while in any case.
    async fn rung(&self);
}

/// The feed of one process.
#[derive(Debug, Default)]
pub struct Hub {
    jobs: Mutex<HashMap<JobId, watch::Sender<Live>>>,
    bell: Notify,
}

impl Follower {
    /// The newest snapshot, marked as seen.
    pub fn latest(&mut self) -> Live {
        self.receiver.borrow_and_update().clone()
    }

    /// Completes when there is a newer snapshot than the one last seen. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The job is over and its sender gone: nothing will ever change again.
            std::future::pending::<()>().await;
        }
    }
}

impl Hub {
    /// A feed nobody follows yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, watch::Sender<Live>>> {
        // Every change is one insert or remove: a panic elsewhere cannot have left the map half-changed.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl JobFeed for Hub {
    fn publish(&self, id: JobId, change: JobChange) {
        let mut jobs = self.jobs();
        let over = matches!(&change, JobChange::Saved(job) if job.status.is_terminal());
        let sender = jobs
            .entry(id)
            .or_insert_with(|| watch::Sender::new(Live::default()));
        sender.send_modify(|live| live.take(change));
        if over {
            // Followers keep what they hold of the channel; whoever comes later reads the row.
            jobs.remove(&id);
        }
    }

    fn follow(&self, id: JobId) -> Follower {
        let mut jobs = self.jobs();
        // Followers of jobs that ended before they came are the only entries nobody removes by publishing.
        if jobs.len() > SWEEP_ABOVE && jobs.len().is_power_of_two() {
            jobs.retain(|_, sender| sender.receiver_count() > 0 || sender.borrow().job.is_some());
        }
        let sender = jobs
            .entry(id)
            .or_insert_with(|| watch::Sender::new(Live::default()));
        Follower {
            receiver: sender.subscribe(),
        }
    }

    fn progress(&self, id: JobId) -> Option<Progress> {
        self.jobs()
            .get(&id)
            .and_then(|sender| sender.borrow().progress.clone())
    }

    fn ring(&self) {
        self.bell.notify_one();
    }

    async fn rung(&self) {
        self.bell.notified().await;
    }
}

/// Entries from which on abandoned ones are looked for.
const SWEEP_ABOVE: usize = 1023;

impl Live {
    fn take(&mut self, change: JobChange) {
        match change {
            JobChange::Saved(job) => {
                // Two savers may publish in the other order: the newer revision stays.
                if self
                    .job
                    .as_ref()
                    .is_some_and(|known| known.revision >= job.revision)
                {
                    return;
                }
                if self.statuses.last() != Some(&job.status) {
                    self.statuses.push(job.status);
                }
                self.job = Some(job);
            }
            JobChange::Progress(progress) => self.progress = Some(progress),
            JobChange::Preview(preview) => self.preview = Some(Arc::new(preview)),
        }
    }
}

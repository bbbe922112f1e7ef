//! Bringing in what other replicas changed.
//!
//! A change that another replica saved is only a hint to read the row, and only the rows of jobs that somebody here follows are
//! read. So a replica that missed changes loses nothing: it reads those rows again. What runs elsewhere report is passed on while
//! the job is known to run.

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use tokio_util::sync::CancellationToken;

use super::{Hub, Topics, age};
use crate::{
    Change, ChangeKind, ChangeNumber, ChangesSince, Job, JobChange, JobId, JobPorts, JobStatus,
    Progress, StoreError,
};

/// Pauses between attempts at reading changes that failed: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

impl Hub {
    /// Brings in what other replicas change until `stop` fires: one call in a process, for the hub of `ports`.
    pub async fn follow_replicas(&self, ports: &JobPorts, stop: &CancellationToken) {
        let (mut after, mut pause) = (None, RETRY.0);
        loop {
            let followed = tokio::select! {
                followed = self.follow_once(ports, after) => followed,
                () = stop.cancelled() => return,
            };
            match followed {
                Ok(next) => {
                    (after, pause) = (Some(next), RETRY.0);
                    self.follows.send_replace(true);
                }
                Err(error) => {
                    tracing::warn!(error = %error, "reading what other replicas changed failed; trying again");
                    tokio::select! {
                        () = ports.timer.sleep(pause) => {}
                        () = stop.cancelled() => return,
                    }
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
    }

    /// Waits until [`Hub::follow_replicas`] brings in changes. Whoever follows an account before that is told of its runs once
    /// more when it begins. Cancel-safe.
    pub async fn follows_replicas(&self) {
        let mut follows = self.follows.subscribe();
        // The sender lives as long as this.
        let _ = follows.wait_for(|follows| *follows).await;
    }

    /// Brings in the next changes behind `after`; the position behind them.
    pub(super) async fn follow_once(
        &self,
        ports: &JobPorts,
        after: Option<ChangeNumber>,
    ) -> Result<ChangeNumber, StoreError> {
        match self.changes.since(after).await? {
            ChangesSince::Changes(changes, next) => {
                for change in changes {
                    self.bring_in(ports, change).await?;
                }
                Ok(next)
            }
            ChangesSince::Missed(next) => {
                self.read_again(ports).await?;
                Ok(next)
            }
        }
    }

    async fn bring_in(&self, ports: &JobPorts, change: Change) -> Result<(), StoreError> {
        let Change { job, account, kind } = change;
        match kind {
            ChangeKind::Saved { revision, status } => {
                if status.is_terminal() {
                    ports.secrets.forget(job);
                }
                if self.topics().wants(job, &account, age(status, revision)) {
                    let told = Some((status, revision));
                    self.read_row(ports, &account, job, told).await?;
                }
                if status == JobStatus::Queued || status.is_terminal() {
                    // It may be claimed, or its account may have room for another one.
                    self.ring();
                }
            }
            ChangeKind::Reported(report) => {
                let mut topics = self.topics();
                if topics.runs(job) {
                    topics.publish(job, report.into());
                }
            }
        }
        Ok(())
    }

    /// Reads the rows of all jobs that somebody here follows, and has followers of accounts begin with another snapshot.
    async fn read_again(&self, ports: &JobPorts) -> Result<(), StoreError> {
        let known: Vec<(JobId, AccountId)> = {
            let topics = self.topics();
            let jobs = topics.jobs.iter();
            let known = jobs.filter_map(|(id, topic)| Some((*id, topic.account.clone()?)));
            known.collect()
        };
        for (id, account) in known {
            self.read_row(ports, &account, id, None).await?;
        }
        for (job, account) in ports.secrets.jobs() {
            let found = ports.store.load(&account, job, ports.timer.now()).await?;
            if found.is_some_and(|job| job.status.is_terminal()) {
                ports.secrets.forget(job);
            }
        }
        for ring in self.topics().accounts.values() {
            ring.start_over();
        }
        self.ring();
        Ok(())
    }

    /// Reads the row of a job of which a change with this status and revision is told. If the row is past the end of the job, the
    /// job is published as it was: what its run reported comes next, and then the change of its end.
    async fn read_row(
        &self,
        ports: &JobPorts,
        account: &AccountId,
        id: JobId,
        told: Option<(JobStatus, u64)>,
    ) -> Result<(), StoreError> {
        // Followed before it is read: if the job ends here meanwhile, that takes its topic away, and the row is old.
        let follower = self.follow(account, id);
        let row = ports.store.load(account, id, ports.timer.now()).await?;
        let mut topics = self.topics();
        match row {
            Some(job) => match told {
                Some((status, revision)) if job.status.is_terminal() && !status.is_terminal() => {
                    let known = topics.latest(id);
                    if topics.ended_here.contains(id) {
                        // Its end was told, and is no change to come.
                        topics.forget_unread(id);
                    } else if known.as_ref().is_none_or(|known| known.status != status) {
                        let outputs = known.map(|known| known.outputs.clone());
                        let before = Job {
                            outputs: outputs.unwrap_or_default(),
                            ..before_its_end(&job, status, revision)
                        };
                        topics.publish_row(Arc::new(before));
                    }
                }
                Some(_) | None => topics.publish_row(job),
            },
            // It is over and past its time.
            None => topics.forget_unread(id),
        }
        drop(follower);
        Ok(())
    }
}

/// A job that is over as it was at an earlier revision, as far as its row tells: without its outputs, which come with its end.
fn before_its_end(job: &Job, status: JobStatus, revision: u64) -> Job {
    Job {
        revision,
        status,
        updated_at: job.started_at.unwrap_or(job.created_at),
        completed_at: None,
        progress: Progress::start(job.progress.nodes_total),
        outputs: Vec::new(),
        error: None,
        ..job.clone()
    }
}

impl Topics {
    /// Whether somebody here follows a job, or its account, and has not seen a state of this [`age`].
    fn wants(&self, id: JobId, account: &AccountId, told: (bool, u64)) -> bool {
        match self.jobs.get(&id) {
            Some(topic) => {
                let live = topic.live.borrow();
                let known = live.job.as_ref();
                known.is_none_or(|job| age(job.status, job.revision) < told)
            }
            None => self
                .accounts
                .get(account)
                .is_some_and(|ring| ring.is_followed()),
        }
    }

    /// A job as it was published last.
    fn latest(&self, id: JobId) -> Option<Arc<Job>> {
        let live = self.jobs.get(&id)?.live.borrow();
        live.job.clone()
    }

    /// Whether a job is known to run.
    fn runs(&self, id: JobId) -> bool {
        let status = self.latest(id).map(|job| job.status);
        matches!(status, Some(JobStatus::Running | JobStatus::Canceling))
    }

    /// Takes in what the row of a followed job has.
    pub(super) fn publish_row(&mut self, job: Arc<Job>) {
        if self.jobs.contains_key(&job.id) {
            self.publish(job.id, JobChange::Saved(job));
        }
    }

    /// Removes the topic of a job that has no row and was never published: it is kept if it is being inserted here.
    fn forget_unread(&mut self, id: JobId) {
        // The follower of the caller is one of the receivers.
        let is_unread = |topic: &super::Topic| {
            topic.live.receiver_count() <= 1 && topic.live.borrow().job.is_none()
        };
        if self.jobs.get(&id).is_some_and(is_unread) {
            self.jobs.remove(&id);
        }
    }
}

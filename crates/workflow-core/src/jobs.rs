//! What a caller may ask of jobs: submit, look, list, cancel, follow.

mod bell;
mod checked;
mod error;
mod explain;
mod judge;
mod replay;
mod submit;

use std::sync::Arc;

use accounts::{AccountId, Windows};
use asset_store::Assets;
use bytes::Bytes;
use indexmap::IndexMap;
use jiff::Timestamp;

use crate::blocking_pool::aside;
use crate::completion_rate::CompletionRate;
use crate::store::within;
use crate::{
    Abandoned, AccountFollower, BlockingPool, Durability, EngineName, Engines, Follower, Hub, Job,
    JobBody, JobChange, JobCursor, JobEvent, JobId, JobLog, JobQuery, JobQueue, JobStatus,
    JobStore, NodeCatalog, NodeErrors, NodeId, Progress, RunReport, SaveJob, SaveOutcome, Secrets,
    StoreError, Timer,
};

pub use error::JobsError;
pub use explain::Explanation;
pub use submit::Submission;

/// Jobs of all accounts, as callers see them.
#[derive(Clone)]
pub struct Jobs {
    ports: JobPorts,
    assets: Assets,
    config: JobsConfig,
    pace: Arc<CompletionRate>,
    /// Jobs that were taken in, by account and span of time.
    submitted: Arc<Windows>,
    /// Whether jobs may call partners without a key of their own.
    calls_partners: bool,
    /// How many jobs of an account run at once, made of what its tier says.
    room: Arc<dyn Fn(u32) -> u32 + Send + Sync>,
}

/// The ports behind jobs.
#[derive(Clone)]
pub struct JobPorts {
    /// The rows.
    pub store: Arc<dyn JobStore>,
    /// The queue.
    pub queue: Arc<dyn JobQueue>,
    /// What changed.
    pub hub: Arc<Hub>,
    /// What runs graphs.
    pub engines: Engines,
    /// Bounds what is waited for.
    pub timer: Arc<dyn Timer>,
    /// Secrets of submissions, in this process only.
    pub secrets: Secrets,
    /// Where large graphs are read and validated.
    pub threads: Arc<dyn BlockingPool>,
}

/// What an operator settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsConfig {
    /// How many jobs of all accounts may wait.
    pub queued_jobs: u32,
}

/// A job with what its row does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The job.
    pub job: Arc<Job>,
    /// The latest snapshot of its run: never behind that of the row.
    pub progress: Progress,
    /// How many jobs will be claimed before it, while it is queued: 0 is next.
    pub queue_position: Option<u64>,
}

/// A job with what lies beside it.
#[derive(Clone, Debug)]
pub struct WholeJob {
    /// The job.
    pub job: Arc<Job>,
    /// What was submitted.
    pub body: Arc<JobBody>,
    /// What its run told of its nodes, once it is over.
    pub report: Option<RunReport>,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Submitted {
    /// The job.
    pub view: JobView,
    /// Whether an earlier request with the same key made it.
    pub replayed: bool,
    /// What is wrong with the outputs that do not run, where the submission allowed that.
    pub node_errors: IndexMap<NodeId, NodeErrors>,
}

/// One page of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Where to go on, unless this is the end.
    pub next: Option<JobCursor>,
}

impl Jobs {
    /// A service over the ports.
    #[must_use]
    pub fn new(
        ports: JobPorts,
        assets: Assets,
        config: JobsConfig,
        pace: Arc<CompletionRate>,
    ) -> Self {
        Self {
            ports,
            assets,
            config,
            pace,
            submitted: Arc::new(Windows::new()),
            calls_partners: true,
            room: Arc::new(|room| room),
        }
    }

    /// The same jobs behind another base address: submissions choose among these engines, and as many jobs of an account run at
    /// once as `room` makes of what its tier says.
    #[must_use]
    pub fn at(&self, engines: Engines, room: impl Fn(u32) -> u32 + Send + Sync + 'static) -> Self {
        let ports = JobPorts {
            engines,
            ..self.ports.clone()
        };
        Self {
            ports,
            room: Arc::new(room),
            ..self.clone()
        }
    }

    fn room(&self, of_tier: u32) -> u32 {
        (self.room)(of_tier)
    }

    /// The same jobs, for callers who may not have their account pay partners: what calls one needs a key of its own.
    #[must_use]
    pub fn without_partners(&self) -> Self {
        Self {
            calls_partners: false,
            ..self.clone()
        }
    }

    /// Does work on a text of so many bytes, for code that takes and gives graphs: here while they are few, else on a thread
    /// where nobody waits for it.
    ///
    /// # Errors
    /// If the work panics, or the program stops.
    pub async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Abandoned> {
        aside(&*self.ports.threads, bytes, work).await
    }

    /// A job as it stands.
    ///
    /// # Errors
    /// [`JobsError::NotFound`] for an unknown id, another account's and an expired one alike.
    pub async fn get(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<JobView, JobsError> {
        let job = self
            .ports
            .store
            .load(account, id, now)
            .await?
            .ok_or(JobsError::NotFound)?;
        self.view(job, now).await
    }

    /// One page of jobs, newest first: each job exactly once, however many come meanwhile.
    ///
    /// # Errors
    /// If a port fails.
    pub async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<JobPage, JobsError> {
        // One more than asked for tells whether there is another page.
        let wanted = JobQuery {
            limit: query.limit + 1,
            ..query.clone()
        };
        let mut found = self.ports.store.list(&wanted, now).await?;
        let within = within(&found, query.outputs).min(query.limit);
        let more = found.len() > within;
        found.truncate(within);
        let next = found.last().filter(|_| more).map(|job| JobCursor {
            created_at: job.created_at,
            id: job.id,
        });
        let mut jobs = Vec::with_capacity(found.len());
        for job in found {
            jobs.push(self.view(job, now).await?);
        }
        Ok(JobPage { jobs, next })
    }

    /// The graph of a job, byte for byte as it was submitted.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn workflow(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Bytes, JobsError> {
        Ok(self.body(account, id, now).await?.workflow.clone())
    }

    /// What lies beside a job.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Arc<JobBody>, JobsError> {
        let body = self.ports.store.body(account, id, now).await?;
        body.ok_or(JobsError::NotFound)
    }

    /// A job with what lies beside it and what its run told of its nodes, once it is over.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn whole(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<WholeJob, JobsError> {
        let store = &self.ports.store;
        let job = store.load(account, id, now).await?;
        let job = job.ok_or(JobsError::NotFound)?;
        let log = match job.status.is_terminal() {
            true => store.log(account, id, now).await?,
            false => None,
        };
        Ok(WholeJob {
            body: self.body(account, id, now).await?,
            report: log.map(|log| log.report),
            job,
        })
    }

    /// What a job's run wrote, if it wrote anything yet. Of a run that is under way only the process knows that has it.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, JobsError> {
        let job = self.ports.store.load(account, id, now).await?;
        let job = job.ok_or(JobsError::NotFound)?;
        let live = match job.status.is_terminal() {
            true => None,
            false => self.ports.hub.log(id),
        };
        match live {
            Some(live) => Ok(Some(live)),
            None => Ok(self.ports.store.log(account, id, now).await?),
        }
    }

    /// Asks a job to stop. A queued one is canceled at once, a running one soon, a finished one stays as it is.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn cancel(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<JobView, JobsError> {
        loop {
            let before = self
                .ports
                .store
                .load(account, id, now)
                .await?
                .ok_or(JobsError::NotFound)?;
            let mut job = Job::clone(&before);
            job.apply(JobEvent::CancelRequested, now)
                .map_err(|_| JobsError::NotFound)?;
            if job.status == before.status {
                return self.view(before, now).await;
            }
            let save = SaveJob {
                job,
                outputs: Vec::new(),
                log: None,
                durability: Durability::Now,
                reports: Vec::new(),
            };
            if let SaveOutcome::Saved(job) = self.ports.store.save(save).await? {
                if job.status.is_terminal() {
                    self.ports.secrets.forget(id);
                }
                self.ports.hub.publish(id, JobChange::Saved(job.clone()));
                return self.view(job, now).await;
            }
        }
    }

    /// A job as it stands, and a follower that sees every change after that.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn follow(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<(JobView, Follower), JobsError> {
        // In this order: what is saved between the two is told twice rather than never.
        self.ports
            .store
            .load(account, id, now)
            .await?
            .ok_or(JobsError::NotFound)?;
        let follower = self.ports.hub.follow(account, id);
        Ok((self.get(account, id, now).await?, follower))
    }

    /// Everything that happens to the account's jobs from now on. Take the snapshot it begins with before looking at rows.
    #[must_use]
    pub fn follow_account(&self, account: &AccountId) -> AccountFollower {
        self.ports.hub.follow_account(account)
    }

    /// The jobs of an account that are not over, oldest first: as many as it may have.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn in_flight(
        &self,
        account: &AccountId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, JobsError> {
        let query = JobQuery {
            account: account.clone(),
            labels: Vec::new(),
            over: Some(false),
            statuses: Vec::new(),
            after: None,
            limit: usize::try_from(self.config.queued_jobs)
                .unwrap_or(usize::MAX)
                .saturating_mul(2),
            // They are in memory for every caller.
            outputs: usize::MAX,
        };
        let mut jobs = self.ports.store.list(&query, now).await?;
        jobs.reverse();
        Ok(jobs)
    }

    /// The classes that can run now.
    #[must_use]
    pub fn nodes(&self) -> NodeCatalog {
        self.ports.engines.nodes()
    }

    /// The classes among them that the engine of this process runs.
    #[must_use]
    pub fn native_nodes(&self) -> NodeCatalog {
        let native = self.ports.engines.get(&EngineName::NATIVE.into());
        native.map(|native| native.nodes()).unwrap_or_default()
    }

    /// Deletes jobs that are past their time; answers how many.
    ///
    /// # Errors
    /// If the store fails; the next sweep goes on.
    pub async fn sweep(&self, now: Timestamp) -> Result<usize, JobsError> {
        const STEP: usize = 500;
        let mut swept = 0;
        loop {
            let gone = self.ports.store.expire(now, STEP).await?;
            swept += gone;
            if gone < STEP {
                return Ok(swept);
            }
        }
    }

    async fn position(&self, job: &Job) -> Result<Option<u64>, StoreError> {
        match job.status {
            JobStatus::Queued => self.ports.queue.position(&job.account, job.id).await,
            JobStatus::Running
            | JobStatus::Canceling
            | JobStatus::Succeeded
            | JobStatus::Canceled
            | JobStatus::Failed
            | JobStatus::Expired => Ok(None),
        }
    }

    async fn view(&self, mut job: Arc<Job>, now: Timestamp) -> Result<JobView, JobsError> {
        let mut queue_position = self.position(&job).await?;
        if job.status == JobStatus::Queued && queue_position.is_none() {
            // It left the queue between the two looks: it is told as it is after that.
            let newer = self.ports.store.load(&job.account, job.id, now).await?;
            if let Some(newer) = newer {
                queue_position = self.position(&newer).await?;
                job = newer;
            }
        }
        let live = if job.status.is_terminal() {
            None
        } else {
            self.ports.hub.progress(job.id)
        };
        let progress = match live {
            Some(live) if live.value >= job.progress.value => live,
            Some(_) | None => job.progress.clone(),
        };
        Ok(JobView {
            job,
            progress,
            queue_position,
        })
    }
}

impl std::fmt::Debug for JobPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobPorts").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

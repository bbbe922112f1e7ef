//! The port to the queue: who runs what, and for how long they may go on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Epoch, Job, JobBody, JobEvent, JobId, JobStatus, RequirementId, RequirementSet, StoreError,
    WorkerId,
};

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// The requirement sets that it can run now. Jobs with other ones are left for others.
    pub sets: HashSet<RequirementId>,
    /// How much room accounts have besides what their jobs say.
    pub rooms: Rooms,
    /// How long the claim counts without being renewed.
    pub lease: Duration,
}

/// What a worker knows of the room of accounts: corrections to [`crate::Placement::account_room`]. Accounts that are not named
/// need none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    /// The worker's runs that merely wait for a partner, by account. Other workers count them as running.
    pub waiting: HashMap<AccountId, u32>,
    /// Accounts whose runs compute in as many of the worker's slots as one account may have, whatever room they have: the rest is
    /// for others.
    pub full: HashSet<AccountId>,
}

/// How many jobs of an account may merely wait for a partner before they take its room, so that it leaves some to others.
const MOST_WAITING: u32 = 32;

impl Rooms {
    /// Whether another job of an account may run that has so many jobs running in the whole installation, and may have
    /// `account_room` of them.
    #[must_use]
    pub fn allow(&self, account: &AccountId, running: u32, account_room: u32) -> bool {
        let waiting = self.waiting.get(account).copied().unwrap_or(0);
        running.saturating_sub(waiting.min(MOST_WAITING)) < account_room
            && !self.full.contains(account)
    }
}

/// What waits to be claimed.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The requirement sets of queued jobs, each once.
    pub sets: Arc<[RequirementSet]>,
    /// The workers whose last renewal still counts.
    pub workers: Arc<HashSet<WorkerId>>,
}

/// Jobs of some requirement sets that wait, and that their accounts have room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingJobs {
    /// How many; a store may count no further than 10,000.
    pub jobs: u64,
    /// When the oldest of them was submitted.
    pub oldest: Option<Timestamp>,
}

/// Until when each worker counts as present. For stores that keep this in memory.
#[derive(Debug, Default)]
pub struct PresentWorkers(HashMap<WorkerId, Timestamp>);

impl PresentWorkers {
    /// Takes note that a worker counts until then; an earlier promise that reaches further stands.
    pub fn note(&mut self, worker: WorkerId, until: Timestamp) {
        let counts = self.0.entry(worker).or_insert(until);
        *counts = (*counts).max(until);
    }

    /// The workers that count now; the others are forgotten.
    pub fn now(&mut self, now: Timestamp) -> HashSet<WorkerId> {
        self.0.retain(|_, until| *until > now);
        self.0.keys().copied().collect()
    }
}

/// A job that was claimed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The job, running; its `epoch` is the claim's fence.
    pub job: Arc<Job>,
    /// What lies beside it.
    pub body: Arc<JobBody>,
}

/// What a worker learns of a claim when it renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseNews {
    /// Go on.
    Renewed,
    /// Go on, but the job is to be stopped.
    CancelWanted,
    /// The claim does not count any more: whatever the run still does is refused.
    Lost,
}

impl LeaseNews {
    /// What a worker learns of its claim of a job; `None` if there is no such job.
    #[must_use]
    pub fn of(job: Option<&Job>, worker: WorkerId, epoch: Epoch) -> Self {
        match job.filter(|job| job.is_claimed_by(worker, epoch)) {
            Some(job) if job.status == JobStatus::Canceling => Self::CancelWanted,
            Some(_) => Self::Renewed,
            None => Self::Lost,
        }
    }
}

/// What the passing of time does to a job, if anything: its claim lapsed at `lease_until`, or it still waits and was submitted
/// before `queued_before`.
#[must_use]
pub fn overdue(
    job: &Job,
    lease_until: Timestamp,
    queued_before: Timestamp,
    now: Timestamp,
) -> Option<JobEvent> {
    let epoch = job.epoch;
    match job.status {
        JobStatus::Queued => {
            (job.created_at < queued_before).then_some(JobEvent::TimedOut { epoch })
        }
        JobStatus::Running | JobStatus::Canceling => {
            (lease_until <= now).then_some(JobEvent::LeaseLost { epoch })
        }
        JobStatus::Succeeded | JobStatus::Canceled | JobStatus::Failed | JobStatus::Expired => None,
    }
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Queued jobs of all accounts.
    pub queued: u64,
    /// Jobs that a worker has.
    pub running: u64,
}

/// The jobs that wait, and the claims on those that run.
///
/// **Contract.** Holds for any number of replicas over one store. First in, first out within an account among the jobs whose
/// requirement set the claim names; accounts take turns by [`crate::turn`], over what the store has and no process's memory; an
/// account that has no room ([`crate::Placement::account_room`], [`Rooms::allow`]) is passed over. Requirement sets are never
/// interpreted. Transitions are those of [`Job::apply`]. A job has one claim that counts, and every claim has the next epoch; a
/// claim need not be on disk, since losing it only means claiming again. A claim that was lost and the one that follows have one
/// epoch, so it takes the worker as well to tell which of them counts.
#[async_trait]
pub trait JobQueue: Send + Sync + 'static {
    /// What waits, and which workers are there.
    async fn demand(&self, now: Timestamp) -> Result<Demand, StoreError>;

    /// Takes the next job whose requirement set the worker named.
    async fn claim(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claim>, StoreError>;

    /// Renews claims; answers for each of them, in order. The worker counts as present ([`Demand::workers`]) until the lease is
    /// over, also without any claim.
    async fn renew(
        &self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<LeaseNews>, StoreError>;

    /// Lets what is [`overdue`] happen: jobs go on whose claim lapsed, and those end that waited since before `queued_before`.
    /// Answers the jobs that changed, each to one caller.
    async fn reap(
        &self,
        queued_before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError>;

    /// How many jobs will be claimed before this one, if no others come: 0 is next. `None` when it is not queued.
    async fn position(&self, account: &AccountId, id: JobId) -> Result<Option<u64>, StoreError>;

    /// The jobs that wait with one of these requirement sets, and that could run now as far as their accounts are concerned.
    async fn waiting(&self, sets: &HashSet<RequirementId>) -> Result<WaitingJobs, StoreError>;

    /// How much waits and runs.
    async fn depth(&self) -> Result<QueueDepth, StoreError>;
}

//! The port to the queue: who runs what, and for how long they may go on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Epoch, Job, JobBody, JobId, NodeCatalog, StoreError, WorkerId};

/// What a worker can run.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// The classes it has. A job that needs another one is left for others.
    pub classes: NodeCatalog,
    /// How long the claim counts without being renewed.
    pub lease: Duration,
    /// The worker's runs that merely wait for somebody else, by account.
    pub waiting: HashMap<AccountId, u32>,
    /// Accounts whose runs compute in as many of the worker's slots as one account may have, whatever room they have: others
    /// are to find a slot.
    pub full: HashSet<AccountId>,
}

/// How many jobs of an account may merely wait for somebody else before they take its room, so that it leaves some to others.
const MOST_WAITING: u32 = 32;

impl ClaimRequest {
    /// Whether another job of an account may run that has so many jobs running and room for so many.
    #[must_use]
    pub fn has_room(&self, account: &AccountId, running: u32, account_room: u32) -> bool {
        let waiting = self.waiting.get(account).copied().unwrap_or(0);
        running.saturating_sub(waiting.min(MOST_WAITING)) < account_room
            && !self.full.contains(account)
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
/// **Contract.** First in, first out within an account; accounts take turns, and one that has no room
/// ([`crate::Placement::account_room`], [`ClaimRequest::has_room`]) is passed over. Transitions are those of [`Job::apply`]. A job has one claim that
/// counts; a claim need not be on disk, since losing it only means claiming again.
#[async_trait]
pub trait JobQueue: Send + Sync + 'static {
    /// Takes the next job that the worker can run.
    async fn claim(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claim>, StoreError>;

    /// Renews claims; answers for each of them, in order.
    async fn renew(
        &self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<LeaseNews>, StoreError>;

    /// Lets jobs go on whose claim lapsed ([`crate::JobEvent::LeaseLost`]) and ends those that waited since before
    /// `queued_before` ([`crate::JobEvent::TimedOut`]); answers the jobs that changed.
    async fn reap(
        &self,
        queued_before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError>;

    /// How many jobs will be claimed before this one, if no others come: 0 is next. `None` when it is not queued.
    async fn position(&self, account: &AccountId, id: JobId) -> Result<Option<u64>, StoreError>;

    /// How much waits and runs.
    async fn depth(&self) -> Result<QueueDepth, StoreError>;
}

//! What changed, for everybody in this process who follows a job or an account.
//!
//! A follower of one job sees the newest snapshot and nothing older: it holds no queue, so a slow reader costs nothing. A
//! follower of an account sees everything in order, from a ring of bounded size. Nothing is published before it is saved; the
//! rows stay the truth.
//!
//! Each replica has a hub. The services and the worker of the replica publish to it; [`Hub::follow_replicas`] brings in what
//! other replicas changed.

mod account;
mod recent;
mod replicas;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use accounts::AccountId;
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{Changes, Job, JobId, JobLog, JobStatus, NodeEvent, NodeId, OneReplica, Progress};

use account::AccountRing;
pub use account::{AccountEvent, AccountFollower, AccountNews, AccountTold};
use recent::RecentJobs;

/// What changed of a job.
#[derive(Clone, Debug)]
pub enum JobChange {
    /// It was saved: a new status, a new output, or both.
    Saved(Arc<Job>),
    /// It got on; published often, kept lazily.
    Progress(Progress),
    /// There is something to look at.
    Preview(Preview),
    /// Its run published something of a node; for those who follow the account.
    Node(NodeEvent),
    /// Its run was stopped before this node; for those who follow the account.
    StoppedAt(NodeId),
    /// A node wrote a line; for those who follow the account.
    Text {
        /// The node.
        node: NodeId,
        /// The line.
        line: String,
    },
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
    /// The job as last saved, once it was saved since a follower looked.
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
/// Publishing never blocks, and is done only after the store has what is published. A follower created before a change sees it
/// or a later one; a change that another replica made may come late but comes. A follower of an account sees every change from
/// its first snapshot on, in order, unless it falls so far behind that it gets another snapshot.
pub struct Hub {
    topics: Mutex<Topics>,
    bell: Notify,
    changes: Arc<dyn Changes>,
    on_end: Option<OnEnd>,
    /// Whether changes of other replicas are brought in.
    follows: watch::Sender<bool>,
}

/// Called with each job that this replica ends.
type OnEnd = Box<dyn Fn(&Job) + Send + Sync>;

/// What is published, behind one lock, so that all followers hear things in one order.
#[derive(Default)]
struct Topics {
    jobs: HashMap<JobId, Topic>,
    accounts: HashMap<AccountId, Arc<AccountRing>>,
    /// Jobs that this replica ended: what others tell of them late is over.
    ended_here: RecentJobs,
}

/// What is published of one job.
#[derive(Default)]
struct Topic {
    /// Whose it is, once that was told.
    account: Option<AccountId>,
    live: watch::Sender<Live>,
    /// Whether its submission is still to be answered, and may be refused by the worker that takes the job.
    is_answerable: bool,
    /// What stops its run in this process.
    run: Option<CancellationToken>,
    /// What takes down what that run wrote so far.
    log: Option<TakeLog>,
}

/// Gives the log of a run that is under way; `None` once it is not, or while it has written nothing.
type TakeLog = Arc<dyn Fn() -> Option<JobLog> + Send + Sync>;

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
    /// A hub that nobody follows yet, of a store that no other replica has.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Arc::new(OneReplica))
    }

    /// A hub that nobody follows yet, of one replica among those that share a store.
    #[must_use]
    pub fn over(changes: Arc<dyn Changes>) -> Self {
        Self {
            topics: Mutex::default(),
            bell: Notify::new(),
            changes,
            on_end: None,
            follows: watch::Sender::new(false),
        }
    }

    /// The same hub, which calls `on_end` with each job that this replica ends: one that another replica ended is not among
    /// them, so the replicas together count each end once. It must not block.
    #[must_use]
    pub fn on_end(self, on_end: impl Fn(&Job) + Send + Sync + 'static) -> Self {
        Self {
            on_end: Some(Box::new(on_end)),
            ..self
        }
    }

    /// Tells a change that this replica made.
    pub fn publish(&self, id: JobId, change: JobChange) {
        let ended = match &change {
            JobChange::Saved(job) => Some(job).filter(|job| job.status.is_terminal()),
            JobChange::Progress(_)
            | JobChange::Preview(_)
            | JobChange::Node(_)
            | JobChange::StoppedAt(_)
            | JobChange::Text { .. } => None,
        };
        if let (Some(job), Some(on_end)) = (ended, &self.on_end) {
            on_end(job);
        }
        let mut topics = self.topics();
        if ended.is_some() {
            topics.ended_here.push(id);
        }
        let is_report = !matches!(change, JobChange::Saved(_));
        if is_report && let Some(account) = topics.account_of(id) {
            // With the lock held, so that other replicas hear reports in the order in which followers here do.
            self.changes.publish(id, account, &change);
        }
        topics.publish(id, change);
    }

    /// Tells a change that this replica made and that other replicas hear of with the save it came with.
    pub(crate) fn publish_here(&self, id: JobId, change: JobChange) {
        self.topics().publish(id, change);
    }

    /// Follows a job of an account from now on.
    #[must_use]
    pub fn follow(&self, account: &AccountId, id: JobId) -> Follower {
        let jobs = &mut self.topics().jobs;
        // Followers of jobs that ended before they came are the only entries nobody removes by publishing.
        if jobs.len() > SWEEP_ABOVE && jobs.len().is_power_of_two() {
            jobs.retain(|_, topic| {
                topic.live.receiver_count() > 0 || topic.live.borrow().job.is_some()
            });
        }
        let topic = jobs.entry(id).or_default();
        topic.account.get_or_insert_with(|| account.clone());
        Follower {
            receiver: topic.live.subscribe(),
        }
    }

    /// Fires `run` once a job, whose claim was published, is to be canceled; at once if it is already. A later run of the job takes
    /// the place of an earlier one. Unlike a follower, a run is not woken by its own reports.
    pub(crate) fn stop_if_canceled(&self, id: JobId, run: &CancellationToken) {
        let mut topics = self.topics();
        // Without one it is over already.
        let Some(topic) = topics.jobs.get_mut(&id) else {
            return;
        };
        topic.run = Some(run.clone());
        if topic.live.borrow().job.as_deref().is_some_and(is_to_stop) {
            run.cancel();
        }
    }

    /// Has the log of a run that is under way taken so, as long as the job, whose claim was published, is not over. It must not
    /// block.
    pub(crate) fn offer_log(
        &self,
        id: JobId,
        log: impl Fn() -> Option<JobLog> + Send + Sync + 'static,
    ) {
        if let Some(topic) = self.topics().jobs.get_mut(&id) {
            topic.log = Some(Arc::new(log));
        }
    }

    /// What the run of a job wrote so far, if it is under way in this process.
    pub(crate) fn log(&self, id: JobId) -> Option<JobLog> {
        let log = self.topics().jobs.get(&id)?.log.clone()?;
        log()
    }

    /// Says that the submission of a job that is followed waits for the verdict of the worker that takes it.
    pub(crate) fn await_verdict(&self, id: JobId) {
        if let Some(topic) = self.topics().jobs.get_mut(&id) {
            topic.is_answerable = true;
        }
    }

    /// Takes the wait for a verdict; whether somebody waited. Of those who end it, one hears `true`: the run that is refused, which
    /// keeps nothing of the job then, or the submission, which is answered.
    pub(crate) fn take_verdict(&self, id: JobId) -> bool {
        let mut topics = self.topics();
        let topic = topics.jobs.get_mut(&id);
        topic.is_some_and(|topic| std::mem::take(&mut topic.is_answerable))
    }

    /// Follows all jobs of an account from now on.
    #[must_use]
    pub fn follow_account(&self, account: &AccountId) -> AccountFollower {
        let accounts = &mut self.topics().accounts;
        if accounts.len() > SWEEP_ABOVE && accounts.len().is_power_of_two() {
            accounts.retain(|_, ring| !ring.is_idle());
        }
        let ring = accounts
            .entry(account.clone())
            .or_insert_with(|| Arc::new(AccountRing::new()));
        ring.follow()
    }

    /// Shows a finished picture of a run to everybody here who follows the job's account, and completes when the last of them
    /// has taken it or gone; at once if nobody follows. To followers of the job it is a preview.
    ///
    /// `false` if nobody here follows the job or its account, and somebody may at another replica, which gets no pictures.
    pub async fn frame(&self, id: JobId, picture: Preview) -> bool {
        let pushed = {
            let mut topics = self.topics();
            if !topics.is_followed(id) && self.changes.has_others() {
                return false;
            }
            topics.publish_live(id, JobChange::Preview(picture.clone()));
            let ring = topics.ring_of(id);
            ring.map(|ring| {
                let number = ring.push(id, AccountEvent::Frame(picture));
                (ring, number)
            })
        };
        if let Some((ring, number)) = pushed {
            ring.taken(number).await;
        }
        true
    }

    /// The latest snapshot of a run that is under way, if this replica knows it.
    #[must_use]
    pub fn progress(&self, id: JobId) -> Option<Progress> {
        let topics = self.topics();
        let live = topics.jobs.get(&id)?.live.borrow();
        live.progress.clone()
    }

    /// Says that a job may be waiting to be claimed.
    pub fn ring(&self) {
        self.bell.notify_one();
    }

    /// Completes when [`Hub::ring`] was called since the last call returned; one caller per ring. A hint only: whoever
    /// waits here looks again after a while in any case.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    fn topics(&self) -> std::sync::MutexGuard<'_, Topics> {
        // Every change is one insert or remove: a panic elsewhere cannot have left the maps half-changed.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

/// Entries from which on abandoned ones are looked for.
const SWEEP_ABOVE: usize = 1023;

impl Topics {
    fn publish(&mut self, id: JobId, change: JobChange) {
        let event = match &change {
            JobChange::Saved(job) => {
                // A new job published after it was over already: its end was the last word.
                let is_late = job.status == JobStatus::Queued && !self.jobs.contains_key(&id);
                if is_late || self.knows_newer(job) {
                    return;
                }
                Some(AccountEvent::Saved(Arc::clone(job)))
            }
            JobChange::Progress(_) => None,
            JobChange::Preview(preview) => Some(AccountEvent::Preview(preview.clone())),
            JobChange::Node(event) => Some(AccountEvent::Node(event.clone())),
            JobChange::StoppedAt(node) => Some(AccountEvent::StoppedAt(node.clone())),
            JobChange::Text { node, line } => Some(AccountEvent::Text {
                node: node.clone(),
                line: line.clone(),
            }),
        };
        let over = match &change {
            JobChange::Saved(job) => job.status.is_terminal().then(|| job.account.clone()),
            JobChange::Progress(_)
            | JobChange::Preview(_)
            | JobChange::Node(_)
            | JobChange::StoppedAt(_)
            | JobChange::Text { .. } => None,
        };
        self.publish_live(id, change);
        if let Some(event) = event
            && let Some(ring) = self.ring_of(id)
        {
            ring.push(id, event);
        }
        if let Some(account) = over {
            // Followers keep what they hold of the channel; a later follower reads the row.
            self.jobs.remove(&id);
            if self
                .accounts
                .get(&account)
                .is_some_and(|ring| ring.is_idle())
            {
                self.accounts.remove(&account);
            }
        }
    }

    /// Tells those who follow the one job.
    fn publish_live(&mut self, id: JobId, change: JobChange) {
        let topic = self.jobs.entry(id).or_default();
        if let JobChange::Saved(job) = &change {
            topic.account.get_or_insert_with(|| job.account.clone());
            if let Some(run) = topic.run.as_ref().filter(|_| is_to_stop(job)) {
                run.cancel();
            }
        }
        topic.live.send_if_modified(|live| live.take(change));
    }

    /// Two savers may publish in the other order: the newer revision stays. An end is newer than what a crash of a database took
    /// back, whatever the revision.
    fn knows_newer(&self, job: &Job) -> bool {
        let known = self.jobs.get(&job.id).map(|topic| topic.live.borrow());
        let known = known.as_ref().and_then(|live| live.job.as_ref());
        known
            .is_some_and(|known| age(known.status, known.revision) >= age(job.status, job.revision))
    }

    /// The account of a job, once it was told.
    fn account_of(&self, id: JobId) -> Option<&AccountId> {
        self.jobs.get(&id)?.account.as_ref()
    }

    /// Whether somebody here follows a job or its account.
    fn is_followed(&self, id: JobId) -> bool {
        let Some(topic) = self.jobs.get(&id) else {
            return false;
        };
        let ring = topic.account.as_ref().and_then(|of| self.accounts.get(of));
        topic.live.receiver_count() > 0 || ring.is_some_and(|ring| ring.is_followed())
    }

    /// The ring of a job's account: known once the job was published, which its claim is before anything of its run.
    fn ring_of(&mut self, id: JobId) -> Option<Arc<AccountRing>> {
        let topic = self.jobs.get(&id)?;
        topic.live.borrow().job.as_ref()?;
        let account = topic.account.clone()?;
        let ring = self
            .accounts
            .entry(account)
            .or_insert_with(|| Arc::new(AccountRing::new()));
        Some(Arc::clone(ring))
    }
}

impl Live {
    /// Takes a change in; answers whether it is one for those who follow the job.
    fn take(&mut self, change: JobChange) -> bool {
        match change {
            JobChange::Saved(job) => {
                if self.statuses.last() != Some(&job.status) {
                    self.statuses.push(job.status);
                }
                self.job = Some(job);
            }
            JobChange::Progress(progress) => self.progress = Some(progress),
            JobChange::Preview(preview) => self.preview = Some(Arc::new(preview)),
            JobChange::Node(_) | JobChange::StoppedAt(_) | JobChange::Text { .. } => return false,
        }
        true
    }
}

/// Whether the run of a job is to stop.
fn is_to_stop(job: &Job) -> bool {
    job.status == JobStatus::Canceling
}

/// Grows with each state of a job that a store keeps.
fn age(status: JobStatus, revision: u64) -> (bool, u64) {
    (status.is_terminal(), revision)
}

#[cfg(test)]
mod tests;

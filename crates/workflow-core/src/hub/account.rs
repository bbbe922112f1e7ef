//! Following all jobs of an account: what is told of them, one after the other, from a ring that all followers share.
//!
//! The ring holds a bounded number of bytes, however slowly its followers read. A follower that fell out of it is told so
//! and begins again from a snapshot; nobody waits for it, but the maker of a picture that must not be left out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::report::size_of;
use crate::{Job, JobId, JobStatus, NodeEvent, NodeId, Preview, RunReport};

/// Most bytes of news that wait for followers; the newest always stays, however large.
const RING_BYTES: usize = 256 * 1024;

/// About what a piece of news takes besides its texts and pictures.
const NEWS_BYTES: usize = 96;

/// One piece of news of an account's jobs.
#[derive(Clone, Debug)]
pub struct AccountNews {
    /// The job.
    pub job: JobId,
    /// What happened.
    pub event: AccountEvent,
}

/// What can happen to a job of a followed account.
#[derive(Clone, Debug)]
pub enum AccountEvent {
    /// It was saved: a new status, a new output, or both.
    Saved(Arc<Job>),
    /// Its run told something of a node.
    Node(NodeEvent),
    /// Its run was stopped before this node.
    StoppedAt(NodeId),
    /// There is something to look at; a newer picture of the job takes its place while it waits.
    Preview(Preview),
    /// A node wrote a line.
    Text {
        /// The node.
        node: NodeId,
        /// The line.
        line: String,
    },
    /// A finished picture that is shown and not kept; none is left out.
    Frame(Preview),
}

/// The answer of [`AccountFollower::next`].
#[derive(Clone, Debug)]
pub enum AccountTold {
    /// What happened next.
    News(Arc<AccountNews>),
    /// So much happened that some of it is gone: what the runs under way told so far, and news from here on.
    Snapshot(Vec<(JobId, RunReport)>),
}

/// Follows the jobs of one account, from when it was made.
#[derive(Debug)]
pub struct AccountFollower {
    ring: Arc<AccountRing>,
    name: u64,
    head: watch::Receiver<u64>,
}

/// The news of one account, and how far each follower has read.
#[derive(Debug)]
pub(super) struct AccountRing {
    state: Mutex<State>,
    /// The number that the next news gets: wakes followers.
    head: watch::Sender<u64>,
    /// Counts readings: wakes the run that waits for its picture to be taken.
    taken: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers are consecutive; the first belongs to the front.
    first: u64,
    news: VecDeque<(Option<Arc<AccountNews>>, usize)>,
    bytes: usize,
    positions: HashMap<u64, u64>,
    followers: u64,
    /// What runs under way told so far.
    reports: HashMap<JobId, RunReport>,
}

impl AccountFollower {
    /// The next news, when there are any. Cancel-safe.
    pub async fn next(&mut self) -> AccountTold {
        loop {
            self.head.borrow_and_update();
            if let Some(told) = self.ring.take(self.name) {
                return told;
            }
            if self.head.changed().await.is_err() {
                // The ring lives as long as this follower.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for AccountFollower {
    fn drop(&mut self) {
        self.ring.state().positions.remove(&self.name);
        self.ring.taken.send_modify(|count| *count += 1);
    }
}

impl AccountRing {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            head: watch::Sender::new(0),
            taken: watch::Sender::new(0),
        }
    }

    /// A follower, whose first word will be a snapshot.
    pub(super) fn follow(self: &Arc<Self>) -> AccountFollower {
        let mut state = self.state();
        state.followers += 1;
        let name = state.followers;
        state.positions.insert(name, BEHIND);
        AccountFollower {
            ring: Arc::clone(self),
            name,
            head: self.head.subscribe(),
        }
    }

    /// Whether nobody follows and nothing runs: nobody would miss it.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.positions.is_empty() && state.reports.is_empty()
    }

    /// Whether somebody follows.
    pub(super) fn is_followed(&self) -> bool {
        !self.state().positions.is_empty()
    }

    /// Has every follower begin with another snapshot.
    pub(super) fn start_over(&self) {
        let mut state = self.state();
        for position in state.positions.values_mut() {
            *position = BEHIND;
        }
        let next = state.first + state.news.len() as u64;
        drop(state);
        self.head.send_replace(next);
        self.taken.send_modify(|count| *count += 1);
    }

    /// Adds news; answers their number.
    pub(super) fn push(&self, job: JobId, event: AccountEvent) -> u64 {
        let mut state = self.state();
        let number = state.push(AccountNews { job, event });
        drop(state);
        self.head.send_replace(number + 1);
        number
    }

    /// Completes when every follower has taken the news of a number, or gone. Cancel-safe.
    pub(super) async fn taken(&self, number: u64) {
        let mut taken = self.taken.subscribe();
        loop {
            taken.borrow_and_update();
            let waiting = |position: &u64| *position != BEHIND && *position <= number;
            if !self.state().positions.values().any(waiting) {
                return;
            }
            if taken.changed().await.is_err() {
                return;
            }
        }
    }

    fn take(&self, name: u64) -> Option<AccountTold> {
        let told = self.state().take(name);
        if told.is_some() {
            self.taken.send_modify(|count| *count += 1);
        }
        told
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step below leaves the ring half-changed but by panicking on its own bounds, which are checked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position of a follower that has to begin with a snapshot.
const BEHIND: u64 = u64::MAX;

impl State {
    fn push(&mut self, news: AccountNews) -> u64 {
        self.report(&news);
        let number = self.first + self.news.len() as u64;
        if self.positions.is_empty() {
            // No follower would take them: the next one begins with a snapshot.
            self.first = number;
            self.news.clear();
            self.bytes = 0;
            return number;
        }
        if let AccountEvent::Preview(_) = &news.event {
            self.drop_older_preview(news.job);
        }
        let size = size_of_news(&news.event);
        self.news.push_back((Some(Arc::new(news)), size));
        self.bytes += size;
        while self.bytes > RING_BYTES && self.news.len() > 1 {
            if let Some((_, size)) = self.news.pop_front() {
                self.bytes -= size;
                self.first += 1;
            }
        }
        number
    }

    fn report(&mut self, news: &AccountNews) {
        match &news.event {
            AccountEvent::Saved(job) => match job.status {
                JobStatus::Running | JobStatus::Canceling => {}
                JobStatus::Queued
                | JobStatus::Succeeded
                | JobStatus::Canceled
                | JobStatus::Failed
                | JobStatus::Expired => {
                    self.reports.remove(&news.job);
                }
            },
            AccountEvent::Preview(_) | AccountEvent::Text { .. } | AccountEvent::Frame(_) => {}
            AccountEvent::Node(event) => {
                if let NodeEvent::Cached(_) = event {
                    // The first word of a run: one before it, of the same job, is over.
                    self.reports.insert(news.job, RunReport::default());
                }
                self.reports.entry(news.job).or_default().record(event);
            }
            AccountEvent::StoppedAt(node) => {
                self.reports.entry(news.job).or_default().stopped_at = Some(node.clone());
            }
        }
    }

    /// A picture that nobody took yet is of no use beside a newer one.
    fn drop_older_preview(&mut self, job: JobId) {
        for (news, size) in self.news.iter_mut().rev() {
            let is_older = news.as_ref().is_some_and(|news| {
                news.job == job && matches!(news.event, AccountEvent::Preview(_))
            });
            if is_older {
                *news = None;
                self.bytes -= std::mem::take(size);
                return;
            }
        }
    }

    fn take(&mut self, name: u64) -> Option<AccountTold> {
        let mut position = *self.positions.get(&name)?;
        let end = self.first + self.news.len() as u64;
        if position == BEHIND || position < self.first {
            self.positions.insert(name, end);
            let reports = self.reports.iter();
            let reports = reports.map(|(job, report)| (*job, report.clone()));
            return Some(AccountTold::Snapshot(reports.collect()));
        }
        let mut told = None;
        while position < end && told.is_none() {
            let index = usize::try_from(position - self.first).ok()?;
            told = self.news[index].0.clone();
            position += 1;
        }
        self.positions.insert(name, position);
        told.map(AccountTold::News)
    }
}

fn size_of_news(event: &AccountEvent) -> usize {
    let besides = match event {
        AccountEvent::Saved(_) | AccountEvent::StoppedAt(_) => 0,
        AccountEvent::Node(NodeEvent::Cached(nodes)) => nodes.len() * 16,
        AccountEvent::Node(NodeEvent::Executed { ui, .. }) => size_of(ui),
        AccountEvent::Node(NodeEvent::Failed { inputs, .. }) => inputs.values().map(size_of).sum(),
        AccountEvent::Node(
            NodeEvent::Started { .. } | NodeEvent::Step { .. } | NodeEvent::Finished { .. },
        ) => 0,
        AccountEvent::Preview(preview) | AccountEvent::Frame(preview) => preview.bytes.len(),
        AccountEvent::Text { line, .. } => line.len(),
    };
    NEWS_BYTES + besides
}

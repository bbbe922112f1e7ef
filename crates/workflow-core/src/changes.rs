//! The port that tells a replica what the others did to jobs: what feeds its hub besides its own work.
//!
//! A replica tells its own hub what it saves and what its runs report. What other replicas save is in the rows, and this port
//! says where to look; what their runs report is in no row, and comes through it as far as it can.

use async_trait::async_trait;

use accounts::AccountId;

use crate::{JobChange, JobId, JobStatus, NodeEvent, NodeId, Progress, StoreError};

/// A position in the changes of a store: behind it is what a replica has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeNumber(pub u64);

/// What another replica did to a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub account: AccountId,
    /// What happened.
    pub kind: ChangeKind,
}

/// The kinds of changes.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// It was saved: its row has this revision, or a later one.
    Saved {
        /// The revision.
        revision: u64,
        /// The status of that revision.
        status: JobStatus,
    },
    /// Its run reported something.
    Reported(Report),
}

/// What a run reports that is in no row and small enough to be passed on. Pictures are not: a follower on another replica sees
/// none of a run's previews and frames.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// It got on.
    Progress(Progress),
    /// It published something of a node.
    Node(NodeEvent),
    /// It was stopped before this node.
    StoppedAt(NodeId),
    /// A node wrote a line.
    Text {
        /// The node.
        node: NodeId,
        /// The line.
        line: String,
    },
}

/// What a replica has not seen.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangesSince {
    /// All of it, in order, and the position behind the last.
    Changes(Vec<Change>, ChangeNumber),
    /// The store does not keep all of it. The replica reads the rows of the jobs that it follows, and goes on from here.
    Missed(ChangeNumber),
}

/// What other replicas change, for the hub of each.
///
/// **Contract.** Holds for any number of replicas over one store, each with a handle of its own. A job that a replica inserts,
/// and every revision that it makes and a load can find, is a change without being told, as soon as the load finds it; one change
/// may stand for several revisions, and the last one is never left out. `since` answers what the *other* handles changed, since
/// a replica tells its own hub directly. The changes of a job come in the order in which they happened. A store keeps a bounded
/// number of changes.
///
/// What is published may be lost or left out. It comes behind the change of the claim that its run belongs to. What comes with a
/// save ([`crate::SaveJob::reports`]) comes directly before the change of that save, unless it is too large to be passed on.
#[async_trait]
pub trait Changes: Send + Sync + 'static {
    /// What other replicas changed behind a position, at most some thousands at a time: waits until there is something. `None` is
    /// the position of a replica that has seen nothing: the answer is [`ChangesSince::Missed`], at once. Cancel-safe.
    async fn since(&self, after: Option<ChangeNumber>) -> Result<ChangesSince, StoreError>;

    /// Passes on what a run of this replica reported, as far as [`Report::of`] makes something of it. Never waits.
    fn publish(&self, job: JobId, account: &AccountId, change: &JobChange);

    /// Whether other replicas may share the store now.
    fn has_others(&self) -> bool;
}

/// *Per process*: the changes of a store that one process at a time can have. There is no other replica, so nothing ever comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneReplica;

#[async_trait]
impl Changes for OneReplica {
    async fn since(&self, after: Option<ChangeNumber>) -> Result<ChangesSince, StoreError> {
        if after.is_some() {
            std::future::pending::<()>().await;
        }
        Ok(ChangesSince::Missed(ChangeNumber::default()))
    }

    fn publish(&self, _: JobId, _: &AccountId, _: &JobChange) {}

    fn has_others(&self) -> bool {
        false
    }
}

impl Report {
    /// What other replicas hear of a change that a run reported, if anything.
    #[must_use]
    pub fn of(change: &JobChange) -> Option<Self> {
        match change {
            JobChange::Progress(progress) => Some(Self::Progress(progress.clone())),
            JobChange::Node(event) => Some(Self::Node(event.clone())),
            JobChange::StoppedAt(node) => Some(Self::StoppedAt(node.clone())),
            JobChange::Text { node, line } => Some(Self::Text {
                node: node.clone(),
                line: line.clone(),
            }),
            // The one is in a row, the other too large.
            JobChange::Saved(_) | JobChange::Preview(_) => None,
        }
    }
}

impl From<Report> for JobChange {
    fn from(report: Report) -> Self {
        match report {
            Report::Progress(progress) => Self::Progress(progress),
            Report::Node(event) => Self::Node(event),
            Report::StoppedAt(node) => Self::StoppedAt(node),
            Report::Text { node, line } => Self::Text { node, line },
        }
    }
}

//! The job machine: one pure table of states and events.
//!
//! Stores keep jobs and never judge a transition; every change is `load`, [`Job::apply`], `save`. A terminal status never
//! changes again.

use std::collections::BTreeMap;

use accounts::AccountId;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use crate::{JobId, JobOutput, NodeId, Progress, WorkerId};

/// Labels of a job, by key.
pub type Metadata = BTreeMap<String, String>;

/// Which claim of a job is meant: grows with every claim. What an earlier claim still says is refused. Only a claim that a crash
/// of a database took back is followed by another one with its epoch ([`Job::is_claimed_by`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// One durable execution of a workflow, as it is kept. The graph lies beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Identifies the job.
    pub id: JobId,
    /// Whose it is.
    pub account: AccountId,
    /// Counts its saves: a save states which one it follows.
    pub revision: u64,
    /// Where it stands.
    pub status: JobStatus,
    /// The claim that counts.
    pub epoch: Epoch,
    /// Who runs it, or ran it last: with `epoch`, the claim that counts.
    pub worker: Option<WorkerId>,
    /// Claims that were lost with their worker. Jobs given back do not count.
    pub lost_claims: u32,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When it reached its terminal status.
    pub completed_at: Option<Timestamp>,
    /// When it stops being readable.
    pub expires_at: Timestamp,
    /// How long it is kept once it is terminal.
    pub retention: SignedDuration,
    /// The latest durable snapshot; a fresher one may be on its way.
    pub progress: Progress,
    /// What it made, in the order of commits.
    pub outputs: Vec<JobOutput>,
    /// Why it failed or expired.
    pub error: Option<JobError>,
    /// The caller's labels.
    pub metadata: Metadata,
}

/// The states of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobStatus {
    /// Waits for a worker.
    Queued,
    /// A worker has it.
    Running,
    /// A worker has it and was asked to stop.
    Canceling,
    /// Done, every output committed.
    Succeeded,
    /// Stopped on request.
    Canceled,
    /// Ended by an error.
    Failed,
    /// Its time ran out before it finished.
    Expired,
}

/// What can happen to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEvent {
    /// A worker takes it; `epoch` is the next one.
    Claimed {
        /// The worker.
        worker: WorkerId,
    },
    /// A client asked to stop it.
    CancelRequested,
    /// Its worker got on.
    Advanced {
        /// The worker's claim.
        epoch: Epoch,
        /// How far.
        progress: Progress,
    },
    /// Its worker finished it.
    Finished {
        /// The worker's claim.
        epoch: Epoch,
    },
    /// Its worker met an error.
    Failed {
        /// The worker's claim.
        epoch: Epoch,
        /// The error.
        error: JobError,
    },
    /// Its worker stopped as asked.
    Stopped {
        /// The worker's claim.
        epoch: Epoch,
    },
    /// Its worker gives it back, because the server drains: not a lost attempt.
    GivenBack {
        /// The worker's claim.
        epoch: Epoch,
    },
    /// Its worker is gone.
    LeaseLost {
        /// The claim that lapsed.
        epoch: Epoch,
    },
    /// The time it may wait or run is over.
    TimedOut {
        /// The claim whose run took too long; of a job that waits, the latest one.
        epoch: Epoch,
    },
}

/// An event that a job in this state cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IllegalEvent {
    /// The job is not in a state in which this can happen.
    #[error("the event does not fit a job that is {0:?}")]
    State(JobStatus),
    /// The claim behind the event does not count any more.
    #[error("the claim was superseded")]
    Superseded,
}

/// Why a job failed, or its time ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// What kind of failure.
    pub code: JobErrorCode,
    /// For people; never a secret, a path or a trace.
    pub message: String,
    /// The node that failed, where one did.
    pub node_id: Option<NodeId>,
    /// Its class.
    pub class_type: Option<String>,
    /// What the engine calls the failure, such as the name of an exception.
    pub exception_type: Option<String>,
    /// Where it happened, where the engine says so.
    pub traceback: Option<Box<str>>,
    /// What the engine that refused the graph said of its nodes, as clients of the older API see it.
    pub node_errors: Box<Map<String, Value>>,
}

/// The kinds of failures that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobErrorCode {
    /// A node failed.
    NodeExecutionError,
    /// The run needed more memory than it may have.
    OutOfMemory,
    /// The worker was lost, twice or after an output.
    WorkerLost,
    /// The secret that came with the submission did not survive a restart.
    SecretLost,
    /// The graph was found invalid by the worker.
    InvalidWorkflow,
    /// The account has used up the bytes that it may store.
    StorageQuotaExceeded,
    /// The time that it may wait or run was over.
    Timeout,
    /// The engine failed outside any node.
    EngineError,
}

impl JobStatus {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Canceling,
        Self::Succeeded,
        Self::Canceled,
        Self::Failed,
        Self::Expired,
    ];

    /// Whether the job is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Canceling => false,
            Self::Succeeded | Self::Canceled | Self::Failed | Self::Expired => true,
        }
    }

    /// The state's name on the wire and in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Canceling => "canceling",
            Self::Succeeded => "succeeded",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }

    /// The state of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl JobErrorCode {
    /// The code on the wire and in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeExecutionError => "node_execution_error",
            Self::OutOfMemory => "out_of_memory",
            Self::WorkerLost => "worker_lost",
            Self::SecretLost => "secret_lost",
            Self::InvalidWorkflow => "invalid_workflow",
            Self::StorageQuotaExceeded => "storage_quota_exceeded",
            Self::Timeout => "timeout",
            Self::EngineError => "engine_error",
        }
    }

    /// The code of a name; what is unknown came from a newer engine.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let all = [
            Self::NodeExecutionError,
            Self::OutOfMemory,
            Self::WorkerLost,
            Self::SecretLost,
            Self::InvalidWorkflow,
            Self::StorageQuotaExceeded,
            Self::Timeout,
        ];
        all.into_iter()
            .find(|code| code.name() == name)
            .unwrap_or(Self::EngineError)
    }
}

impl JobError {
    /// An error that no node is to blame for.
    #[must_use]
    pub fn new(code: JobErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            node_id: None,
            class_type: None,
            exception_type: None,
            traceback: None,
            node_errors: Box::default(),
        }
    }

    fn worker_lost() -> Self {
        Self::new(
            JobErrorCode::WorkerLost,
            "the worker that ran this job was lost; submit the job again",
        )
    }

    fn timeout(what: &str) -> Self {
        let advice = "submit it again, or ask for a higher limit";
        Self::new(JobErrorCode::Timeout, format!("the job {what}; {advice}"))
    }
}

/// The label of a job that is part of something else, such as a call of a model that runs here. Its value is the job's own id,
/// which no client knows before the job is there.
const PART: &str = "part";

impl Job {
    /// The labels of a job that is part of something else: lists of what a person submitted leave it out.
    #[must_use]
    pub fn part_labels(id: JobId) -> Metadata {
        Metadata::from([(PART.to_owned(), id.to_string())])
    }

    /// Whether the job is part of something else.
    #[must_use]
    pub fn is_part(&self) -> bool {
        let label = self.metadata.get(PART);
        label.is_some_and(|label| *label == self.id.to_string())
    }

    /// Whether the job reads as gone.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.status.is_terminal() && self.expires_at <= now
    }

    /// Milliseconds it waited, once it was claimed.
    #[must_use]
    pub fn queue_ms(&self) -> Option<i64> {
        Some(self.started_at?.duration_since(self.created_at).as_millis() as i64)
    }

    /// Milliseconds from its first claim to its end, once it has ended.
    #[must_use]
    pub fn execution_ms(&self) -> Option<i64> {
        Some(
            self.completed_at?
                .duration_since(self.started_at?)
                .as_millis() as i64,
        )
    }

    /// Lets an event happen: the one place where a job changes its state.
    ///
    /// # Errors
    /// If the event does not fit the state, or its claim was superseded; the job is then as it was.
    pub fn apply(&mut self, event: JobEvent, now: Timestamp) -> Result<(), IllegalEvent> {
        use JobStatus::{Canceled, Canceling, Expired, Failed, Queued, Running, Succeeded};
        self.check_claim(&event)?;
        let illegal = IllegalEvent::State(self.status);
        match (self.status, event) {
            (Queued, JobEvent::Claimed { worker }) => {
                self.status = Running;
                self.epoch.0 += 1;
                self.worker = Some(worker);
                self.started_at.get_or_insert(now);
            }
            (
                Running | Canceling | Succeeded | Canceled | Failed | Expired,
                JobEvent::Claimed { .. },
            ) => {
                return Err(illegal);
            }

            (Queued, JobEvent::CancelRequested) => self.end(Canceled, now),
            (Running, JobEvent::CancelRequested) => self.status = Canceling,
            // Asking twice, or too late, is no error: the answer is the job as it is.
            (Canceling | Succeeded | Canceled | Failed | Expired, JobEvent::CancelRequested) => {
                return Ok(());
            }

            (Running | Canceling, JobEvent::Advanced { progress, .. }) => self.progress = progress,
            (Running | Canceling, JobEvent::Finished { .. }) => {
                // Every output is committed: a cancel that came too late takes nothing away.
                self.progress = Progress::complete(self.progress.nodes_total);
                self.end(Succeeded, now);
            }
            (Running | Canceling, JobEvent::Failed { error, .. }) => {
                self.error = Some(error);
                self.end(Failed, now);
            }
            (Canceling, JobEvent::Stopped { .. }) => self.end(Canceled, now),
            (Running, JobEvent::Stopped { .. }) => return Err(illegal),

            (Running, JobEvent::GivenBack { .. }) => self.requeue(),
            (Running, JobEvent::LeaseLost { .. }) => {
                self.lost_claims += 1;
                if self.lost_claims == 1 && self.outputs.is_empty() {
                    self.requeue();
                } else {
                    self.error = Some(JobError::worker_lost());
                    self.end(Failed, now);
                }
            }
            // Nobody is left who could stop it, and it was to be stopped.
            (Canceling, JobEvent::GivenBack { .. } | JobEvent::LeaseLost { .. }) => {
                self.end(Canceled, now)
            }

            (Queued, JobEvent::TimedOut { .. }) => {
                self.error = Some(JobError::timeout("waited for longer than a job may wait"));
                self.end(Expired, now);
            }
            (Running, JobEvent::TimedOut { .. }) => {
                self.error = Some(JobError::timeout("ran for longer than a job may run"));
                self.end(Expired, now);
            }
            (Canceling, JobEvent::TimedOut { .. }) => self.end(Canceled, now),
            (Succeeded | Canceled | Failed | Expired, JobEvent::TimedOut { .. }) => {
                return Err(illegal);
            }

            (
                Queued | Succeeded | Canceled | Failed | Expired,
                JobEvent::Advanced { .. }
                | JobEvent::Finished { .. }
                | JobEvent::Failed { .. }
                | JobEvent::Stopped { .. }
                | JobEvent::GivenBack { .. }
                | JobEvent::LeaseLost { .. },
            ) => return Err(illegal),
        }
        self.updated_at = now;
        Ok(())
    }

    /// Whether this claim of a worker counts. A claim that a crash of a database took back is given out again with its epoch: then
    /// the worker is another one.
    #[must_use]
    pub fn is_claimed_by(&self, worker: WorkerId, epoch: Epoch) -> bool {
        let runs = matches!(self.status, JobStatus::Running | JobStatus::Canceling);
        runs && self.epoch == epoch && self.worker == Some(worker)
    }

    /// Whether the claim behind an event is the one that counts.
    fn check_claim(&self, event: &JobEvent) -> Result<(), IllegalEvent> {
        let epoch = match event {
            JobEvent::Claimed { .. } | JobEvent::CancelRequested => return Ok(()),
            JobEvent::Advanced { epoch, .. }
            | JobEvent::Finished { epoch }
            | JobEvent::Failed { epoch, .. }
            | JobEvent::Stopped { epoch }
            | JobEvent::GivenBack { epoch }
            | JobEvent::LeaseLost { epoch }
            | JobEvent::TimedOut { epoch } => *epoch,
        };
        if epoch == self.epoch {
            Ok(())
        } else {
            Err(IllegalEvent::Superseded)
        }
    }

    /// Keeps nothing of a job that just ended: it is past its time at once, and its idempotency key free.
    pub(crate) fn withdraw(&mut self) {
        self.expires_at = self.completed_at.unwrap_or(self.expires_at);
    }

    /// Whether nothing was kept of it when it ended: a worker refused it, and its submission was answered so.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.completed_at
            .is_some_and(|ended| self.expires_at <= ended)
    }

    fn requeue(&mut self) {
        self.status = JobStatus::Queued;
    }

    fn end(&mut self, status: JobStatus, now: Timestamp) {
        self.status = status;
        self.completed_at = Some(now);
        let kept_until = now.saturating_add(self.retention).unwrap_or(Timestamp::MAX);
        self.expires_at = self.expires_at.max(kept_until);
    }
}

#[cfg(test)]
mod tests;

//! The words of v1 for where a job stands: the ten of the status route, and the five of the job list.

use workflow_core::{Job, JobErrorCode, JobStatus};

/// The words of the job list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobWord {
    /// Waits.
    Pending,
    /// Runs.
    InProgress,
    /// Done.
    Completed,
    /// Ended by an error, or out of time.
    Failed,
    /// Stopped on request.
    Cancelled,
}

impl JobWord {
    /// Every word.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word of a status.
    #[must_use]
    pub fn of(status: JobStatus) -> Self {
        match status {
            JobStatus::Queued => Self::Pending,
            JobStatus::Running | JobStatus::Canceling => Self::InProgress,
            JobStatus::Succeeded => Self::Completed,
            JobStatus::Failed | JobStatus::Expired => Self::Failed,
            JobStatus::Canceled => Self::Cancelled,
        }
    }

    /// The word as it is spelled.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The word of a spelling.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.name() == name)
    }
}

/// Where a job stands, in one of the ten words of the specification. `submitted` and `preparing` are never seen: a job that
/// is told of is in the queue, and its files are found before it is.
#[must_use]
pub fn status_word(job: &Job) -> &'static str {
    match job.status {
        JobStatus::Queued => "queued_waiting",
        JobStatus::Running => "executing",
        JobStatus::Canceling => "cancel_requested",
        JobStatus::Succeeded => "success",
        JobStatus::Canceled => "cancelled",
        JobStatus::Expired => "error",
        JobStatus::Failed => match job.error.as_ref().map(|error| error.code) {
            Some(JobErrorCode::WorkerLost) => "lost",
            Some(JobErrorCode::InvalidWorkflow | JobErrorCode::SecretLost) => "non_retryable_error",
            Some(
                JobErrorCode::NodeExecutionError
                | JobErrorCode::OutOfMemory
                | JobErrorCode::StorageQuotaExceeded
                | JobErrorCode::Timeout
                | JobErrorCode::EngineError,
            )
            | None => "error",
        },
    }
}

//! What failures are called.

use std::borrow::Cow;

use workflow_core::{Job, JobError, JobErrorCode, JobStatus};

/// Why a job failed: its error, or that its time was over, which clients of this family know as a failure, too. `None` for any
/// other end and before the end.
#[must_use]
pub fn failure(job: &Job) -> Option<Cow<'_, JobError>> {
    // For jobs that expired before they kept a reason.
    let late = |message| Cow::Owned(JobError::new(JobErrorCode::Timeout, message));
    match (&job.error, job.status, job.started_at) {
        (Some(error), _, _) => Some(Cow::Borrowed(error)),
        (None, JobStatus::Expired, Some(_)) => Some(late(
            "the job ran longer than `run_limit` allows; make it smaller, or ask the operator for more time",
        )),
        (None, JobStatus::Expired, None) => Some(late(
            "the job waited longer than `queue_limit` allows; submit it again when less is waiting",
        )),
        (None, _, _) => None,
    }
}

/// The name of a failure: one of the specified words where one fits, else what the node itself calls it.
#[must_use]
pub fn exception_type(error: &JobError) -> &str {
    match error.code {
        JobErrorCode::InvalidWorkflow => "ValidationError",
        JobErrorCode::OutOfMemory => "OOMError",
        JobErrorCode::WorkerLost => "DispatcherError",
        JobErrorCode::StorageQuotaExceeded => "StorageQuotaError",
        JobErrorCode::SecretLost | JobErrorCode::Timeout | JobErrorCode::EngineError => {
            "ServiceError"
        }
        JobErrorCode::NodeExecutionError => {
            error.exception_type.as_deref().unwrap_or("RuntimeError")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_own_word_and_the_service_has_its_own() {
        let failed = |code, own: Option<&str>| JobError {
            exception_type: own.map(str::to_owned),
            ..JobError::new(code, "")
        };
        let node = failed(JobErrorCode::NodeExecutionError, Some("ImageDownloadError"));
        assert_eq!(exception_type(&node), "ImageDownloadError");
        let node = failed(JobErrorCode::NodeExecutionError, None);
        assert_eq!(exception_type(&node), "RuntimeError");
        let memory = failed(JobErrorCode::OutOfMemory, Some("torch.OutOfMemoryError"));
        assert_eq!(exception_type(&memory), "OOMError");
        let invalid = failed(JobErrorCode::InvalidWorkflow, None);
        assert_eq!(exception_type(&invalid), "ValidationError");
    }
}

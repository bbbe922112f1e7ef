//! The jobs of the server, as commands of operators see them.

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;
use server_kit::admin::{JobAdmin, JobExplanation, Problem, ProblemKind, WorkerNote};
use uuid::Uuid;
use workflow_core::{JobId, Jobs, JobsError};

/// Jobs of all accounts.
#[derive(Debug)]
pub(crate) struct OperatorJobs(pub(crate) Jobs);

#[async_trait]
impl JobAdmin for OperatorJobs {
    async fn explain(
        &self,
        account: &AccountId,
        job: Uuid,
        now: Timestamp,
    ) -> Result<Option<JobExplanation>, Problem> {
        let explained = match self.0.explain(account, JobId(job), now).await {
            Ok(explained) => explained,
            Err(JobsError::NotFound) => return Ok(None),
            Err(error) => return Err(Problem::new(ProblemKind::Fault, error.to_string())),
        };
        let workers = explained.workers.into_iter().map(|note| WorkerNote {
            worker: note.worker,
            has_job: note.has_job,
            why_not: note.why_not,
        });
        Ok(Some(JobExplanation {
            id: job.to_string(),
            account: account.to_string(),
            status: explained.status.name().to_owned(),
            engine: explained.engine.map(|engine| engine.to_string()),
            queue_position: explained.queue_position,
            account_running: explained.account_running,
            account_room: explained.account_room,
            workers: workers.collect(),
        }))
    }
}

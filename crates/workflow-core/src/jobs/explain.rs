//! Why a job waits, for operators.

use accounts::AccountId;
use jiff::Timestamp;

use super::{Jobs, JobsError};
use crate::{EngineName, Job, JobId, JobStatus, WorkerNote};

/// What there is to say of where a job runs, or why it does not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// How the job is.
    pub status: JobStatus,
    /// The engine that was chosen for it; `None` if a newer version of the program chose it.
    pub engine: Option<EngineName>,
    /// How many jobs will be claimed before it, while it is queued.
    pub queue_position: Option<u64>,
    /// How many jobs of its account run.
    pub account_running: u32,
    /// How many may run at once.
    pub account_room: u32,
    /// The workers of its engine; none if the engine runs in the server's own process, or the job is over.
    pub workers: Vec<WorkerNote>,
}

impl Jobs {
    /// Where a job runs, or why it does not run yet.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn explain(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Explanation, JobsError> {
        let view = self.get(account, id, now).await?;
        let body = self.body(account, id, now).await?;
        let needs = body.placement.requirements.read();
        let others = self.in_flight(account, now).await?;
        let running = others
            .iter()
            .filter(|job| job.status != JobStatus::Queued)
            .count();
        Ok(Explanation {
            status: view.job.status,
            engine: needs.map(|needs| needs.engine),
            queue_position: view.queue_position,
            account_running: u32::try_from(running).unwrap_or(u32::MAX),
            account_room: body.placement.account_room,
            workers: self.workers(&view.job, now).await?,
        })
    }

    /// The workers of the engine of a job, and why each does not take it; none if there is nothing to say: the job is over, or
    /// its engine has no workers.
    ///
    /// # Errors
    /// As [`Jobs::get`].
    pub async fn workers(&self, job: &Job, now: Timestamp) -> Result<Vec<WorkerNote>, JobsError> {
        if job.status.is_terminal() {
            return Ok(Vec::new());
        }
        let body = self.body(&job.account, job.id, now).await?;
        let Some(needs) = body.placement.requirements.read() else {
            return Ok(Vec::new());
        };
        let engine = self.ports.engines.get(&needs.engine);
        let notes = engine.and_then(|engine| Some(engine.workers()?.explain(job.id, &needs)));
        Ok(notes.unwrap_or_default())
    }
}

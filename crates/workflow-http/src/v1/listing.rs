//! Jobs with what lies beside them, as the lists of this family need them.

use std::sync::Arc;

use serde_json::Value;
use v1_compat::{JobRecord, prompt_id};
use workflow_core::{Job, JobBody, JobCursor, JobQuery, JobsError, RunReport};

use super::errors::ApiError;
use super::request::Call;

/// Most jobs that a list looks at, newest first: as many as a person scrolls through, and as a store has at hand. Whoever
/// wants what is behind them goes on with a cursor.
const MOST_LISTED: usize = 2_000;

/// A job with all that is shown of it.
pub(super) struct Listed {
    pub(super) job: Arc<Job>,
    body: Arc<JobBody>,
    report: Option<RunReport>,
}

impl Listed {
    pub(super) fn record(&self) -> JobRecord<'_> {
        JobRecord {
            job: &self.job,
            body: &self.body,
            report: self.report.as_ref(),
        }
    }
}

impl Call<'_> {
    /// The newest jobs of the account behind a position, newest first: those that are over, those that are not, or both; and
    /// where to go on, if these are not all.
    pub(super) async fn newest(
        &self,
        over: Option<bool>,
        after: Option<JobCursor>,
    ) -> Result<(Vec<Arc<Job>>, Option<JobCursor>), ApiError> {
        let query = JobQuery {
            account: self.account().clone(),
            labels: Vec::new(),
            over,
            statuses: Vec::new(),
            after,
            limit: MOST_LISTED,
        };
        let page = self.service.jobs.list(&query, self.now).await?;
        let jobs = page.jobs.into_iter().map(|view| view.job);
        Ok((jobs.collect(), page.next))
    }

    /// A job with what lies beside it.
    pub(super) async fn listed(&self, job: Arc<Job>) -> Result<Listed, ApiError> {
        let jobs = &self.service.jobs;
        let body = jobs.body(self.account(), job.id, self.now).await?;
        let report = match job.status.is_terminal() {
            true => jobs.log(self.account(), job.id, self.now).await?,
            false => None,
        };
        Ok(Listed {
            job,
            body,
            report: report.map(|log| log.report),
        })
    }

    /// These jobs with what lies beside them; those that were deleted meanwhile are left out.
    pub(super) async fn all_listed(
        &self,
        jobs: impl IntoIterator<Item = Arc<Job>>,
    ) -> Result<Vec<Listed>, ApiError> {
        let mut listed = Vec::new();
        for job in jobs {
            match self.listed(job).await {
                Ok(job) => listed.push(job),
                Err(ApiError::Jobs(JobsError::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }

    /// Asks the job of this id to stop; what the client calls it, if it was still under way.
    pub(super) async fn stop(&self, id: &str) -> Result<Option<String>, ApiError> {
        let job = self.job_called(id).await?.job;
        if job.status.is_terminal() {
            return Ok(None);
        }
        let jobs = &self.service.jobs;
        jobs.cancel(self.account(), job.id, self.now).await?;
        Ok(Some(prompt_id(&job).to_string()))
    }

    /// Asks the jobs of these ids to stop; what the client calls those that were still under way. Ids that name nothing are
    /// passed over.
    pub(super) async fn stop_all(
        &self,
        ids: impl IntoIterator<Item = &str>,
    ) -> Result<Vec<String>, ApiError> {
        let mut stopped = Vec::new();
        for id in ids {
            match self.stop(id).await {
                Ok(id) => stopped.extend(id),
                Err(ApiError::NotFound | ApiError::Jobs(JobsError::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stopped)
    }
}

/// Ids of jobs in a list of texts; `None` where one is no text. What is no id names nobody's job.
pub(super) fn texts(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

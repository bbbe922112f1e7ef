//! What an idempotency key stands for.

use accounts::Fingerprint;
use indexmap::IndexMap;
use jiff::Timestamp;

use super::{Jobs, JobsError, Submission, Submitted};

impl Jobs {
    /// Answers a submission that was taken in before, by its key, and takes in no new one: `None`.
    ///
    /// # Errors
    /// As [`Jobs::submit`].
    pub async fn replay(
        &self,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Option<Submitted>, JobsError> {
        // Without room a store inserts nothing, and still answers what a key stands for.
        match self.take_in(submission, 0, now).await {
            Err(JobsError::QueueFull { .. }) => Ok(None),
            answered => answered.map(Some),
        }
    }

    /// The answer to a submission whose key stands for a job already; `None` without a key, or if the key is new. Everything else
    /// that is asked of a submission is asked later: its job is told although its files, its engine or its account's right to run
    /// are gone.
    pub(super) async fn known(
        &self,
        submission: &Submission,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Submitted>, JobsError> {
        let Some(digest) = &submission.key else {
            return Ok(None);
        };
        let claimed = self.ports.store.claimed(&submission.account, digest, now);
        match claimed.await? {
            None => Ok(None),
            Some((claimed, job)) if claimed != fingerprint => Err(JobsError::KeyReused(job.id)),
            Some((_, job)) => Ok(Some(Submitted {
                view: self.view(job, now).await?,
                replayed: true,
                node_errors: IndexMap::new(),
            })),
        }
    }
}

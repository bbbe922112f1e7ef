//! What an idempotency key stands for.

use accounts::Fingerprint;
use indexmap::IndexMap;
use jiff::Timestamp;

use super::checked::Read;
use super::{Jobs, JobsError, Submission, Submitted};
use crate::NodeCatalog;

impl Jobs {
    /// Answers a submission that was taken in before, by its key, and takes in no new one: `None`.
    ///
    /// # Errors
    /// If the graph cannot be read, the key was claimed by another request, or a port fails.
    pub async fn replay(
        &self,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Option<Submitted>, JobsError> {
        let bytes = submission.workflow.len();
        // The fingerprint is of the graph as it came: which classes can be run now changes nothing of it.
        let read = self.aside(bytes, move || {
            let read = Read::of(&submission, &NodeCatalog::default());
            (submission, read)
        });
        let (submission, read) = read.await?;
        self.known(&submission, read?.fingerprint, now).await
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

//! What the engine of a submission says of it: its workers before the job is taken in, and the worker that takes it at once.

use std::sync::Arc;

use super::{Jobs, JobsError, Submission};
use crate::{
    Availability, EngineWorkers, Follower, JUDGE_TIME, Job, JobId, Plan, Progress, Refusal,
    StoreError, Ticket, ValidGraph,
};

/// Why a submission has no answer.
const UNSAVED: &str = "a worker refused the graph, and that could not be saved yet";

impl Jobs {
    /// Whether submissions are taken by what is in this state.
    pub(super) fn available(&self, availability: Availability) -> Result<(), JobsError> {
        match availability {
            Availability::Ready => Ok(()),
            Availability::NotReady => Err(JobsError::NotReady {
                retry_after_s: match self.ports.engines.start_time() {
                    Some(time) => time.as_secs().max(1),
                    None => self.pace.retry_after_s(),
                },
            }),
            Availability::Stopped => Err(JobsError::Stopped),
        }
    }

    /// Why the workers refuse a graph, if they say so in time.
    pub(super) async fn judge(
        &self,
        workers: &dyn EngineWorkers,
        graph: Arc<ValidGraph>,
        plan: Arc<Plan>,
        submission: &Submission,
    ) -> Option<Refusal> {
        let ticket = Ticket {
            job: submission.id,
            account: submission.account.clone(),
            graph,
            plan,
            extra_pnginfo: submission.extra_pnginfo.clone(),
            origin: submission.origin.clone(),
        };
        tokio::select! {
            biased;
            judged = workers.judge(&ticket) => judged.err(),
            () = self.ports.timer.sleep(JUDGE_TIME) => None,
        }
    }

    /// Why the worker that took a job refused it, if it did so in time. The job is durable meanwhile, and runs if nobody refuses it;
    /// of one that was refused nothing is kept.
    ///
    /// # Errors
    /// When it was refused, and the store does not say in time that this was saved.
    pub(super) async fn verdict(
        &self,
        id: JobId,
        follower: &mut Follower,
    ) -> Result<Option<Refusal>, StoreError> {
        let begun = self.begun(follower);
        let late = self.ports.timer.sleep(JUDGE_TIME);
        tokio::select! {
            biased;
            refusal = begun => {
                self.ports.hub.take_verdict(id);
                return Ok(refusal);
            }
            () = late => {}
        }
        if self.ports.hub.take_verdict(id) {
            return Ok(None);
        }
        // A run was refused at this moment, and its end is being saved: the job can be promised no more.
        tokio::select! {
            biased;
            refusal = self.begun(follower) => Ok(refusal),
            () = self.ports.timer.sleep(JUDGE_TIME) => Err(StoreError::Unavailable(UNSAVED.into())),
        }
    }

    /// Completes when the run of a job does something, or is over.
    async fn begun(&self, follower: &mut Follower) -> Option<Refusal> {
        loop {
            let live = follower.latest();
            if let Some(job) = live.job.filter(|job| job.status.is_terminal()) {
                return withdrawn(&job);
            }
            let works =
                |progress: Progress| progress.current_node.is_some() || progress.nodes_done > 0;
            if live.progress.is_some_and(works) {
                return None;
            }
            follower.changed().await;
        }
    }
}

/// Why a job was refused of which nothing is kept.
fn withdrawn(job: &Job) -> Option<Refusal> {
    let error = job.error.as_ref().filter(|_| job.is_withdrawn())?;
    Some(Refusal {
        message: error.message.clone(),
        node_errors: (*error.node_errors).clone(),
    })
}

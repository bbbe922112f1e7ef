//! What the engine of a submission says before the job is taken in.

use std::sync::Arc;

use super::{Jobs, JobsError, Submission};
use crate::{Availability, EngineWorkers, JUDGE_TIME, Plan, Refusal, Ticket, ValidGraph};

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
        };
        tokio::select! {
            biased;
            judged = workers.judge(&ticket) => judged.err(),
            () = self.ports.timer.sleep(JUDGE_TIME) => None,
        }
    }
}

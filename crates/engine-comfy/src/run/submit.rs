//! Submitting a prompt, also when the answer does not come.

use std::time::Duration;

use secrecy::ExposeSecret;
use tokio::time::{Instant, sleep};
use workflow_core::RunError;

use super::{NotHere, Run, failure, graph_for, stage};
use crate::client::{SubmitAnswer, WorkerError};
use crate::history::InQueue;
use crate::prompt;

/// How long a prompt is looked for whose submission was not answered.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// The pause between two looks.
const SEARCH_EVERY: Duration = Duration::from_millis(500);

/// How often a prompt is submitted in one claim.
const MOST_TRIES: u32 = 3;

/// Attempts of later claims are counted from here, so that no two prompts of a job have the same id.
const PER_CLAIM: u32 = 16;

/// The attempt of a try within a claim, which begin with 1 and 0.
pub(super) fn attempt(epoch: u32, again: u32) -> u32 {
    epoch
        .saturating_sub(1)
        .saturating_mul(PER_CLAIM)
        .saturating_add(again + 1)
}

impl Run<'_> {
    /// Brings the prompt into the worker's queue.
    /// `again` counts what was submitted in this claim.
    pub(super) async fn submit(&mut self, again: &mut u32) -> Result<(), NotHere> {
        let graph = graph_for(&self.worker, self.ticket)?;
        let mut staged_again = false;
        for _ in 0..MOST_TRIES {
            if self.context.cancel.is_cancelled() {
                return Err(RunError::Canceled(super::first(self.ticket)).into());
            }
            let attempt = attempt(self.context.fence.0, *again);
            let id = prompt::prompt_id(self.ticket.job, attempt);
            let secret = self.context.secret.as_ref();
            let config = &self.pool.config;
            let asked = (config.asked_previews)(&self.ticket.origin);
            let body = prompt::submission(
                self.ticket,
                &graph,
                id,
                &self.worker.client_id,
                asked.unwrap_or(&config.preview_method),
                secret.map(ExposeSecret::expose_secret),
            );
            // Before it is sent: its first messages may come before the answer.
            self.attend(id.to_string());
            match self.worker.client.submit(&body).await {
                Ok(SubmitAnswer::Accepted(_, other)) if other != self.prompt => {
                    self.worker.stray(&other);
                    self.worker.names_prompts();
                    self.pool.merge();
                    return Err(NotHere::Elsewhere);
                }
                Ok(SubmitAnswer::Accepted(number, _)) => {
                    self.worker.numbered(number);
                    return Ok(());
                }
                Ok(SubmitAnswer::Refused(answer, runs)) => {
                    if let Some(id) = runs {
                        // A run without some of its outputs is no success.
                        self.worker.stray(&id);
                    }
                    // Its folder of inputs may have been emptied.
                    let files = prompt::staged(&self.ticket.graph);
                    *again += 1;
                    if !files.is_empty() && !std::mem::replace(&mut staged_again, true) {
                        self.worker.forget_staged();
                        stage(self.pool, &self.worker, &files, self.context).await?;
                        continue;
                    }
                    return Err(RunError::Failed(failure::of_refusal(&answer)).into());
                }
                Err(WorkerError::Unsent(error)) => {
                    tracing::debug!(worker = self.worker.name, %error, "nothing was submitted");
                    return Err(NotHere::Away);
                }
                Err(error @ WorkerError::Unanswered(_)) => {
                    *again += 1;
                    self.worker.failed(&error.to_string());
                    if self.appeared().await {
                        return Ok(());
                    }
                    // It may appear later, and must not run then.
                    self.worker.stray(&self.prompt);
                    if !self.worker.is_up() {
                        return Err(NotHere::Elsewhere);
                    }
                }
                Err(error @ (WorkerError::Status { .. } | WorkerError::Garbage(_))) => {
                    self.worker.failed(&error.to_string());
                    return Err(NotHere::Elsewhere);
                }
            }
        }
        Err(NotHere::Elsewhere)
    }

    /// Looks for the prompt whose submission was not answered.
    async fn appeared(&self) -> bool {
        let began = Instant::now();
        loop {
            if let Ok(queue) = self.worker.client.queue().await {
                let place = queue.place(&self.prompt);
                if place != InQueue::Absent
                    || matches!(self.worker.client.history(&self.prompt).await, Ok(Some(_)))
                {
                    return true;
                }
            }
            if began.elapsed() >= SEARCH_TIME || self.context.cancel.is_cancelled() {
                return false;
            }
            sleep(SEARCH_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_attempts_share_a_number_and_the_first_is_one() {
        assert_eq!(attempt(1, 0), 1);
        let mut seen = std::collections::HashSet::new();
        for epoch in 1..50 {
            for again in 0..MOST_TRIES {
                assert!(seen.insert(attempt(epoch, again)));
            }
        }
    }
}

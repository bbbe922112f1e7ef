//! Taking up a prompt that an earlier claim of the job submitted: the server may have stopped while the worker went on.
//!
//! A prompt that waits, runs or succeeded is followed as if it were this claim's own, so nothing runs twice. One that failed or was
//! stopped is left alone: this claim submits its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use workflow_core::{Requirements, RunContext, RunError, Ticket};

use super::submit::attempt;
use super::{NotHere, Run};
use crate::history::{Ending, InQueue};
use crate::pool::Shared;
use crate::prompt::prompt_id;
use crate::worker::Worker;

/// Earlier claims whose prompts are looked for, and submissions of each.
const CLAIMS: u32 = 3;
const TRIES: u32 = 2;

/// How long workers are waited for that were not asked yet, and the pause between two looks.
const START_TIME: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Follows an earlier prompt of the job, if a worker has one that may still be of use; `None` if not.
pub(super) async fn take_up(
    pool: &Arc<Shared>,
    ticket: &Ticket,
    context: &RunContext,
    needs: &Requirements,
) -> Option<Result<(), RunError>> {
    let epoch = context.fence.0;
    let claims = epoch.saturating_sub(CLAIMS).max(1)..epoch;
    let prompts: Vec<String> = claims
        .rev()
        .flat_map(|claim| (0..TRIES).map(move |again| attempt(claim, again)))
        .map(|attempt| prompt_id(ticket.job, attempt).to_string())
        .collect();
    // After a start every worker is given the time to answer: the prompt may be at the last one.
    let all_tried = async {
        while pool.workers().iter().any(|worker| !worker.is_tried()) {
            sleep(LOOK_AGAIN).await;
        }
    };
    let _ = timeout(START_TIME, all_tried).await;
    for worker in pool.workers() {
        if !worker.answers() {
            continue;
        }
        let Some(prompt) = find(&worker, &prompts).await else {
            continue;
        };
        tracing::info!(worker = worker.name, job.id = %ticket.job, "a job is recovered at its worker");
        let place = pool.acquire_at(ticket.job, needs, &worker).await?;
        let mut run = match Run::begin(pool, &place.worker, ticket, context).await {
            Ok(run) => run,
            Err(NotHere::Ends(error)) => return Some(Err(error)),
            Err(NotHere::Elsewhere | NotHere::Away) => return None,
        };
        worker.warmed(&needs.files);
        run.attend(prompt);
        let ended = run.follow_from_now().await;
        run.count(&ended);
        return match ended {
            // It was stopped with the earlier claim, or it is gone: this claim submits its own.
            Err(RunError::Lost) if run.delivered.is_empty() => None,
            ended => Some(ended),
        };
    }
    None
}

/// The first of these prompts that a worker has and that did not fail.
async fn find(worker: &Worker, prompts: &[String]) -> Option<String> {
    let queue = worker.client.queue().await.ok()?;
    let in_queue = prompts
        .iter()
        .find(|prompt| queue.place(prompt) != InQueue::Absent);
    if let Some(prompt) = in_queue {
        return Some(prompt.clone());
    }
    for prompt in prompts {
        if let Ok(Some(entry)) = worker.client.history(prompt).await
            && entry.ending == Ending::Succeeded
        {
            return Some(prompt.clone());
        }
    }
    None
}

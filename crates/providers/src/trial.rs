//! Trying a model out: one call, from submission to result, with everything that was said.

use std::sync::Arc;
use std::time::Duration;

use router_core::{Collected, Done, Failure, Provider as _, Submission, Submitted, Timer};

use crate::load::LoadedModel;
use crate::talk::{Exchange, Tap};

/// What became of a trial.
#[derive(Debug)]
pub struct Trial {
    /// Everything that was sent and received, secrets masked, in order.
    pub exchanges: Vec<Exchange>,
    /// How it ended; `None` when time was up before.
    pub outcome: Option<Result<Done, Failure>>,
}

/// Runs a model once, for as long as `limit`. It is a real call, which the partner may charge for; its body is sent
/// whether or not it keeps to the model's schema, so that a schema can be tried, too.
pub async fn try_model(
    model: &LoadedModel,
    submission: Submission,
    limit: Duration,
    timer: &Arc<dyn Timer>,
) -> Trial {
    let tap = Tap::default();
    let runner = model.runner.tapped(tap.clone());
    let run = async {
        let (handle, mut poll_after) = match runner.submit(submission).await? {
            Submitted::Done(done) => return Ok(done),
            Submitted::Accepted {
                handle, poll_after, ..
            } => (handle, poll_after),
        };
        loop {
            timer.sleep(poll_after).await;
            match runner.collect(&handle).await? {
                Collected::Done(done) => return Ok(done),
                Collected::Pending { poll_after: next } => poll_after = next,
            }
        }
    };
    let outcome = tokio::time::timeout(limit, run).await.ok();
    Trial {
        exchanges: tap.take(),
        outcome,
    }
}

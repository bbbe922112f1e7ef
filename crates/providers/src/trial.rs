//! Trying a model out: one call, from submission to result, with everything that was said.

use std::sync::Arc;
use std::time::Duration;

use router_core::{Collected, Done, Failure, Provider, Submission, Submitted, Timer, Violation};

use crate::load::LoadedModel;
use crate::talk::{Exchange, ExchangeRecorder};

/// What became of a trial.
#[derive(Debug)]
pub struct Trial {
    /// Every way in which the body breaks the model's schema; a call would be refused for them.
    pub violations: Vec<Violation>,
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
    // What is no JSON is a violation, too: of being an object.
    let body = serde_json::from_slice(&submission.body).unwrap_or_default();
    let violations = model.model.document().violations(&body);
    let recorder = ExchangeRecorder::default();
    let runner: Arc<dyn Provider> = match &model.runner {
        Some(runner) => Arc::new(runner.tapped(recorder.clone())),
        None => Arc::clone(model.model.provider()),
    };
    let contact = submission.contact.clone();
    let run = async {
        let (handle, mut poll_after) = match runner.submit(submission).await? {
            Submitted::Done(done) => return Ok(done),
            Submitted::Accepted {
                handle, poll_after, ..
            } => (handle, poll_after),
        };
        loop {
            timer.sleep(poll_after).await;
            match runner.collect(&handle, &contact).await? {
                Collected::Done(done) => return Ok(done),
                Collected::Pending { poll_after: next } => poll_after = next,
            }
        }
    };
    let outcome = tokio::time::timeout(limit, run).await.ok();
    Trial {
        violations,
        exchanges: recorder.take(),
        outcome,
    }
}

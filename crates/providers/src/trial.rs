//! Trying a model out: one call, from submission to result, with everything that is said told as it happens.

use std::sync::Arc;
use std::time::Duration;

use router_core::{Collected, Done, Failure, Provider, Submission, Submitted, Timer};

use crate::load::LoadedModel;
use crate::talk::{ExchangeRecorder, Heard};

/// Runs a model once, for as long as `limit`, and tells `listener` what is sent and received, secrets masked. It is a real call,
/// which the partner may charge for; its body is sent whether or not it keeps to the model's schema, so that a schema can be
/// tried, too. Answers how it ended; `None` when time was up before.
pub async fn try_model(
    model: &LoadedModel,
    submission: Submission,
    limit: Duration,
    timer: &Arc<dyn Timer>,
    listener: impl FnMut(Heard) + Send + 'static,
) -> Option<Result<Done, Failure>> {
    let runner: Arc<dyn Provider> = match &model.runner {
        Some(runner) => Arc::new(runner.tapped(ExchangeRecorder::new(listener))),
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
    tokio::time::timeout(limit, run).await.ok()
}

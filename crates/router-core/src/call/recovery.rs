//! What was running when the router stopped last.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::Execution;
use super::execution::{self, Dispatch};
use super::verdict::Verdict;
use crate::router::Inner;
use crate::{Acceptance, CallsError, Generation, Router, Unfinished};

impl Router {
    /// Takes up what was dispatched and had not ended: to be called once, before the first request. What the partner is
    /// known to have accepted is given as executions to be spawned, which a retry with its key can pick up; everything else
    /// ends with an unknown outcome, is not billed, and consumes its key.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub async fn take_up(&self) -> Result<Vec<Execution>, CallsError> {
        let mut executions = Vec::new();
        for unfinished in self.0.ports.calls.unfinished().await? {
            match self.0.resumable(&unfinished) {
                Some((dispatch, accepted)) => {
                    let router = Arc::clone(&self.0);
                    let hold = u32::try_from(dispatch.generation.hold_cents).unwrap_or(u32::MAX);
                    let cause = execution::cause(dispatch.generation.id);
                    // Holds ended with the process that made them; what runs commits again, whatever there is.
                    let account = &dispatch.generation.account;
                    if let Err(error) = router.ports.accounts.reserve(account, cause, hold).await {
                        tracing::warn!(generation.id = %dispatch.generation.id, error = &error as &dyn std::error::Error, "no credits are held for a generation that is taken up");
                    }
                    executions.push(resume(router, dispatch, accepted));
                }
                None => {
                    tracing::warn!(generation.id = %unfinished.generation.id, "a generation ends with an unknown outcome");
                    let ending = Verdict::unknown().ending();
                    let Generation { id, account, .. } = unfinished.generation;
                    // A failure is logged there; the next start tries again.
                    let _ = execution::settle(&self.0, id, &account, ending, None).await;
                }
            }
        }
        Ok(executions)
    }
}

impl Inner {
    /// What it takes to go on, if the partner accepted and the model is still there.
    fn resumable(&self, unfinished: &Unfinished) -> Option<(Dispatch, Acceptance)> {
        let accepted = unfinished.accepted.clone()?;
        let generation = unfinished.generation.clone();
        let model = Arc::clone(self.catalog.current().runnable(&generation.model)?);
        let registered = self.running.enter(generation.id);
        registered.running.begin(None);
        let interval = execution::polling_interval(&model, &accepted);
        registered.running.accepted(interval);
        let permit = self
            .admission
            .resume(&generation.account, generation.hold_cents);
        let dispatch = Dispatch {
            generation,
            model,
            permit,
            registered,
        };
        Some((dispatch, accepted))
    }
}

fn resume(router: Arc<Inner>, dispatch: Dispatch, accepted: Acceptance) -> Execution {
    Box::pin(async move {
        let collected = execution::collect(&router, &dispatch, &accepted);
        let held_cents = dispatch.generation.hold_cents;
        let verdict = match AssertUnwindSafe(collected).catch_unwind().await {
            Ok(ended) => Verdict::of(ended, held_cents),
            Err(_) => Verdict::broken(),
        };
        execution::finish(&router, dispatch, verdict).await;
    })
}

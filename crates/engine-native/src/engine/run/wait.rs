//! Waiting for what nodes asked for, beside the calls under way; a run that does nothing else leaves its slot to others.

use std::panic::AssertUnwindSafe;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use workflow_core::{RunError, Taken};

use super::Run;
use crate::engine::call::{Asking, Outcome};
use crate::node::Awaited;
use crate::{NodeError, Wait};

/// Answers on their way.
#[derive(Default)]
pub(super) struct Waiting {
    under_way: FuturesUnordered<BoxFuture<'static, Answered>>,
}

/// An answer came, or will not.
pub(super) struct Answered {
    node: usize,
    asking: Box<Asking>,
    came: Result<Awaited, NodeError>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The next that comes; `None` if none is on its way. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Answered> {
        self.under_way.next().await
    }
}

impl Run {
    /// Waits for what a node asked for.
    pub(super) fn wait(&mut self, node: usize, asking: Box<Asking>, wait: Wait) {
        let answer = async move {
            let came = AssertUnwindSafe(wait.0).catch_unwind().await;
            let came = came.unwrap_or_else(|_| {
                tracing::error!("what a node waited for panicked");
                let message = "the node met an internal error; the server's log has the details";
                Err(NodeError::new("PanicError", message))
            });
            Answered { node, asking, came }
        };
        self.waiting.under_way.push(answer.boxed());
    }

    /// Leaves the slot until an answer has come, and waits for a slot to go on in.
    ///
    /// # Errors
    /// If the run is stopped meanwhile.
    pub(super) async fn rest(&mut self) -> Result<(), RunError> {
        let (cancel, permit) = (self.shared.cancel.clone(), self.permit.clone());
        permit.leave();
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return self.stop().await,
            answered = self.waiting.next() => answered,
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return self.stop().await,
            () = permit.take() => {}
        }
        if let Some(answered) = answered {
            self.answered(answered);
        }
        Ok(())
    }

    /// Takes an answer in; its node goes on as soon as one of the engine's threads is free.
    pub(super) fn answered(&mut self, answered: Answered) {
        self.answers.push_back(answered);
    }

    /// Lets a node go on with its answer.
    pub(super) fn go_on(&mut self, answered: Answered, permit: Taken) {
        let Answered { node, asking, came } = answered;
        self.spawn(node, permit, move || match came {
            Ok(awaited) => asking.answered(awaited),
            Err(error) => Outcome::Failed(error),
        });
    }
}

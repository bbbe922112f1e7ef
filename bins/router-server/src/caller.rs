//! Calls from within the process: the very calls that the API takes, without a connection.
//!
//! The same checks, keys, limits and rows hold for them.

use std::sync::Arc;

use accounts::Principal;
use bytes::Bytes;
use router_core::{Answer, CallHead, ModelId, RequestId, Router, RouterError, Timer};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Calls models. Clones are the same one.
#[derive(Clone)]
pub struct Caller {
    pub(crate) router: Router,
    pub(crate) executions: TaskTracker,
    pub(crate) clock: Arc<dyn Timer>,
    pub(crate) body_bytes: usize,
}

/// What is called.
#[derive(Clone, Debug)]
pub struct InnerCall {
    /// The model.
    pub model: ModelId,
    /// Its idempotency key: what makes the call pay once, however often it is repeated.
    pub key: String,
    /// Its JSON body.
    pub body: Bytes,
    /// A label of its record, `KEY=VALUE`: what it is made for.
    pub label: String,
}

impl Caller {
    /// Calls a model once, and waits for its answer. What was dispatched goes on when the future is dropped, and is picked up
    /// by whoever calls again with the same key.
    ///
    /// # Errors
    /// As the API answers.
    pub async fn call(&self, caller: &Principal, call: InnerCall) -> Result<Answer, RouterError> {
        let InnerCall {
            model,
            key,
            body,
            label,
        } = call;
        let head = CallHead {
            request: RequestId(Uuid::new_v4()),
            provider: model.provider(),
            model: model.model(),
            query: "",
            content_type: None,
            keys: &[key.as_bytes()],
            labels: &[label.as_bytes()],
        };
        let opened = self.router.open(caller, head, self.clock.now()).await?;
        if body.len() > self.body_bytes {
            let error = RouterError::TooLarge {
                limit_bytes: self.body_bytes as u64,
            };
            return Err(opened.refuse(error, self.clock.now()));
        }
        let (execution, waiter) = opened.run(body);
        let detach = router_http::detach(self.executions.clone());
        waiter.wait(execution, detach).await.whole().await
    }

    /// The clock that calls go by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Timer> {
        &self.clock
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("router", &self.router)
            .field("body_bytes", &self.body_bytes)
            .finish_non_exhaustive()
    }
}

//! A call, from its head to the future that carries it out.
//!
//! The checks that need no body are made by [`Router::open`]. [`OpenCall::run`] then gives two halves: the execution, which
//! goes on whatever becomes of the connection, and the waiter, which carries it out for as long as the caller waits.

pub(crate) mod desk;
mod estimate;
mod execution;
mod keeping;
mod legs;
mod prepare;
mod queued;
mod queued_start;
mod recovery;
mod route;
pub(crate) mod running;
mod settlement;
mod traces;
mod waiter;

use std::sync::Arc;

use accounts::{IdempotencyKey, Labels, Principal};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::labels;
use crate::router::{Inner, Purpose};
use crate::{CallRecord, GenerationId, KeyDigest, Model, ModelId, RequestId, Router, RouterError};
use prepare::Order;
use route::Route;
use waiter::Attempt;

pub use estimate::{Estimate, OpenEstimate};
pub use queued::{QueuedResult, RequestStatus, RequestsPage, SubmittedRequest};
pub use recovery::RenewError;
pub use waiter::{Answered, Delivery, Waiter};

/// What must be run to its end, whatever becomes of the connection.
pub type Execution = BoxFuture<'static, ()>;

/// The head of a call, before its body is read.
#[derive(Clone, Copy, Debug)]
pub struct CallHead<'a> {
    /// The request.
    pub request: RequestId,
    /// The first segment of the path, decoded.
    pub provider: &'a str,
    /// The second one.
    pub model: &'a str,
    /// The query, as it was sent.
    pub query: &'a str,
    /// The `Content-Type`; without one the body is taken for JSON.
    pub content_type: Option<&'a str>,
    /// The values of `Idempotency-Key`.
    pub keys: &'a [&'a [u8]],
    /// The values of `X-Service-Label`.
    pub labels: &'a [&'a [u8]],
}

/// A call whose head is right: its body may be read.
pub struct OpenCall {
    router: Arc<Inner>,
    caller: Principal,
    model: Arc<Model>,
    /// Its providers, if it names them.
    route: Option<Box<Route>>,
    query: String,
    record: Box<CallRecord>,
}

impl Router {
    /// Makes the checks that come before the body, in the contract's order: rate window, switch, scope, model, entitlement,
    /// media type, syntax of the key and of the labels, providers.
    ///
    /// # Errors
    /// With the first check that fails; the call is on record then.
    pub async fn open(
        &self,
        caller: &Principal,
        head: CallHead<'_>,
        now: Timestamp,
    ) -> Result<OpenCall, RouterError> {
        // On the heap, since it is handed on from one hand to the next.
        let mut record = Box::new(CallRecord {
            request: head.request,
            account: caller.account.clone(),
            model: ModelId::new(head.provider, head.model).ok(),
            key: None,
            generation: None,
            api_key: caller.key.clone(),
            labels: Labels::NONE,
            bucket: None,
            replayed: false,
            received_at: now,
            answered_at: now,
            delivered: true,
        });
        let entered = self.0.enter(caller, Purpose::Run, now).await;
        let checked = entered.and_then(|()| {
            let segments = (head.provider, head.model);
            let model = self.0.find(caller, record.model.as_ref(), segments, now)?;
            if !head.content_type.is_none_or(is_json) {
                return Err(RouterError::MediaType);
            }
            let key = key_of(head.keys)?;
            let labels = labels::of_headers(head.labels)?;
            let route = self.0.route(caller, &model, head.query, now)?;
            Ok((model, route, key, labels))
        });
        match checked {
            Ok((model, route, key, labels)) => {
                record.key = key;
                record.labels = labels;
                Ok(OpenCall {
                    router: Arc::clone(&self.0),
                    caller: caller.clone(),
                    model,
                    route,
                    query: head.query.to_owned(),
                    record,
                })
            }
            Err(error) => Err(refuse(&self.0, *record, error)),
        }
    }
}

impl OpenCall {
    /// The model that is called.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Ends the call because its body was not to be had: too large, or its sender left. It is on record then; the error comes
    /// back.
    pub fn refuse(self, error: RouterError, now: Timestamp) -> RouterError {
        let record = CallRecord {
            answered_at: now,
            ..*self.record
        };
        refuse(&self.router, record, error)
    }

    /// Takes the body: the call begins when its waiter is awaited with the execution. Dropping the waiter tells that the caller
    /// left.
    #[must_use]
    pub fn run(self, body: Bytes) -> (Execution, Waiter) {
        let attempt = Arc::new(Attempt::default());
        let (reply, replied) = oneshot::channel();
        let router = self.router;
        let order = Order {
            generation: GenerationId::from(self.record.request),
            caller: self.caller,
            model: self.model,
            route: self.route,
            query: self.query,
            key: self.record.key,
            labels: self.record.labels.clone(),
            body,
            received_at: self.record.received_at,
        };
        let run = execution::run(Arc::clone(&router), order, Arc::clone(&attempt), reply);
        let waiter = Waiter::new(router, attempt, replied, self.record);
        (run.boxed(), waiter)
    }
}

/// Writes down that a call ended before it began.
fn refuse(router: &Inner, record: CallRecord, error: RouterError) -> RouterError {
    router.ports.calls.record(CallRecord {
        bucket: Some(error.bucket()),
        delivered: !matches!(error, RouterError::Disconnected),
        ..record
    });
    error
}

fn is_json(content_type: &str) -> bool {
    const PREFIX: &str = "application/";
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let (Some(family), Some(kind)) = (essence.get(..PREFIX.len()), essence.get(PREFIX.len()..))
    else {
        return false;
    };
    let suffix = kind.len().checked_sub("+json".len());
    let suffix = suffix.and_then(|start| kind.get(start..));
    let is_structured = suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"));
    family.eq_ignore_ascii_case(PREFIX) && (is_structured || kind.eq_ignore_ascii_case("json"))
}

fn key_of(values: &[&[u8]]) -> Result<Option<KeyDigest>, RouterError> {
    let malformed = |reason: &str| RouterError::Malformed(reason.to_owned());
    let value = match values {
        [] => return Ok(None),
        [value] => std::str::from_utf8(value).ok(),
        [_, _, ..] => return Err(malformed("Idempotency-Key is given more than once")),
    };
    let key = value.and_then(|value| value.parse::<IdempotencyKey>().ok());
    let key = key.ok_or_else(|| {
        malformed("Idempotency-Key must have 1 to 255 printable ASCII characters")
    })?;
    Ok(Some(KeyDigest(key.digest("router"))))
}

impl std::fmt::Debug for OpenCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenCall({})", self.model.id())
    }
}

#[cfg(test)]
mod tests;

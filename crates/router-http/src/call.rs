//! `POST /v1/models/{provider}/{model}`: one call, from its head to its answer.
//!
//! The connection reads the body and then carries the call out while it waits; nothing of the request is held meanwhile. When
//! the client leaves, what runs goes on as a task of its own. Wherever that is, the call is written down.

use accounts::AccountId;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};
use hyper_kit::{Body, BodyError, BodyRoom, RoomError};
use jiff::Timestamp;
use router_core::{
    Answered, Bucket, CallHead, Execution, ModelId, OpenCall, RequestId, RouterError, Waiter,
};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::api::Asked;
use crate::errors::{ApiError, no_room};
use crate::headers::{IDEMPOTENCY_KEY, REPLAYED, YES};
use crate::{RouterService, delivery, reply};

/// A call whose body is to be read. Dropping it means that the client left.
pub(crate) struct Opened<'a> {
    call: Option<OpenCall>,
    account: AccountId,
    service: &'a RouterService,
}

/// A call whose answer is to be waited for.
pub(crate) struct Begun {
    execution: Execution,
    waiter: Waiter,
    /// Where the execution goes when the client leaves.
    executions: TaskTracker,
}

/// Opens a call of a known caller: every check that needs no body. The head is not needed afterwards.
///
/// # Errors
/// With the first check that fails; the call is written down then.
pub(crate) async fn open<'a>(
    service: &'a RouterService,
    asked: &Asked,
    head: &Parts,
    request: RequestId,
    now: Timestamp,
) -> Result<Opened<'a>, RouterError> {
    let values = head.headers.get_all(IDEMPOTENCY_KEY).iter();
    let keys: Vec<&[u8]> = values.map(|value| value.as_bytes()).collect();
    let mut types = head.headers.get_all(CONTENT_TYPE).iter();
    // Two types are none that counts.
    let content_type = match (types.next(), types.next()) {
        (None, _) => None,
        (Some(only), None) => Some(only.to_str().unwrap_or("unreadable")),
        (Some(_), Some(_)) => Some("several"),
    };
    let call = CallHead {
        request,
        provider: &asked.provider,
        model: &asked.model,
        query: head.uri.query().unwrap_or_default(),
        content_type,
        keys: &keys,
    };
    let call = service.router.open(&asked.caller, call, now).await?;
    Ok(Opened {
        call: Some(call),
        account: asked.caller.account.clone(),
        service,
    })
}

fn respond(answered: Answered, request: RequestId) -> Response<Body> {
    let mut response = match answered.result {
        Ok(answer) => reply::forwarded(StatusCode::OK, answer),
        Err(error) => ApiError::Router(error).into_response(request),
    };
    if answered.replayed {
        response.headers_mut().insert(REPLAYED, YES);
    }
    response.map(|body| delivery::telling(body, answered.delivery))
}

impl Begun {
    /// Waits for the answer; an error among the answers comes with its bucket.
    pub(crate) async fn answer(self, request: RequestId) -> (Response<Body>, Option<Bucket>) {
        let detach = detach(self.executions);
        let answered = self.waiter.wait(self.execution, detach).await;
        let bucket = answered.result.as_ref().err().map(RouterError::bucket);
        (respond(answered, request), bucket)
    }
}

/// Where an execution goes that nobody waits for any more: it becomes a task among `executions`, which count it from now on.
pub fn detach(executions: TaskTracker) -> impl FnOnce(Execution) + Send {
    let token = executions.token();
    move |execution| {
        // At the end of the program there is nowhere to go on; the next start takes up what runs.
        if let Ok(runtime) = Handle::try_current() {
            executions.spawn_on(execution, &runtime);
        }
        drop(token);
    }
}

impl Opened<'_> {
    /// Reads the body, once it has room; its bytes have it for as long as they are kept.
    ///
    /// # Errors
    /// If it cannot be read, or has no room.
    pub(crate) async fn run(
        self,
        body: Body,
        room: &BodyRoom<AccountId>,
    ) -> Result<Begun, RoomError> {
        let service = self.service;
        let config = &service.config;
        let read = room.read(&self.account, body, config.body_bytes, config.read_pace);
        let body = match read.await {
            Ok(body) => body,
            Err(error) => {
                self.refuse(&error);
                return Err(error);
            }
        };
        let (execution, waiter) = self.take().run(body);
        Ok(Begun {
            execution,
            waiter,
            executions: service.executions.clone(),
        })
    }

    /// The model that is called.
    pub(crate) fn model(&self) -> ModelId {
        let call = self.call.as_ref().expect("it is taken last");
        call.model().id().clone()
    }

    fn take(mut self) -> OpenCall {
        self.call.take().expect("it is taken once")
    }

    /// Ends the call because its body could not be read.
    fn refuse(mut self, error: &RoomError) {
        let error = match error {
            RoomError::Body(BodyError::TooLarge { limit }) => RouterError::TooLarge {
                limit_bytes: *limit,
            },
            RoomError::Body(BodyError::Idle) => RouterError::Malformed(error.to_string()),
            RoomError::Body(BodyError::Broken(_)) => RouterError::Disconnected,
            RoomError::NoRoom(bound) => no_room(*bound),
        };
        self.end(error);
    }

    fn end(&mut self, error: RouterError) {
        if let Some(call) = self.call.take() {
            call.refuse(error, self.service.clock.now());
        }
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.end(RouterError::Disconnected);
    }
}

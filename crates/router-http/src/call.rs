//! `POST /v1/models/{provider}/{model}`: one call, from its head to its answer.
//!
//! The connection reads the body and then carries the call out while it waits; nothing of the request is held meanwhile. When
//! the client leaves, what runs goes on as a task of its own. Wherever that is, the call is written down.

use accounts::AccountId;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, GetAll};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper_kit::{Body, BodyError, BodyRoom, RoomError};
use jiff::Timestamp;
use router_core::{
    Answered, Bucket, CallHead, Execution, ModelId, OpenCall, RequestId, RouterError,
    SubmittedRequest, Waiter,
};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::api::Asked;
use crate::dialect::Dialect;
use crate::errors::{ApiError, no_room};
use crate::headers::{self, CREDITS_USED, IDEMPOTENCY_KEY, LABEL, REPLAYED, UPSTREAM_STATUS, YES};
use crate::{RouterService, delivery, reply, stream};

/// A call whose body is to be read. Dropping it means that the client left.
pub(crate) struct Opened<'a> {
    call: Option<OpenCall>,
    account: AccountId,
    /// The cap on what the account may commit, where its answers tell how much is.
    cap_cents: Option<u64>,
    service: &'a RouterService,
}

/// A call whose answer is to be waited for.
pub(crate) struct Begun {
    execution: Execution,
    waiter: Waiter,
    /// Where the execution goes when the client leaves.
    executions: TaskTracker,
    /// Whose answer tells what is committed, and under which cap.
    committed: Option<(AccountId, u64)>,
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
    let values = head.headers.get_all(LABEL).iter();
    let labels: Vec<&[u8]> = values.map(|value| value.as_bytes()).collect();
    let types = head.headers.get_all(CONTENT_TYPE);
    let call = CallHead {
        request,
        provider: &asked.provider,
        model: &asked.model,
        query: head.uri.query().unwrap_or_default(),
        content_type: content_type(&types),
        keys: &keys,
        labels: &labels,
    };
    let call = service.router.open(&asked.caller, call, now).await?;
    Ok(Opened {
        call: Some(call),
        account: asked.caller.account.clone(),
        cap_cents: (asked.dialect == Dialect::Second)
            .then_some(asked.caller.tier.router.committed_spend_cents),
        service,
    })
}

/// The media type of a body as it is sent; without one it is taken for JSON. Two types are none that counts.
pub(crate) fn content_type<'a>(types: &GetAll<'a, HeaderValue>) -> Option<&'a str> {
    let mut types = types.iter();
    match (types.next(), types.next()) {
        (None, _) => None,
        (Some(only), None) => Some(only.to_str().unwrap_or("unreadable")),
        (Some(_), Some(_)) => Some("several"),
    }
}

fn respond(answered: Answered, request: RequestId, dialect: Dialect) -> Response<Body> {
    let stream = answered.stream.and_then(|rest| {
        let first = answered.result.as_ref().ok()?;
        Some((first.body.clone(), rest))
    });
    let mut response = match answered.result {
        Ok(answer) => {
            let mut response = reply::forwarded(StatusCode::OK, answer);
            headers::served_by(response.headers_mut(), answered.serving.as_deref());
            response
        }
        Err(error) => ApiError::Router(error).into_response(request, dialect),
    };
    if let Some(status) = answered.upstream_status {
        let fields = response.headers_mut();
        fields.insert(UPSTREAM_STATUS, HeaderValue::from(status));
    }
    if answered.replayed {
        response.headers_mut().insert(REPLAYED, YES);
    }
    match stream {
        Some((first, rest)) => stream::streaming(response, first, rest, answered.delivery),
        None => response.map(|body| delivery::telling(body, answered.delivery)),
    }
}

impl Begun {
    /// Waits for the answer; an error among the answers comes with its bucket.
    ///
    /// While it waits it holds what waiting needs, and neither its arguments nor what comes after.
    pub(crate) fn answer<'a>(
        self,
        service: &'a RouterService,
        request: RequestId,
        dialect: Dialect,
    ) -> impl Future<Output = (Response<Body>, Option<Bucket>)> + Send + use<'a> {
        let Self {
            execution,
            waiter,
            executions,
            committed,
        } = self;
        let waiting = Box::pin(waiter.wait(execution, detach(executions)));
        async move {
            let told = told(waiting.await, request, dialect);
            let (mut response, bucket, admitted) = told;
            if let (Some((account, cap)), Some(charge_cents)) = (&committed, admitted) {
                let fields = response.headers_mut();
                let told = tell_spend(fields, service, (account, *cap), charge_cents);
                Box::pin(told).await;
            }
            (response, bucket)
        }
    }
}

/// The response with its bucket, if it is an error; and of a call that was admitted what it was billed just now, if anything was.
fn told(
    answered: Answered,
    request: RequestId,
    dialect: Dialect,
) -> (Response<Body>, Option<Bucket>, Option<Option<u64>>) {
    let bucket = answered.result.as_ref().err().map(RouterError::bucket);
    let admitted = answered.is_admitted.then_some(answered.charge_cents);
    (respond(answered, request, dialect), bucket, admitted)
}

/// Tells an answer below `/v2` what its call cost, if that is settled, and what the account has committed under its cap.
pub(crate) async fn tell_spend(
    fields: &mut HeaderMap,
    service: &RouterService,
    (account, cap_cents): (&AccountId, u64),
    charge_cents: Option<u64>,
) {
    if let Some(cents) = charge_cents {
        fields.insert(CREDITS_USED, HeaderValue::from(cents));
    }
    let now = service.clock.now();
    // Without it the answer is as good.
    if let Ok(current) = service.router.committed_cents(account, now).await {
        headers::commit(fields, cap_cents, current);
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
        let committed = self.cap_cents.map(|cap| (self.account.clone(), cap));
        let (call, body) = self.read(body, room).await?;
        let (execution, waiter) = call.run(body);
        Ok(Begun {
            execution,
            waiter,
            executions: service.executions.clone(),
            committed,
        })
    }

    /// Reads the body as [`Opened::run`] does, and submits the call to the queue.
    ///
    /// # Errors
    /// If it cannot be read, or has no room.
    pub(crate) async fn submit(
        self,
        body: Body,
        room: &BodyRoom<AccountId>,
    ) -> Result<SubmittedRequest, RoomError> {
        let (call, body) = self.read(body, room).await?;
        Ok(call.enqueue(body).await)
    }

    async fn read(
        self,
        body: Body,
        room: &BodyRoom<AccountId>,
    ) -> Result<(OpenCall, Bytes), RoomError> {
        let config = &self.service.config;
        let read = room.read(&self.account, body, config.body_bytes, config.read_pace);
        match read.await {
            Ok(body) => Ok((self.take(), body)),
            Err(error) => {
                self.refuse(&error);
                Err(error)
            }
        }
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

//! The dispatch of queued requests: one after the other, as soon as their accounts have room.

use std::sync::Arc;

use accounts::Principal;
use futures_util::FutureExt;

use super::Execution;
use super::execution::{Dispatch, carry_out, finish, release_hold, release_room};
use super::prepare::{Order, RoomLapsed, admit, unavailable};
use super::settlement::Settlement;
use crate::router::Inner;
use crate::{
    Bucket, CallsError, GenerationId, Permit, QueueFailure, QueuedCall, Router, RouterError,
    WaitingCall,
};

/// Most requests that are ended at once because they waited too long.
const OVERDUE: usize = 64;

/// What came of a request that was next.
enum Start {
    Dispatched(Box<Dispatch>, Box<QueuedCall>),
    /// It waits on: its account has no room.
    NoRoom,
    /// It is over, or was before.
    Over,
}

/// What becomes of a request that is not dispatched.
enum Held {
    /// It waits on, and its account is looked at again when it has room.
    NoRoom,
    /// It waits on, and the rows are asked again in a while.
    Trouble(RouterError),
    /// It is over.
    Over(RouterError),
}

impl Router {
    /// Dispatches the next queued request whose account has room; the execution is to be spawned. `None` if there is none now:
    /// [`Router::queue_rings`] tells when to ask again. One caller at a time asks, and awaits the answer: what is dropped in
    /// between may be dispatched, and is then ended as unknown when its lease lapses.
    ///
    /// # Errors
    /// If the rows cannot be read or written; to be tried again in a while.
    pub async fn start_queued(&self) -> Result<Option<Execution>, RouterError> {
        self.0.end_overdue().await?;
        let queue = &self.0.ports.queue;
        while let Some(next) = self.0.desk.next(&**queue) {
            let (account, id) = (next.account.clone(), next.id);
            let started = self.0.start(next).await;
            let is_cancelled = self.0.desk.started();
            if !matches!(started, Ok(Start::NoRoom)) {
                self.0.desk.allow(&account);
            }
            if is_cancelled && matches!(started, Ok(Start::NoRoom) | Err(_)) {
                // It has its place back, and is over there.
                let now = self.0.ports.timer.now();
                let cancelled = queue.cancel(&account, id, now).await;
                cancelled.map_err(unavailable)?;
            }
            if let Start::Dispatched(dispatch, call) = started? {
                let running = &dispatch.registered.running;
                if is_cancelled {
                    running.cancel();
                }
                running.begin(None);
                let router = Arc::clone(&self.0);
                return Ok(Some(carry_out_queued(router, dispatch, call).boxed()));
            }
        }
        Ok(None)
    }

    /// Completes when there may be a queued request to dispatch.
    pub async fn queue_rings(&self) {
        self.0.desk.rung().await;
    }

    /// Has accounts looked at again that had no room: limits change, and room comes from other processes, where nobody rings.
    pub fn look_at_queue_again(&self) {
        self.0.desk.unblock();
    }
}

impl Inner {
    /// Takes a request and makes its generation durable.
    async fn start(&self, next: WaitingCall) -> Result<Start, RouterError> {
        let away =
            |error: Box<dyn std::error::Error + Send + Sync>| RouterError::Unavailable(error);
        let found = self.ports.accounts.by_id(&next.account).await;
        let Some(caller) = found.map_err(|error| away(error.into()))? else {
            let error = RouterError::Forbidden("the workspace is not active".into());
            return self.end(next.id, &error).await.map(|()| Start::Over);
        };
        let now = self.ports.timer.now();
        let load = self.ports.quota.load(&next.account, now).await;
        let load = load.map_err(|error| away(error.into()))?;
        if load.calls >= caller.tier.router.concurrent_calls {
            // Its body stays where it is.
            return Ok(Start::NoRoom);
        }
        let taken = self.ports.queue.take(next.id, now).await;
        let Some(call) = taken.map_err(unavailable)? else {
            return Ok(Start::Over);
        };
        match self.dispatch_queued(&caller, &call).await {
            Ok(dispatch) => Ok(Start::Dispatched(dispatch, Box::new(call))),
            Err(Held::NoRoom) => {
                self.ports.queue.put_back(next);
                Ok(Start::NoRoom)
            }
            Err(Held::Trouble(error)) => {
                self.ports.queue.put_back(next);
                Err(error)
            }
            Err(Held::Over(error)) => self.end(next.id, &error).await.map(|()| Start::Over),
        }
    }

    async fn dispatch_queued(
        &self,
        caller: &Principal,
        call: &QueuedCall,
    ) -> Result<Box<Dispatch>, Held> {
        let order = self.order(caller, call).map_err(Held::Over)?;
        match admit(self, &order).await {
            Ok(mut dispatch) => {
                // A queued request replays its result whatever its size, which the provider bounds.
                dispatch.kept_bytes = usize::MAX;
                Ok(dispatch)
            }
            Err(error) => {
                release_hold(self, &call.account, call.id).await;
                let permit = Permit {
                    account: &call.account,
                    generation: call.id,
                    hold_cents: 0,
                };
                release_room(self, permit).await;
                Err(not_admitted(error))
            }
        }
    }

    /// The request as a call of its account, which must still be allowed to make it.
    fn order(&self, caller: &Principal, call: &QueuedCall) -> Result<Order, RouterError> {
        if !caller.router {
            return Err(RouterError::NotEnabled);
        }
        if !caller.subscribed {
            return Err(RouterError::Forbidden(
                "the subscription of this workspace is not active".into(),
            ));
        }
        let segments = (call.model.provider(), call.model.model());
        let now = self.ports.timer.now();
        let model = self.find(caller, Some(&call.model), segments, now)?;
        Ok(Order {
            generation: call.id,
            route: self.route(caller, &model, &call.query, now)?,
            model,
            // As it was submitted; what the key allows was judged then.
            caller: Principal {
                key: call.api_key.clone(),
                ..caller.clone()
            },
            query: call.query.clone(),
            key: Some(call.key),
            labels: call.labels.clone(),
            body: call.body.clone(),
            received_at: call.received_at,
        })
    }

    async fn end(&self, id: GenerationId, error: &RouterError) -> Result<(), RouterError> {
        let failure = if matches!(error, RouterError::WaitedTooLong) {
            QueueFailure::WaitedTooLong
        } else {
            QueueFailure::NotDispatched {
                bucket: error.bucket(),
                message: error.to_string(),
            }
        };
        let now = self.ports.timer.now();
        let ended = self.ports.queue.end(id, failure, now).await;
        ended.map_err(unavailable)
    }

    /// Ends what waited longer than it may.
    async fn end_overdue(&self) -> Result<(), RouterError> {
        let waits = self.config.queue_time;
        let now = self.ports.timer.now();
        let Ok(before) = now.checked_sub(waits) else {
            return Ok(());
        };
        for id in self.ports.queue.overdue(before, OVERDUE) {
            self.end(id, &RouterError::WaitedTooLong).await?;
        }
        Ok(())
    }
}

/// What becomes of a request that has no credits or no room, cannot be dispatched at all, or was not written down. Unless it is
/// certain that its generation was not, it is not dispatched again.
fn not_admitted(error: RouterError) -> Held {
    if matches!(error, RouterError::InFlight { .. }) {
        // Its key was forgotten while it waited.
        return Held::Over(RouterError::WaitedTooLong);
    }
    // What is dearer than the whole cap never has room.
    let is_dearest = matches!(
        error,
        RouterError::SpendCap {
            hold_cents,
            limit_cents,
            ..
        } if hold_cents > limit_cents
    );
    let needs_room = matches!(
        error,
        RouterError::TooManyCalls { .. } | RouterError::SpendCap { .. }
    );
    if needs_room && !is_dearest {
        return Held::NoRoom;
    }
    let RouterError::Unavailable(source) = error else {
        return Held::Over(error);
    };
    let may_be_written = matches!(
        source.downcast_ref::<CallsError>(),
        Some(CallsError::Unavailable(_))
    );
    if !may_be_written && !source.is::<RoomLapsed>() {
        return Held::Trouble(RouterError::Unavailable(source));
    }
    Held::Over(RouterError::NotDispatched {
        bucket: Bucket::ServiceUnavailable,
        message: "the request could not be recorded and was not run; submit it again".to_owned(),
    })
}

async fn carry_out_queued(router: Arc<Inner>, dispatch: Box<Dispatch>, call: Box<QueuedCall>) {
    if let Err(error) = router.ports.queue.dispatched(call.id).await {
        // The next start sees it by its generation.
        let error: &dyn std::error::Error = &error;
        tracing::warn!(generation.id = %call.id, error, "the body of a request stays for now");
    }
    if dispatch.registered.running.is_cancelled() {
        return finish(&router, dispatch, Some(Settlement::withdrawn())).await;
    }
    let QueuedCall { body, .. } = *call;
    carry_out(&router, dispatch, body).boxed().await;
}

//! Carrying a call out: everything behind the body, in the contract's order, up to the settled generation.
//!
//! Runs detached from the connection. What it took (key, hold, permit) it gives back on every way out, and until the partner
//! is asked it stops as soon as its waiter has left. What it needs to prepare is gone before it waits for the partner.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Cause, Reservation, Standing};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::oneshot;

use super::running::{Registered, Reply};
use super::verdict::{Verdict, told};
use super::waiter::Attempt;
use crate::admission::Permit;
use crate::router::Inner;
use crate::{
    Bucket, CallsError, Claimed, Collected, Done, Ending, Failure, Generation, GenerationId,
    Handle, KeyClaim, Model, Outcome, Ran, RouterError, Settled, Submission, Submitted, body,
};

/// When to ask again for a key whose call has not been dispatched yet.
const IN_FLIGHT_RETRY: Duration = Duration::from_secs(1);

/// Bounds of the polling interval: a provider that names none must not be asked without pause.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3600));

/// How often the end of a generation is written again while the store refuses it, with growing pauses: about a minute.
const SETTLE_ATTEMPTS: u32 = 16;

/// The longest of these pauses.
const SETTLE_PAUSE: Duration = Duration::from_secs(5);

/// What is to be carried out.
pub(super) struct Order {
    pub(super) generation: GenerationId,
    pub(super) caller: Standing,
    pub(super) model: Arc<Model>,
    pub(super) claim: Option<KeyClaim>,
    pub(super) body: Bytes,
    pub(super) received_at: Timestamp,
}

/// What a dispatched generation holds until it is settled.
pub(super) struct Dispatch {
    pub(super) generation: Generation,
    pub(super) model: Arc<Model>,
    pub(super) permit: Permit,
    pub(super) registered: Registered,
}

/// Carries an order out and replies to its waiter.
pub(super) fn run(
    router: Arc<Inner>,
    order: Order,
    attempt: Arc<Attempt>,
    reply: oneshot::Sender<Reply>,
) -> impl Future<Output = ()> + Send {
    // On the heap, so that what preparing needs does not stay with the execution while it waits for the partner.
    let preparing = prepare(Arc::clone(&router), order, attempt, reply).boxed();
    async move {
        if let Some((dispatch, body)) = preparing.await {
            carry_out(&router, dispatch, body).await;
        }
    }
}

/// Everything before the partner is asked. Replies by itself unless there is something to dispatch.
async fn prepare(
    router: Arc<Inner>,
    order: Order,
    attempt: Arc<Attempt>,
    reply: oneshot::Sender<Reply>,
) -> Option<(Dispatch, Bytes)> {
    let (result, replayed, generation) = match claim(&router, &order, &attempt).await {
        Ok(Start::Fresh) => {
            let engaged = AssertUnwindSafe(engage(&router, &order, &attempt)).catch_unwind();
            let engaged = engaged.await.unwrap_or_else(|_| Err(panicked()));
            match engaged {
                Ok(dispatch) => {
                    let followed = dispatch.registered.running.follow(reply);
                    debug_assert!(followed.is_ok(), "nobody else knows of the generation yet");
                    return Some((dispatch, order.body));
                }
                Err(error) => {
                    give_back(&router, &order, &error).await;
                    (Err(error), false, None)
                }
            }
        }
        Ok(Start::Follow(running, generation)) => match running.follow(reply) {
            Ok(()) => return None,
            Err(reply) => {
                // Somebody else waits for it.
                let retry_after = running.retry_after().unwrap_or(IN_FLIGHT_RETRY);
                let _ = reply.send(Reply {
                    result: Err(RouterError::InFlight { retry_after }),
                    generation: Some(generation),
                    replayed: false,
                });
                return None;
            }
        },
        Ok(Start::Replay(generation, outcome)) => (told(outcome), true, Some(generation)),
        Err(error) => (Err(error), false, None),
    };
    let _ = reply.send(Reply {
        result,
        generation,
        replayed,
    });
    None
}

/// How a call starts, by its key.
enum Start {
    Fresh,
    Follow(Arc<super::running::Running>, GenerationId),
    Replay(GenerationId, Outcome),
}

async fn claim(router: &Inner, order: &Order, attempt: &Attempt) -> Result<Start, RouterError> {
    let Some(claim) = &order.claim else {
        return Ok(Start::Fresh);
    };
    let claimed = router.ports.calls.claim(claim.clone(), order.received_at);
    match claimed.await.map_err(unavailable)? {
        Claimed::Fresh => Ok(Start::Fresh),
        Claimed::InFlight => Err(RouterError::InFlight {
            retry_after: IN_FLIGHT_RETRY,
        }),
        Claimed::PickUp(generation) => {
            // It may have ended since it was looked up; then its key answers when it is asked again.
            let running = router
                .running
                .get(generation)
                .ok_or(RouterError::InFlight {
                    retry_after: IN_FLIGHT_RETRY,
                })?;
            let _ = attempt.follow(generation, &running);
            Ok(Start::Follow(running, generation))
        }
        Claimed::Replay(generation, outcome) => Ok(Start::Replay(generation, outcome)),
        Claimed::NotReplayable(_) => Err(RouterError::NotReplayable),
        Claimed::Conflict => Err(RouterError::KeyConflict),
    }
}

/// From the credits to the durable row.
async fn engage(router: &Inner, order: &Order, attempt: &Attempt) -> Result<Dispatch, RouterError> {
    still_wanted(attempt)?;
    let view = body::view(&order.body);
    // The price of a body that cannot be read is that of an unknown one: credits are judged before the body.
    let priced = view.as_ref().unwrap_or(&Value::Null);
    let hold_cents = order.model.provider().price(priced).hold_cents();
    let hold = u32::try_from(hold_cents).unwrap_or(u32::MAX);
    let reserved = router
        .ports
        .accounts
        .reserve(&order.caller.account, cause(order.generation), hold)
        .await
        .map_err(|error| RouterError::Unavailable(Box::new(error)))?;
    match reserved {
        Reservation::Held => {}
        Reservation::Insufficient { .. } => return Err(RouterError::InsufficientCredits),
    }
    let view = view.map_err(RouterError::Malformed)?;
    let violations = order.model.document().violations(&view);
    if !violations.is_empty() {
        return Err(RouterError::Schema(violations));
    }
    drop(view);
    let account = order.caller.account.clone();
    let limits = &order.caller.tier.router;
    let permit = router.admission.admit(&account, hold_cents, limits)?;
    still_wanted(attempt)?;
    let registered = router.running.enter(order.generation);
    let generation = Generation {
        id: order.generation,
        account,
        model: order.model.id().clone(),
        hold_cents,
        dispatched_at: router.ports.timer.now(),
    };
    let dispatched = router.ports.calls.dispatch(generation.clone());
    dispatched.await.map_err(unavailable)?;
    attempt
        .follow(order.generation, &registered.running)
        .map_err(left)?;
    Ok(Dispatch {
        generation,
        model: Arc::clone(&order.model),
        permit,
        registered,
    })
}

/// Gives back what a call took that ends before the partner was asked.
async fn give_back(router: &Inner, order: &Order, error: &RouterError) {
    release_hold(router, &order.caller.account, order.generation).await;
    // Without a key, only a call whose row was or may have been written has something to end.
    let has_row = matches!(
        error,
        RouterError::Disconnected | RouterError::Deadline { .. } | RouterError::Unavailable(_)
    );
    if order.claim.is_some() || has_row {
        let ending = Ending::Released(error.bucket());
        // A failure is logged there, and the claim is void at the next start.
        let _ = settle(router, order.generation, ending, None).await;
    }
}

/// Asks the partner and settles what comes of it. From here on nothing stops it.
async fn carry_out(router: &Inner, dispatch: Dispatch, body: Bytes) {
    let worked = AssertUnwindSafe(work(router, &dispatch, body))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Worked::broken());
    finish(router, dispatch, worked).boxed().await;
}

impl Dispatch {
    fn submit(&self, body: Bytes) -> BoxFuture<'_, Result<Submitted, Failure>> {
        self.model.provider().submit(Submission {
            generation: self.generation.id,
            account: self.generation.account.clone(),
            model: self.generation.model.clone(),
            body,
            written: self.registered.running.written.clone(),
        })
    }
}

/// How the work at the partner ended, and the partner's own name of it.
pub(super) struct Worked {
    pub(super) verdict: Verdict,
    pub(super) task_id: Option<String>,
}

impl Worked {
    pub(super) fn of(
        ended: Result<Done, Failure>,
        accepted_as: Option<String>,
        held_cents: u64,
    ) -> Self {
        let own = ended.as_ref().ok().and_then(|done| done.task_id.clone());
        Self {
            verdict: Verdict::of(ended, held_cents),
            task_id: own.or(accepted_as),
        }
    }

    pub(super) fn broken() -> Self {
        Self {
            verdict: Verdict::broken(),
            task_id: None,
        }
    }
}

async fn work(router: &Inner, dispatch: &Dispatch, body: Bytes) -> Worked {
    let held_cents = dispatch.generation.hold_cents;
    match dispatch.submit(body).await {
        Ok(Submitted::Done(done)) => Worked::of(Ok(done), None, held_cents),
        Ok(Submitted::Accepted {
            handle,
            task_id,
            poll_after,
        }) => {
            let poll_after = poll_after.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1);
            note_accepted(router, dispatch, &handle, poll_after, task_id.as_deref()).await;
            let ended = collect(router, dispatch, &handle, poll_after).await;
            Worked::of(ended, task_id, held_cents)
        }
        Err(failure) => Worked::of(Err(failure), None, held_cents),
    }
}

/// Makes the handle durable. If that fails the work goes on: only a restart could not pick it up.
async fn note_accepted(
    router: &Inner,
    dispatch: &Dispatch,
    handle: &Handle,
    poll_after: Duration,
    task_id: Option<&str>,
) {
    let id = dispatch.generation.id;
    let now = router.ports.timer.now();
    let noted = router
        .ports
        .calls
        .accepted(id, handle, poll_after, task_id, now);
    match noted.await {
        Ok(()) => dispatch.registered.running.accepted(poll_after),
        Err(error) => {
            tracing::error!(generation.id = %id, error = &error as &dyn std::error::Error, "the handle of a running generation was not stored");
        }
    }
}

/// Polls accepted work to its end.
pub(super) async fn collect(
    router: &Inner,
    dispatch: &Dispatch,
    handle: &Handle,
    first_poll: Duration,
) -> Result<Done, Failure> {
    let provider = dispatch.model.provider();
    let (mut waited, mut pause) = (Duration::ZERO, first_poll);
    while waited < router.config.give_up_after {
        router.ports.timer.sleep(pause).await;
        waited += pause;
        match provider.collect(handle).await? {
            Collected::Done(done) => return Ok(done),
            Collected::Pending { poll_after } => {
                pause = poll_after.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1);
            }
        }
    }
    provider.cancel(handle).await;
    Err(Failure::TimedOut {
        ran: Ran::Perhaps,
        message: "the provider did not finish in time".to_owned(),
    })
}

/// Settles a generation, gives its room back and replies to whoever waits for it.
pub(super) async fn finish(router: &Inner, dispatch: Dispatch, worked: Worked) {
    let Dispatch {
        generation,
        permit,
        registered,
        ..
    } = dispatch;
    let ending = worked.verdict.ending();
    if matches!(ending, Ending::Released(_)) {
        release_hold(router, &generation.account, generation.id).await;
    }
    let settled = settle(router, generation.id, ending, worked.task_id.as_deref()).await;
    // The room is free before the caller hears of the end, so that its next call finds it.
    drop(permit);
    registered.end(Reply {
        result: settled.and_then(|()| worked.verdict.result()),
        generation: Some(generation.id),
        replayed: false,
    });
}

/// Writes the end of a generation down, again and again while the store refuses it: nobody may be told before. What stays
/// unwritten is taken up at the next start.
pub(super) async fn settle(
    router: &Inner,
    id: GenerationId,
    ending: Ending,
    task_id: Option<&str>,
) -> Result<(), RouterError> {
    let mut pause = Duration::from_millis(50);
    let mut attempts = 0;
    loop {
        let now = router.ports.timer.now();
        let settled = router.ports.calls.settle(id, ending.clone(), task_id, now);
        let error = match settled.await {
            Ok(Settled::Now | Settled::Before) => return Ok(()),
            Err(error) => error,
        };
        attempts += 1;
        if attempts == SETTLE_ATTEMPTS {
            tracing::error!(generation.id = %id, error = &error as &dyn std::error::Error, "the end of a generation was not stored");
            return Err(RouterError::Internal(Box::new(error)));
        }
        router.ports.timer.sleep(pause).await;
        pause = (pause * 2).min(SETTLE_PAUSE);
    }
}

pub(super) async fn release_hold(router: &Inner, account: &AccountId, id: GenerationId) {
    let released = router.ports.accounts.release(account, cause(id));
    if let Err(error) = released.await {
        tracing::error!(generation.id = %id, error = &error as &dyn std::error::Error, "a hold on credits was not released");
    }
}

pub(super) fn cause(id: GenerationId) -> Cause {
    Cause::Generation(id.0)
}

fn still_wanted(attempt: &Attempt) -> Result<(), RouterError> {
    attempt
        .abandoned()
        .map_or(Ok(()), |reason| Err(left(reason)))
}

/// Nothing was dispatched because the waiter left for this reason.
fn left(reason: Bucket) -> RouterError {
    if reason == Bucket::DeadlineExceeded {
        RouterError::Deadline { retry_after: None }
    } else {
        RouterError::Disconnected
    }
}

fn unavailable(error: CallsError) -> RouterError {
    RouterError::Unavailable(Box::new(error))
}

fn panicked() -> RouterError {
    RouterError::Internal("the preparation of a call panicked".into())
}

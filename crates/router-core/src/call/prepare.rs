//! Everything before the partner is asked: the key, the credits, the body, the room, the durable row, in this order.
//!
//! What a call took on the way it gives back if it ends here, and it ends here as soon as its waiter has left.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use accounts::{Fingerprint, Labels, Payer, Principal};
use bytes::Bytes;
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::oneshot;

use super::execution::{Dispatch, release_hold, release_room, settle};
use super::keeping::Keeping;
use super::route::{Leg, Route};
use super::running::{Reply, Running};
use super::settlement::told;
use super::waiter::Attempt;
use crate::calls::IN_FLIGHT_RETRY;
use crate::router::Inner;
use crate::{
    Bucket, CallAdmission, CallsError, Claimed, Ending, Generation, GenerationId, KeyClaim,
    KeyDigest, LeftCall, Model, ModelId, Outcome, Permit, Price, REPLAY_CAP_BYTES, RouterError,
    Serving, body,
};

/// How long a key is kept from its first call on.
pub(super) const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// What the fingerprint of a call begins with.
const CALL: &str = "POST";

/// What that of a submission to the queue begins with.
pub(super) const SUBMISSION: &str = "POST requests";

/// From this size on a body is read aside: it takes a millisecond and more, in which nobody else would get on.
const LARGE_BYTES: usize = 256 * 1024;

/// How often a retry looks whether the process that runs its generation has settled it.
const ELSEWHERE_PAUSE: Duration = Duration::from_secs(1);

/// What is to be carried out.
pub(super) struct Order {
    pub(super) generation: GenerationId,
    pub(super) caller: Principal,
    pub(super) model: Arc<Model>,
    /// Its providers, if it names them.
    pub(super) route: Option<Box<Route>>,
    /// The query, as it was sent.
    pub(super) query: String,
    pub(super) key: Option<KeyDigest>,
    pub(super) labels: Labels,
    pub(super) body: Bytes,
    pub(super) received_at: Timestamp,
}

/// What a body comes to.
pub(super) struct Judged {
    pub(super) price: Price,
    pub(super) hold_cents: u64,
    /// Whether it asks for a stream.
    pub(super) streams: bool,
    /// Who takes it, if the call names its providers.
    pub(super) legs: Option<Box<[Leg]>>,
    /// Whether it can be dispatched.
    pub(super) settlement: Result<(), RouterError>,
}

/// How a call starts, by its key.
enum Start {
    Fresh,
    Follow(Arc<Running>, GenerationId),
    Replay(GenerationId, Outcome),
}

/// Prepares an order. Replies by itself unless there is something to dispatch.
pub(super) async fn prepare(
    router: Arc<Inner>,
    order: Order,
    attempt: Arc<Attempt>,
    reply: oneshot::Sender<Reply>,
) -> Option<(Box<Dispatch>, Bytes)> {
    let start = match claim(&router, &order, &attempt).await {
        Ok(start) => start,
        Err(error) => return refuse(reply, error, None),
    };
    match start {
        Start::Fresh => {}
        Start::Follow(running, generation) => {
            // Another call may wait for it already.
            if let Err(reply) = running.follow(reply) {
                let retry_after = running.retry_after().unwrap_or(IN_FLIGHT_RETRY);
                let error = RouterError::InFlight { retry_after };
                return refuse(reply, error, Some(generation));
            }
            return None;
        }
        Start::Replay(generation, outcome) => {
            let serving = match &order.route {
                Some(_) => served_by(&router, generation).await,
                None => None,
            };
            // Who has left needs no reply.
            let _ = reply.send(Reply {
                generation: Some(generation),
                replayed: true,
                serving,
                ..Reply::of(told(outcome))
            });
            return None;
        }
    }
    let engaged = AssertUnwindSafe(engage(&router, &order, &attempt)).catch_unwind();
    match engaged.await.unwrap_or_else(|_| Err(panicked())) {
        Ok(dispatch) => {
            dispatch.registered.running.begin(Some(reply));
            Some((dispatch, order.body))
        }
        Err(error) => {
            give_back(&router, &order, &error).await;
            refuse(reply, error, None)
        }
    }
}

/// Replies; there is nothing to dispatch.
fn refuse<T>(
    reply: oneshot::Sender<Reply>,
    error: RouterError,
    generation: Option<GenerationId>,
) -> Option<T> {
    // Who has left needs no reply.
    let _ = reply.send(Reply {
        generation,
        ..Reply::of(Err(error))
    });
    None
}

/// Who served a generation whose outcome is told again. Without it the answer is as good.
pub(super) async fn served_by(router: &Inner, generation: GenerationId) -> Option<Box<Serving>> {
    let serving = router.ports.calls.serving(generation).await;
    serving.ok().flatten().map(Box::new)
}

async fn claim(router: &Inner, order: &Order, attempt: &Attempt) -> Result<Start, RouterError> {
    let Some(key) = order.key else {
        return Ok(Start::Fresh);
    };
    let model = Arc::clone(&order.model);
    let (query, body) = (order.query.clone(), order.body.clone());
    let fingerprint = aside(router, order.body.len(), move || {
        fingerprint(model.id(), CALL, &query, &body)
    });
    let claim = KeyClaim {
        account: order.caller.account.clone(),
        key,
        fingerprint: fingerprint.await?,
        generation: order.generation,
        expires_at: order.received_at + KEY_LIFETIME,
        lasts: router.config.lease,
    };
    let timer = &router.ports.timer;
    let mut pause = Duration::ZERO;
    loop {
        let claimed = router.ports.calls.claim(claim.clone(), timer.now());
        let generation = match claimed.await.map_err(unavailable)? {
            Claimed::Fresh => {
                attempt.set_runs_elsewhere(false);
                return Ok(Start::Fresh);
            }
            Claimed::InFlight => {
                return Err(RouterError::InFlight {
                    retry_after: IN_FLIGHT_RETRY,
                });
            }
            Claimed::PickUp(generation) => generation,
            Claimed::Replay(generation, outcome) => return Ok(Start::Replay(generation, outcome)),
            Claimed::NotReplayable(_) => return Err(RouterError::NotReplayable),
            Claimed::Conflict => return Err(RouterError::KeyConflict),
        };
        if let Some(running) = router.running.get(generation) {
            let _ = attempt.follow(generation, &running);
            return Ok(Start::Follow(running, generation));
        }
        // It ended here since it was looked up, which the next look tells at once, or another process runs it. Then its key
        // answers when that one has settled it, or when this one took it over.
        attempt.set_runs_elsewhere(true);
        timer.sleep(pause).await;
        pause = ELSEWHERE_PAUSE;
        still_wanted(attempt)?;
    }
}

/// From the credits to the durable row.
async fn engage(
    router: &Inner,
    order: &Order,
    attempt: &Attempt,
) -> Result<Box<Dispatch>, RouterError> {
    still_wanted(attempt)?;
    let dispatch = admit(router, order).await?;
    attempt
        .follow(order.generation, &dispatch.registered.running)
        .map_err(|reason| left(reason, attempt))?;
    Ok(dispatch)
}

/// Sets credits aside, takes room and makes the generation durable, for a body that can be dispatched. From then on its room is its
/// own until it has ended; so it is not sent if its permit may have lapsed before, which takes a process that was stopped, or a
/// store that was away, for a whole lease.
pub(super) async fn admit(router: &Inner, order: &Order) -> Result<Box<Dispatch>, RouterError> {
    let judged = judged(router, &order.model, order.route.as_deref(), &order.body);
    let Judged {
        hold_cents,
        streams,
        legs,
        settlement,
        ..
    } = judged.await?;
    let (ports, lease) = (&router.ports, router.lease());
    let now = ports.timer.now();
    let (key, limits) = (order.caller.key.as_ref(), &order.caller.tier.router);
    let payer = Payer {
        account: &order.caller.account,
        scopes: &limits.scoped_budgets.of_call(key, &order.labels),
    };
    let generation = Generation {
        id: order.generation,
        account: order.caller.account.clone(),
        model: order.model.id().clone(),
        hold_cents,
        received_at: order.received_at,
        dispatched_at: now,
        api_key: order.caller.key.clone(),
        labels: order.labels.clone(),
        serving: legs
            .as_ref()
            .and_then(|legs| legs.first())
            .map(|first| Box::new(Serving::by(first, now))),
    };
    if let Err(error) = settlement {
        // Credits are judged before the body.
        let (cause, hold) = (generation.id.cause(), generation.hold());
        let held = ports.accounts.reserve(payer, cause, hold, lease.lasts, now);
        RouterError::of_reservation(held.await.map_err(RouterError::unavailable)?)?;
        return Err(error);
    }
    let registered = router.running.enter(&generation);
    let admission = CallAdmission {
        payer,
        limits,
        generation: &generation,
        key: order.key,
        lease,
    };
    ports.admissions.admit(admission).await?;
    if ports.timer.now() >= lease.until(now) {
        let ending = Ending::Released(Bucket::ServiceUnavailable);
        // A failure is logged there, and another process ends what lapsed.
        let _ = settle(router, generation.id, &generation.account, ending, None).await;
        return Err(RouterError::unavailable(RoomLapsed));
    }
    Ok(Box::new(Dispatch {
        generation,
        model: Arc::clone(&order.model),
        legs,
        streams,
        // By one byte more than the cap a store sees that it is not the whole.
        kept_bytes: order.key.map_or(0, |_| REPLAY_CAP_BYTES + 1),
        keeping: Keeping::Known(limits.keep_results),
        registered,
    }))
}

/// Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("the call was held up for longer than its permit was kept, and was not sent")]
pub(super) struct RoomLapsed;

/// Judges a body where it holds nobody up.
pub(super) async fn judged(
    router: &Inner,
    model: &Arc<Model>,
    route: Option<&Route>,
    body: &Bytes,
) -> Result<Judged, RouterError> {
    let (model, route, text) = (Arc::clone(model), route.cloned(), body.clone());
    let judged = aside(router, body.len(), move || match route {
        None => judge(&model, &text),
        Some(route) => judge_at(&model, &route, &text),
    });
    judged.await
}

/// What a body costs at the providers that the call names, and who of them takes it.
fn judge_at(model: &Model, route: &Route, body: &[u8]) -> Judged {
    let judged = judge(model, body);
    let (Ok(()), Ok(view)) = (&judged.settlement, body::view(body)) else {
        return judged;
    };
    let (price, legs) = route.judge(&view);
    match legs {
        Ok(legs) => Judged {
            price,
            // It is billed once, by whoever serves it.
            hold_cents: legs.iter().map(|leg| leg.hold_cents).max().unwrap_or(0),
            // Each leg tells for itself.
            streams: false,
            legs: Some(legs.into()),
            settlement: Ok(()),
        },
        Err(violations) => Judged {
            price,
            hold_cents: price.hold_cents(),
            streams: false,
            legs: None,
            settlement: Err(RouterError::Schema(violations)),
        },
    }
}

/// What a body costs, and whether it can be dispatched. The price of one that cannot be read is that of an unknown one.
fn judge(model: &Model, body: &[u8]) -> Judged {
    let view = body::view(body);
    let priced = view.as_ref().unwrap_or(&Value::Null);
    let price = model.provider().price(priced);
    let streams = model.provider().streams(priced);
    let violations = view.map(|view| match model.document().violations(&view) {
        // What it takes to be sent is asked of a body that is right otherwise.
        none if none.is_empty() => model.provider().refuses(body),
        some => some,
    });
    let settlement = match violations {
        Err(reason) => Err(RouterError::Malformed(reason)),
        Ok(violations) if violations.is_empty() => Ok(()),
        Ok(violations) => Err(RouterError::Schema(violations)),
    };
    Judged {
        price,
        hold_cents: price.hold_cents(),
        streams,
        legs: None,
        settlement,
    }
}

/// Does work on so many bytes of a body: here while they are few, else on a thread where nobody waits for it.
pub(super) async fn aside<T: Send + 'static>(
    router: &Inner,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RouterError> {
    if bytes < LARGE_BYTES {
        return Ok(work());
    }
    let (tell, told) = oneshot::channel();
    router.ports.threads.run(Box::new(move || {
        // Who has left needs no answer.
        let _ = tell.send(work());
    }));
    told.await.map_err(|_| panicked())
}

/// Method with what follows the model in the path, decoded path without alias prefix, query and raw body: a changed space is
/// another request.
pub(super) fn fingerprint(model: &ModelId, method: &str, query: &str, body: &[u8]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new_derive_key("easel router request v1");
    for part in [
        method.as_bytes(),
        model.as_str().as_bytes(),
        query.as_bytes(),
        body,
    ] {
        hasher
            .update(&(part.len() as u64).to_be_bytes())
            .update(part);
    }
    Fingerprint(hasher.finalize().into())
}

/// Gives back what a call took that ends before the partner was asked.
async fn give_back(router: &Inner, order: &Order, error: &RouterError) {
    release_hold(router, &order.caller.account, order.generation).await;
    let permit = Permit {
        account: &order.caller.account,
        generation: order.generation,
        hold_cents: 0,
    };
    release_room(router, permit).await;
    // Without a key, only a call whose row was or may have been written has something to end.
    let has_row = matches!(
        error,
        RouterError::Disconnected | RouterError::Deadline { .. } | RouterError::Unavailable(_)
    );
    if order.key.is_some() || has_row {
        let ending = Ending::Released(error.bucket());
        // A failure is logged there, and the claim is void when its time is over.
        let account = &order.caller.account;
        let _ = settle(router, order.generation, account, ending, None).await;
    }
}

fn still_wanted(attempt: &Attempt) -> Result<(), RouterError> {
    attempt
        .abandoned()
        .map_or(Ok(()), |reason| Err(left(reason, attempt)))
}

/// Nothing was dispatched for this attempt because its waiter left for this reason.
fn left(reason: Bucket, attempt: &Attempt) -> RouterError {
    if reason == Bucket::DeadlineExceeded {
        RouterError::Deadline {
            left: match attempt.runs_elsewhere() {
                true => LeftCall::WithKey,
                false => LeftCall::NotDispatched,
            },
            retry_after: None,
        }
    } else {
        RouterError::Disconnected
    }
}

pub(super) fn unavailable(error: CallsError) -> RouterError {
    RouterError::Unavailable(Box::new(error))
}

fn panicked() -> RouterError {
    RouterError::Internal("the preparation of a call panicked".into())
}

//! Carrying a call out, from its preparation to the settled generation, detached from the connection.
//!
//! What preparing needed, the body included, is gone before it waits for the partner. Once the partner is asked nothing stops
//! it, and nobody hears of its end before that is durable.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::keeping::{self, Keeping};
use super::legs;
use super::prepare::{Order, prepare};
use super::route::Leg;
use super::running::{Registered, Reply, Running};
use super::settlement::Settlement;
use super::traces;
use super::waiter::Attempt;
use crate::router::Inner;
use crate::{
    Acceptance, AnswerSink, CallEnd, CallsError, Collected, Done, Ending, Failure, Generation,
    GenerationId, Model, Permit, Ran, RouterError, Serving, Settled, Submission, Submitted,
};

/// Bounds of the polling interval: a provider that names none must not be asked without pause.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3600));

/// How often a row of a generation is written while the store refuses it: for about a minute.
const WRITE_ATTEMPTS: u32 = 16;

/// The first and the longest pause in between.
const WRITE_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// What a dispatched generation holds until it is settled. On the heap, since it is handed on from one hand to the next.
pub(super) struct Dispatch {
    pub(super) generation: Generation,
    pub(super) model: Arc<Model>,
    /// Who is asked, one after the other, if the call names its providers.
    pub(super) legs: Option<Box<[Leg]>>,
    /// Whether the body asks for a stream.
    pub(super) streams: bool,
    /// How many bytes of a stream are kept for others than the caller.
    pub(super) kept_bytes: usize,
    /// Whether its results are kept.
    pub(super) keeping: Keeping,
    pub(super) registered: Registered,
}

/// Carries an order out and replies to its waiter.
pub(super) fn run(
    router: Arc<Inner>,
    order: Order,
    attempt: Arc<Attempt>,
    reply: oneshot::Sender<Reply>,
) -> impl Future<Output = ()> + Send {
    let span = traces::call(&order);
    // On the heap, so that what preparing needs does not stay with the execution while it waits for the partner.
    let preparing = prepare(Arc::clone(&router), order, attempt, reply).boxed();
    async move {
        if let Some((dispatch, body)) = preparing.await {
            carry_out(&router, dispatch, body).await;
        }
    }
    .instrument(span)
}

/// Asks the partner and settles what comes of it. From here on nothing stops it.
pub(super) async fn carry_out(router: &Inner, dispatch: Box<Dispatch>, body: Bytes) {
    let settlement = {
        let working = work(router, &dispatch, body);
        let working = pin!(AssertUnwindSafe(working).catch_unwind());
        while_owned(&dispatch, working).await
    };
    let settlement = settlement.map(|worked| worked.unwrap_or_else(|_| Settlement::broken()));
    finish(router, dispatch, settlement).boxed().await;
}

/// Does the work on a generation for as long as it is this router's; `None` if another process took it over.
///
/// The work is pinned where it is: moved in here it would take its room twice for as long as the partner works.
pub(super) async fn while_owned<T>(
    dispatch: &Dispatch,
    work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    tokio::select! {
        biased;
        () = dispatch.registered.running.lost() => None,
        worked = work => Some(worked),
    }
}

impl Dispatch {
    fn submit(&self, router: &Inner, body: Bytes) -> BoxFuture<'_, Result<Submitted, Failure>> {
        self.model.provider().submit(Submission {
            generation: self.generation.id,
            account: self.generation.account.clone(),
            model: self.generation.model.clone(),
            body,
            contact: self.registered.running.contact.clone(),
            stream: self.streams.then(|| self.sink(router, None)),
        })
    }

    /// Where a stream goes that answers its caller.
    pub(super) fn sink(&self, router: &Inner, serving: Option<Box<Serving>>) -> AnswerSink {
        let (running, timer) = (&self.registered.running, &router.ports.timer);
        AnswerSink::passing(running, timer, serving, self.kept_bytes)
    }
}

/// The work at the partner, from the submission to its end.
async fn work(router: &Inner, dispatch: &Dispatch, body: Bytes) -> Settlement {
    if let Some(legs) = &dispatch.legs {
        return legs::work(router, dispatch, legs, body).boxed().await;
    }
    let attempt = traces::attempt(&dispatch.generation, dispatch.model.id());
    work_alone(router, dispatch, body).instrument(attempt).await
}

/// The work of a call that names no providers.
async fn work_alone(router: &Inner, dispatch: &Dispatch, body: Bytes) -> Settlement {
    let held_cents = dispatch.generation.hold_cents;
    match dispatch.submit(router, body).await {
        Ok(Submitted::Done(done)) => Settlement::of(Ok(done), held_cents),
        Ok(Submitted::Accepted {
            handle,
            task_id,
            poll_after,
        }) => {
            let accepted = Acceptance {
                handle,
                poll_after,
                at: router.ports.timer.now(),
            };
            // On the heap, since most calls are answered at once.
            follow(router, dispatch, accepted, task_id).boxed().await
        }
        Err(failure) => Settlement::of(Err(failure), held_cents),
    }
}

/// The work that a partner accepted, to its end.
async fn follow(
    router: &Inner,
    dispatch: &Dispatch,
    accepted: Acceptance,
    task_id: Option<String>,
) -> Settlement {
    let (running, model) = (&dispatch.registered.running, &dispatch.model);
    note_accepted(router, (running, model), &accepted, task_id.as_deref()).await;
    let ended = collect(router, running, model, &accepted).await;
    Settlement::of(ended, dispatch.generation.hold_cents).named(task_id)
}

/// Makes the handle durable. If that fails the work goes on all the same: only a restart could not pick it up.
pub(super) async fn note_accepted(
    router: &Inner,
    (running, model): (&Running, &Model),
    accepted: &Acceptance,
    task_id: Option<&str>,
) {
    let id = running.permit().generation;
    let (calls, owner) = (&router.ports.calls, router.config.owner);
    let Acceptance {
        handle,
        poll_after,
        at,
    } = accepted;
    let noted = insist(router, id, || {
        calls.accepted((id, owner), handle, *poll_after, task_id, *at)
    });
    if noted.await.is_ok() {
        running.accepted(polling_interval(model, accepted));
    }
}

/// What a caller is told as the polling interval: that of the definition, and without one the first pause.
pub(super) fn polling_interval(model: &Model, accepted: &Acceptance) -> Duration {
    let polling = model.polling();
    polling.map_or(accepted.poll_after, |polling| polling.interval)
}

/// Polls accepted work to its end.
///
/// It is given up so long after it was accepted, not after it was last recovered: what passed before a restart is told by the
/// wall clock, the rest by the timer, so that a clock that is set while it runs ends nothing.
pub(super) async fn collect(
    router: &Inner,
    running: &Running,
    model: &Model,
    accepted: &Acceptance,
) -> Result<Done, Failure> {
    let (timer, handle) = (&router.ports.timer, &accepted.handle);
    let provider = model.provider();
    let polling = model.polling();
    let give_up_after = polling.and_then(|polling| polling.give_up_after);
    let give_up_after = give_up_after.unwrap_or(router.config.give_up_after);
    let passed = timer.now().duration_since(accepted.at);
    let left = give_up_after.saturating_sub(passed.try_into().unwrap_or(Duration::ZERO));
    let mut over = timer.sleep(left);
    let mut pause = accepted.poll_after;
    loop {
        let pausing = timer.sleep(pause.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1));
        // What ended in the last pause is still a result.
        let is_last = tokio::select! {
            biased;
            () = &mut over => true,
            // The partner's own word is then awaited: it may have finished before.
            () = running.cancelled() => {
                provider.cancel(handle).await;
                false
            }
            () = pausing => false,
        };
        match provider.collect(handle, &running.contact).await? {
            Collected::Done(done) => return Ok(done),
            Collected::Pending { .. } if is_last => break,
            Collected::Pending { poll_after } => pause = poll_after,
        }
    }
    provider.cancel(handle).await;
    Err(Failure::TimedOut {
        ran: Ran::Perhaps,
        message: "the provider did not finish in time".to_owned(),
    })
}

/// Settles a generation, gives its room back and replies to the waiter. A generation that another process owns is settled there:
/// its hold stays, and the waiter gets no result that was not billed.
pub(super) async fn finish(
    router: &Inner,
    dispatch: Box<Dispatch>,
    mut settlement: Option<Settlement>,
) {
    if let Some(settlement) = &mut settlement {
        settlement.results = keeping::links(router, &dispatch, settlement).await;
    }
    let Dispatch {
        generation,
        registered,
        ..
    } = *dispatch;
    let (id, account) = (generation.id, &generation.account);
    registered.running.settles();
    let (mut charge_cents, mut serving) = (None, None);
    let result = match settlement {
        None => {
            release_permit(router, registered.running.permit()).await;
            None
        }
        Some(mut settlement) => {
            serving = settlement.serving.take();
            let ending = settlement.ending();
            let was_released = matches!(ending, Ending::Released(_));
            let has_results = !settlement.results.is_empty();
            let charge = ending.charge_cents();
            let permit = registered.running.permit();
            match end(router, permit, ending, settlement.task_id()).await {
                Ok(Settled::Now) => {
                    charge_cents = Some(charge);
                    if has_results {
                        router.results.notify_one();
                    }
                    if was_released {
                        release_hold(router, account, id).await;
                    }
                    Some(settlement.result())
                }
                Ok(Settled::Before) => None,
                Err(error) => {
                    release_permit(router, permit).await;
                    Some(Err(error))
                }
            }
        }
    };
    // Once its hold is released too, which another call of the account may need.
    router.desk.has_room(account);
    let result = result.unwrap_or_else(|| {
        tracing::warn!(generation.id = %id, "another process owns a generation that ran here");
        let retry_after = Some(registered.running.retry_later());
        Err(RouterError::TakenOver { retry_after })
    });
    traces::ended(&result);
    let is_of_partner = matches!(result, Err(RouterError::Ended(_)));
    let upstream_status = registered
        .running
        .contact
        .status()
        .filter(|_| is_of_partner);
    registered.end(Reply {
        result,
        generation: Some(id),
        replayed: false,
        charge_cents,
        serving,
        upstream_status,
        stream: None,
    });
}

/// Writes the end of a generation down, and gives its room back: nobody may be told before. What cannot be written is recovered when
/// its lease lapses.
async fn end(
    router: &Inner,
    permit: Permit<'_>,
    ending: Ending,
    task_id: Option<&str>,
) -> Result<Settled, RouterError> {
    let call = CallEnd {
        permit,
        owner: router.config.owner,
        ending,
        task_id,
        now: router.ports.timer.now(),
    };
    let ended = insist(router, permit.generation, || {
        router.ports.admissions.end(call.clone())
    });
    ended
        .await
        .map_err(|error| RouterError::Internal(Box::new(error)))
}

/// Writes the end of a generation down that has no room, or gives it back by itself.
pub(super) async fn settle(
    router: &Inner,
    id: GenerationId,
    account: &AccountId,
    ending: Ending,
    task_id: Option<&str>,
) -> Result<Settled, RouterError> {
    let now = router.ports.timer.now();
    let (calls, of) = (&router.ports.calls, (id, router.config.owner));
    let settled = insist(router, id, || {
        calls.settle(of, account, ending.clone(), task_id, now)
    });
    let settled = settled.await;
    settled.map_err(|error| RouterError::Internal(Box::new(error)))
}

/// Writes again and again, with growing pauses, while the store refuses.
pub(super) async fn insist<'a, T>(
    router: &Inner,
    id: GenerationId,
    write: impl Fn() -> BoxFuture<'a, Result<T, CallsError>>,
) -> Result<T, CallsError> {
    let mut pause = WRITE_PAUSES.0;
    for _ in 1..WRITE_ATTEMPTS {
        match write().await {
            Ok(written) => return Ok(written),
            // Thousands of calls may end in one moment; there is room in the next.
            Err(CallsError::Busy) => {}
            Err(error) => {
                tracing::warn!(generation.id = %id, error = &error as &dyn std::error::Error, "a call is not written down yet");
            }
        }
        router.ports.timer.sleep(pause).await;
        pause = (pause * 2).min(WRITE_PAUSES.1);
    }
    write().await.inspect_err(|error| {
        tracing::error!(generation.id = %id, error = error as &dyn std::error::Error, "a call was not written down");
    })
}

/// Gives the room of a call back, and tells those that wait for some.
pub(super) async fn release_room(router: &Inner, permit: Permit<'_>) {
    release_permit(router, permit).await;
    router.desk.has_room(permit.account);
}

async fn release_permit(router: &Inner, permit: Permit<'_>) {
    let released = router.ports.quota.release(permit, router.config.owner);
    if let Err(error) = released.await {
        // It is free when its lease lapses.
        tracing::warn!(generation.id = %permit.generation, error = &error as &dyn std::error::Error, "the room of a call was not given back");
    }
}

pub(super) async fn release_hold(router: &Inner, account: &AccountId, id: GenerationId) {
    let released = router.ports.accounts.release(account, id.cause());
    if let Err(error) = released.await {
        tracing::error!(generation.id = %id, error = &error as &dyn std::error::Error, "a hold on credits was not released");
    }
}

//! The work on a call that names its providers: each is asked in its turn, and the next one only after the one before provably
//! came to nothing.
//!
//! Who is asked is durable before it is sent, with what failed before. So whoever takes the generation over knows whose handle
//! it has, and never sends it again.

use std::future::pending;

use bytes::Bytes;
use jiff::Timestamp;
use tracing::Instrument as _;

use super::execution::{Dispatch, collect, insist, note_accepted};
use super::prepare::aside;
use super::route::{Candidate, Leg};
use super::settlement::Settlement;
use super::traces;
use crate::router::Inner;
use crate::{
    Acceptance, AnswerSink, Done, FailedAttempt, Failure, Handle, Ran, Serving, Settled,
    Submission, Submitted, body,
};

/// The work at one partner after the other, to its end.
pub(super) async fn work(
    router: &Inner,
    dispatch: &Dispatch,
    legs: &[Leg],
    body: Bytes,
) -> Settlement {
    let timer = &router.ports.timer;
    let running = &dispatch.registered.running;
    let mut serving = dispatch.generation.serving.clone();
    let mut body = Some(body);
    // What the attempts before may have set going, for the key.
    let mut ran = Ran::Nothing;
    let mut legs = legs.iter().enumerate().peekable();
    while let Some((place, leg)) = legs.next() {
        // The last one that is asked takes the body, so that none waits for its answer.
        let sent = match legs.peek() {
            Some(_) => body.clone(),
            None => body.take(),
        };
        let sent = sent.unwrap_or_default();
        let span = traces::attempt(&dispatch.generation, leg.candidate.model.id());
        let settlement = attempt(router, dispatch, (place, leg), &serving, sent);
        let settlement = settlement.instrument(span).await;
        let next = legs.peek().filter(|_| !running.is_cancelled());
        let (Some((_, next)), Some((bucket, message))) = (next, settlement.came_to_nothing())
        else {
            return settlement.after(ran).served(serving);
        };
        ran = ran.max(settlement.ran());
        let now = timer.now();
        let Some(before) = &serving else {
            return Settlement::broken();
        };
        let failed = FailedAttempt {
            model: before.model.clone(),
            began_at: before.began_at,
            ended_at: now,
            bucket,
            message: message.to_owned(),
            upstream_status: running.contact.status(),
        };
        running.asks_another();
        let then = Box::new(before.followed_by(next, failed));
        match serve(router, dispatch, &then).await {
            Some(Settled::Now) => serving = Some(then),
            Some(Settled::Before) => {
                // It is another process' now, and the end of it is not to be told here.
                running.lose();
                pending::<()>().await;
            }
            // Nobody is asked of whom it is not known.
            None => return settlement.after(ran).served(serving),
        }
    }
    // A call that names providers has one at least.
    Settlement::broken()
}

/// Makes durable who is asked next; `None` if that cannot be written.
async fn serve(router: &Inner, dispatch: &Dispatch, serving: &Serving) -> Option<Settled> {
    let id = dispatch.generation.id;
    let of = (id, router.config.owner);
    let calls = &router.ports.calls;
    insist(router, id, || calls.serve(of, serving)).await.ok()
}

/// Asks one partner, and follows what it accepts to its end.
async fn attempt(
    router: &Inner,
    dispatch: &Dispatch,
    (place, leg): (usize, &Leg),
    serving: &Option<Box<Serving>>,
    body: Bytes,
) -> Settlement {
    let candidate = &leg.candidate;
    let body = match said(router, candidate, body).await {
        Ok(body) => body,
        Err(failure) => return Settlement::of(Err(failure), leg.hold_cents),
    };
    let generation = &dispatch.generation;
    let running = &dispatch.registered.running;
    let stream = leg.streams.then(|| match &candidate.translation {
        None => dispatch.sink(router, serving.clone()),
        // What is to be translated must be there as a whole.
        Some(_) => AnswerSink::keeping(),
    });
    let submitted = candidate.model.provider().submit(Submission {
        generation: generation.id,
        account: generation.account.clone(),
        model: candidate.model.id().clone(),
        body,
        contact: running.contact.clone(),
        stream,
    });
    let (handle, task_id, poll_after) = match submitted.await {
        Ok(Submitted::Done(done)) => {
            let done = answered(router, candidate, done).await;
            return Settlement::of(Ok(done), leg.hold_cents);
        }
        Ok(Submitted::Accepted {
            handle,
            task_id,
            poll_after,
        }) => (handle, task_id, poll_after),
        Err(failure) => return Settlement::of(Err(failure), leg.hold_cents),
    };
    let accepted = Acceptance {
        handle,
        poll_after,
        at: router.ports.timer.now(),
    };
    let kept = Acceptance {
        handle: handle_of(place, &accepted.handle),
        ..accepted
    };
    let model = &candidate.model;
    note_accepted(router, (running, model), &kept, task_id.as_deref()).await;
    follow(router, dispatch, leg, &accepted)
        .await
        .named(task_id)
}

/// Follows accepted work of a candidate to its end.
pub(super) async fn follow(
    router: &Inner,
    dispatch: &Dispatch,
    leg: &Leg,
    accepted: &Acceptance,
) -> Settlement {
    let (running, candidate) = (&dispatch.registered.running, &leg.candidate);
    let ended = collect(router, running, &candidate.model, accepted).await;
    let ended = match ended {
        Ok(done) => Ok(answered(router, candidate, done).await),
        Err(failure) => Err(failure),
    };
    Settlement::of(ended, leg.hold_cents)
}

/// The body as the candidate wants it. It was judged in this form before.
async fn said(router: &Inner, candidate: &Candidate, body: Bytes) -> Result<Bytes, Failure> {
    let Some(translation) = candidate.translation.clone() else {
        return Ok(body);
    };
    let said = aside(router, body.len(), move || {
        let view = body::view(&body).ok()?;
        serde_json::to_vec(&translation.body(&view).body).ok()
    });
    let said = said.await.ok().flatten();
    said.map(Bytes::from).ok_or_else(|| Failure::Failed {
        ran: Ran::Nothing,
        message: "the body could not be translated for the provider".to_owned(),
    })
}

/// A result in the words of the model that was called. It is paid for, so that trouble with it leaves it as it came.
async fn answered(router: &Inner, candidate: &Candidate, done: Done) -> Done {
    let Some(translation) = candidate.translation.clone() else {
        return done;
    };
    let Done {
        answer,
        charge,
        task_id,
    } = done;
    let as_it_came = answer.clone();
    let answer = aside(router, answer.body.len(), move || {
        translation.answer(answer)
    });
    Done {
        answer: answer.await.unwrap_or(as_it_came),
        charge,
        task_id,
    }
}

impl Serving {
    /// Who serves a generation first.
    pub(super) fn by(leg: &Leg, now: Timestamp) -> Self {
        Self {
            model: leg.candidate.model.id().clone(),
            began_at: now,
            hold_cents: leg.hold_cents,
            dropped: leg.dropped.clone(),
            failed: Vec::new(),
        }
    }

    /// Who serves it next, since this one failed so.
    fn followed_by(&self, leg: &Leg, attempt: FailedAttempt) -> Self {
        let mut failed = self.failed.clone();
        let now = attempt.ended_at;
        failed.push(attempt);
        Self {
            failed,
            ..Self::by(leg, now)
        }
    }
}

/// A handle with the place of who gave it among those who are asked: the row of an attempt may still have that of the one
/// before.
fn handle_of(place: usize, handle: &Handle) -> Handle {
    let mut bytes = Vec::with_capacity(handle.0.len() + 1);
    bytes.push(u8::try_from(place).unwrap_or(u8::MAX));
    bytes.extend_from_slice(&handle.0);
    Handle(bytes.into())
}

/// What the partner itself called its work, if the handle is of who serves the generation now.
pub(super) fn handle_at(place: usize, handle: &Handle) -> Option<Handle> {
    let (first, rest) = handle.0.split_first()?;
    let is_of_place = usize::from(*first) == place && place < usize::from(u8::MAX);
    is_of_place.then(|| Handle(Bytes::copy_from_slice(rest)))
}

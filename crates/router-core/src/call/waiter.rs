//! The half of a call that the connection holds: it waits under the deadline, and leaving it hurts nobody.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::Execution;
use super::running::{Reply, Running};
use crate::router::Inner;
use crate::{
    Answer, AnswerStream, Bucket, CallRecord, GenerationId, LeftCall, RouterError, Serving,
    StreamEnding, StreamStep, Timer,
};

/// Where an attempt stands; shared by its execution and its waiter, who race to move it on.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    stage: Mutex<Stage>,
    /// Whether its key has a generation that was dispatched and does not run in this process.
    runs_elsewhere: AtomicBool,
}

#[derive(Debug, Default)]
enum Stage {
    /// Nothing was dispatched for it.
    #[default]
    Preparing,
    /// Its waiter left before anything was dispatched, for this reason: nothing will be.
    Abandoned(Bucket),
    /// It follows a generation that was dispatched, its own or one that it picked up.
    Following(GenerationId, Arc<Running>),
}

/// Waits for the reply of a call. Dropping it tells that the caller left.
#[derive(Debug)]
pub struct Waiter {
    attempt: Arc<Attempt>,
    replied: oneshot::Receiver<Reply>,
    /// Taken when there is an answer.
    delivery: Option<Delivery>,
}

/// What a caller is to be told.
#[derive(Debug)]
pub struct Answered {
    /// The result, or why there is none. Of a stream its first bytes.
    pub result: Result<Answer, RouterError>,
    /// What follows the result, if that is the beginning of a stream.
    pub stream: Option<Box<AnswerStream>>,
    /// Whether it was stored, and told before (`Idempotent-Replayed`).
    pub replayed: bool,
    /// Whether the call was admitted, so that a generation was dispatched for it or was running: however it ends. A replay is
    /// not, nor a call that another one waits in place of.
    pub is_admitted: bool,
    /// What was billed for it just now, in US cents; `None` if nothing was settled for this answer.
    pub charge_cents: Option<u64>,
    /// Who served it, if the call names its providers and one of them was asked.
    pub serving: Option<Box<Serving>>,
    /// The partner's own status, of a failure that it told just now.
    pub upstream_status: Option<u16>,
    /// To be told whether the caller got it all.
    pub delivery: Delivery,
}

/// Remembers whether the caller got the whole answer; dropping it tells that it did not. The call is on record then.
pub struct Delivery {
    router: Arc<Inner>,
    /// Taken when it is handed in.
    record: Option<Box<CallRecord>>,
}

/// An execution that its waiter carries out. What is left of it when they leave is detached: nothing may
/// stop it.
struct DetachOnDrop<D: FnOnce(Execution)> {
    execution: Option<Execution>,
    detach: Option<D>,
}

impl Attempt {
    /// Whether its waiter left before anything was dispatched.
    pub(super) fn abandoned(&self) -> Option<Bucket> {
        match &*self.stage() {
            Stage::Abandoned(bucket) => Some(*bucket),
            Stage::Preparing | Stage::Following(..) => None,
        }
    }

    /// Notes whether what it waits for runs in another process: its caller is to come back with the key then.
    pub(super) fn set_runs_elsewhere(&self, runs_elsewhere: bool) {
        self.runs_elsewhere.store(runs_elsewhere, Ordering::Release);
    }

    pub(super) fn runs_elsewhere(&self) -> bool {
        self.runs_elsewhere.load(Ordering::Acquire)
    }

    /// Lets it follow a generation: from now on, leaving stops nothing. Fails if its waiter has left.
    pub(super) fn follow(
        &self,
        generation: GenerationId,
        running: &Arc<Running>,
    ) -> Result<(), Bucket> {
        let mut stage = self.stage();
        if let Stage::Abandoned(bucket) = *stage {
            return Err(bucket);
        }
        *stage = Stage::Following(generation, Arc::clone(running));
        Ok(())
    }

    /// The generation that it follows.
    pub(super) fn generation(&self) -> Option<GenerationId> {
        match &*self.stage() {
            Stage::Following(generation, _) => Some(*generation),
            Stage::Preparing | Stage::Abandoned(_) => None,
        }
    }

    /// Its waiter leaves; what it followed, if anything was dispatched.
    fn leave(&self, reason: Bucket) -> Option<Arc<Running>> {
        let mut stage = self.stage();
        match &*stage {
            Stage::Preparing => {
                *stage = Stage::Abandoned(reason);
                None
            }
            Stage::Abandoned(_) => None,
            Stage::Following(_, running) => Some(Arc::clone(running)),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    pub(super) fn new(
        router: Arc<Inner>,
        attempt: Arc<Attempt>,
        replied: oneshot::Receiver<Reply>,
        mut record: Box<CallRecord>,
    ) -> Self {
        record.delivered = false;
        let delivery = Delivery {
            router,
            record: Some(record),
        };
        Self {
            attempt,
            replied,
            delivery: Some(delivery),
        }
    }

    /// Carries the execution out and waits for the reply, at most until the deadline. What is left of the execution then, or
    /// when the future is dropped, goes to `detach`, which has to see it to its end.
    pub async fn wait(self, execution: Execution, detach: impl FnOnce(Execution)) -> Answered {
        let mut carried = DetachOnDrop {
            execution: Some(execution),
            detach: Some(detach),
        };
        // Declared after it and so dropped before it: what is not dispatched when the caller leaves will not be.
        let mut waiter = self;
        let (timer, deadline) = waiter.clock();
        let replied = tokio::select! {
            biased;
            replied = poll_fn(|cx| {
                // The reply comes with the end of the execution, and before it when the router stops.
                let _ = carried.poll(cx);
                waiter.replied.poll_unpin(cx).map(Result::ok)
            }) => replied,
            () = timer.sleep(deadline) => {
                let running = waiter.attempt.leave(Bucket::DeadlineExceeded);
                let replied = waiter.replied.try_recv().ok();
                replied.or_else(|| Some(waiter.deadline_exceeded(running.as_deref())))
            }
        };
        let mut reply = replied.unwrap_or_else(stopped);
        if let Err(RouterError::Stopping { retry_after } | RouterError::TakenOver { retry_after }) =
            &mut reply.result
            && !waiter.has_key()
        {
            *retry_after = None;
        }
        let mut delivery = waiter.delivery.take().expect("it is taken only here");
        if let Some(stream) = &mut reply.stream {
            let waited = delivery.waited();
            stream.bounded(timer, deadline.saturating_sub(waited));
        }
        let generation = reply.generation.or_else(|| waiter.attempt.generation());
        let bucket = reply.result.as_ref().err().map(RouterError::bucket);
        delivery.note(generation, bucket, reply.replayed);
        let is_elsewhere = matches!(reply.result, Err(RouterError::InFlight { .. }));
        Answered {
            is_admitted: generation.is_some() && !reply.replayed && !is_elsewhere,
            result: reply.result,
            stream: reply.stream,
            replayed: reply.replayed,
            charge_cents: reply.charge_cents,
            serving: reply.serving,
            upstream_status: reply.upstream_status,
            delivery,
        }
    }

    fn clock(&self) -> (Arc<dyn Timer>, Duration) {
        let delivery = self.delivery.as_ref().expect("there is no answer yet");
        let router = &delivery.router;
        (Arc::clone(&router.ports.timer), router.config.deadline)
    }

    fn has_key(&self) -> bool {
        let delivery = self.delivery.as_ref();
        let record = delivery.and_then(|delivery| delivery.record.as_ref());
        record.is_some_and(|record| record.key.is_some())
    }

    fn deadline_exceeded(&self, running: Option<&Running>) -> Reply {
        let left = match running {
            None if self.attempt.runs_elsewhere() => LeftCall::WithKey,
            None => LeftCall::NotDispatched,
            Some(_) if self.has_key() => LeftCall::WithKey,
            Some(_) => LeftCall::WithoutKey,
        };
        let running = running.filter(|_| left == LeftCall::WithKey);
        let retry_after = running.and_then(Running::retry_after);
        Reply::of(Err(RouterError::Deadline { left, retry_after }))
    }
}

/// The reply if the execution ended without one, as it does when the program stops.
fn stopped() -> Reply {
    Reply::of(Err(RouterError::Unavailable(
        "the execution was stopped".into(),
    )))
}

impl Answered {
    /// The answer as a whole, for callers who take no stream; it is delivered then.
    ///
    /// # Errors
    /// With what there is in place of a result, or if the stream broke off.
    pub async fn whole(self) -> Result<Answer, RouterError> {
        let Some(mut stream) = self.stream else {
            self.delivery.delivered();
            return self.result;
        };
        let mut answer = self.result?;
        let mut body = BytesMut::from(&answer.body[..]);
        let ending = loop {
            match poll_fn(|cx| stream.poll_next(cx)).await {
                Some(StreamStep::Piece(piece)) => body.extend_from_slice(&piece),
                Some(StreamStep::Ended(ending)) => break ending,
                None => break StreamEnding::Cut(Bucket::InternalError),
            }
        };
        self.delivery.ended(ending);
        match ending {
            StreamEnding::Whole(_) => {
                answer.body = body.freeze();
                Ok(answer)
            }
            StreamEnding::Cut(_) => Err(RouterError::Unavailable(
                "the stream of the answer broke off".into(),
            )),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.attempt.leave(Bucket::ClientDisconnected);
        if let Some(delivery) = &mut self.delivery {
            let generation = self.attempt.generation();
            delivery.note(generation, Some(Bucket::ClientDisconnected), false);
        }
    }
}

impl Delivery {
    /// Of a call that nobody has answered yet: if it is dropped, its caller left.
    pub(super) fn open(router: Arc<Inner>, mut record: Box<CallRecord>) -> Self {
        record.delivered = false;
        record.bucket = Some(Bucket::ClientDisconnected);
        Self {
            router,
            record: Some(record),
        }
    }

    /// The caller got the whole answer.
    pub fn delivered(mut self) {
        if let Some(record) = &mut self.record {
            record.delivered = true;
        }
    }

    /// The stream of the caller ended so.
    pub fn ended(mut self, ending: StreamEnding) {
        let (bucket, delivered) = match ending {
            StreamEnding::Whole(bucket) => (bucket, true),
            StreamEnding::Cut(bucket) => (Some(bucket), false),
        };
        if let Some(record) = &mut self.record {
            record.bucket = bucket;
            record.delivered = delivered;
            record.answered_at = self.router.ports.timer.now();
        }
    }

    /// How long ago the call came.
    fn waited(&self) -> Duration {
        let now = self.router.ports.timer.now();
        let record = self.record.as_ref();
        let waited = record.map(|record| now.duration_since(record.received_at));
        let waited = waited.and_then(|waited| waited.try_into().ok());
        waited.unwrap_or_default()
    }

    /// Takes down how the call ends, now.
    pub(super) fn note(
        &mut self,
        generation: Option<GenerationId>,
        bucket: Option<Bucket>,
        replayed: bool,
    ) {
        if let Some(record) = &mut self.record {
            record.generation = generation;
            record.bucket = bucket;
            record.replayed = replayed;
            record.answered_at = self.router.ports.timer.now();
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.router.ports.calls.record(*record);
        }
    }
}

impl<D: FnOnce(Execution)> DetachOnDrop<D> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Out of its place, so that one that panics is not detached.
        let Some(mut execution) = self.execution.take() else {
            return Poll::Ready(());
        };
        let polled = execution.as_mut().poll(cx);
        if polled.is_pending() {
            self.execution = Some(execution);
        }
        polled
    }
}

impl<D: FnOnce(Execution)> Drop for DetachOnDrop<D> {
    fn drop(&mut self) {
        if let (Some(execution), Some(detach)) = (self.execution.take(), self.detach.take()) {
            detach(execution);
        }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delivery({:?})", self.record)
    }
}

//! The generations that run in this process, who waits for each, and whether they are still this process' own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use accounts::AccountId;
use bytes::Bytes;
use foldhash::HashMap;
use futures_util::task::AtomicWaker;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::stream::{self, AnswerStream, StreamEnding};
use crate::{
    Answer, Bucket, Contact, Generation, GenerationId, Permit, REPLAY_CAP_BYTES, RouterError,
    Serving,
};

/// What a retry may wait before it asks again, where the partner has no polling interval.
const SYNCHRONOUS_RETRY: Duration = Duration::from_secs(5);

/// What a waiter gets.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) result: Result<Answer, RouterError>,
    /// The generation that it comes from.
    pub(crate) generation: Option<GenerationId>,
    /// Whether it was stored, and told before.
    pub(crate) replayed: bool,
    /// What was billed just now; `None` if nothing was settled for it.
    pub(crate) charge_cents: Option<u64>,
    /// Who served it, if its call named its providers.
    pub(crate) serving: Option<Box<Serving>>,
    /// The status with which the partner answered last, of a failure that was told just now.
    pub(crate) upstream_status: Option<u16>,
    /// What follows the result, if that is the first piece of a stream.
    pub(crate) stream: Option<Box<AnswerStream>>,
}

impl Reply {
    /// An answer that comes from no generation which ended just now.
    pub(crate) fn of(result: Result<Answer, RouterError>) -> Self {
        Self {
            result,
            generation: None,
            replayed: false,
            charge_cents: None,
            serving: None,
            upstream_status: None,
            stream: None,
        }
    }
}

/// A generation that runs: at most one waiter gets its reply.
#[derive(Debug)]
pub(crate) struct Running {
    id: GenerationId,
    account: AccountId,
    hold_cents: u64,
    state: Mutex<State>,
    /// Told by the provider once the whole request is out.
    pub(crate) contact: Contact,
    /// Whether another process owns it now,
    is_lost: AtomicBool,
    /// and what wakes its execution then. Every call registers here, which costs less than a list of those who wait.
    execution: AtomicWaker,
    /// Whether its execution is to hear that its caller wants it cancelled.
    is_cancel_news: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the call that began it has taken its place.
    begun: bool,
    waiter: Option<oneshot::Sender<Reply>>,
    /// The caller who gets its answer as a stream.
    stream: Option<Streaming>,
    /// Whether its answer was a stream, all of it.
    is_streamed: bool,
    /// The polling interval, once the partner has accepted.
    polling: Option<Duration>,
    /// Whether its end is being written, which tells by itself whether it was lost.
    is_settling: bool,
    /// Whether its caller wants it cancelled.
    is_cancelled: bool,
    over: bool,
}

/// An answer that a caller gets as a stream.
#[derive(Debug)]
struct Streaming {
    ending: oneshot::Sender<StreamEnding>,
    /// Whether all of it was passed on.
    is_whole: bool,
}

/// The running generations by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry(Arc<Entries>);

#[derive(Debug, Default)]
struct Entries {
    running: Mutex<HashMap<GenerationId, Arc<Running>>>,
    /// Rings when one of them is taken out.
    ended: Notify,
}

/// An entry of the registry; dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Registered {
    registry: Registry,
    id: GenerationId,
    pub(crate) running: Arc<Running>,
}

impl Running {
    fn of(generation: &Generation) -> Self {
        Self {
            id: generation.id,
            account: generation.account.clone(),
            hold_cents: generation.hold_cents,
            state: Mutex::default(),
            contact: Contact::default(),
            is_lost: AtomicBool::new(false),
            execution: AtomicWaker::new(),
            is_cancel_news: AtomicBool::new(false),
        }
    }

    /// The room that it takes.
    pub(crate) fn permit(&self) -> Permit<'_> {
        Permit {
            account: &self.account,
            generation: self.id,
            hold_cents: self.hold_cents,
        }
    }

    /// Gives the first place to the call that began it, if there is one: until then nobody else can wait for it.
    pub(crate) fn begin(&self, waiter: Option<oneshot::Sender<Reply>>) {
        let mut state = self.state();
        state.begun = true;
        state.waiter = waiter;
    }

    /// Waits for the reply through `waiter`, unless another call does, it has not begun, or it is over. One who left does not
    /// count.
    pub(crate) fn follow(
        &self,
        waiter: oneshot::Sender<Reply>,
    ) -> Result<(), oneshot::Sender<Reply>> {
        let mut state = self.state();
        if !state.begun || state.over || state.is_awaited() {
            return Err(waiter);
        }
        state.waiter = Some(waiter);
        Ok(())
    }

    /// Gives the caller who waits the first piece of a stream. What feeds it comes back, unless nobody waits.
    pub(crate) fn stream(
        &self,
        first: Answer,
        serving: Option<Box<Serving>>,
    ) -> Option<mpsc::Sender<Bytes>> {
        let mut state = self.state();
        let waiter = state.waiter.take().filter(|waiter| !waiter.is_closed())?;
        let (pieces, ending, stream) = stream::channel();
        let reply = Reply {
            generation: Some(self.id),
            serving,
            stream: Some(Box::new(stream)),
            ..Reply::of(Ok(first))
        };
        waiter.send(reply).ok()?;
        state.stream = Some(Streaming {
            ending,
            is_whole: false,
        });
        Some(pieces)
    }

    /// The partner ended the stream that was its answer.
    pub(crate) fn streamed(&self) {
        let mut state = self.state();
        state.is_streamed = true;
        if let Some(stream) = &mut state.stream {
            stream.is_whole = true;
        }
    }

    /// Cuts the stream of the caller, who gets nothing more of it; the work goes on.
    pub(crate) fn cut_stream(&self, reason: Bucket) {
        let stream = self.state().stream.take();
        if let Some(stream) = stream {
            // Who left need not be told.
            let _ = stream.ending.send(StreamEnding::Cut(reason));
        }
    }

    /// Whether a call waits for it.
    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.state().is_awaited()
    }

    /// The partner works on it; this is the polling interval.
    pub(crate) fn accepted(&self, polling: Duration) {
        self.state().polling = Some(polling);
    }

    /// Another partner is asked now: what the one before accepted says nothing of it.
    pub(crate) fn asks_another(&self) {
        self.contact.forget();
        self.state().polling = None;
    }

    /// When a retry may ask; `None` while nothing says that the partner has the request.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let synchronous = || self.contact.is_written().then_some(SYNCHRONOUS_RETRY);
        self.state().polling.or_else(synchronous)
    }

    /// Its end is about to be written, and its room is given back after that.
    pub(crate) fn settles(&self) {
        self.state().is_settling = true;
    }

    /// Whether its end is being written, or its room was given back.
    pub(crate) fn is_settling(&self) -> bool {
        self.state().is_settling
    }

    /// Another process owns it now: its execution stops, unless it is writing the end and hears of it there.
    pub(crate) fn lose(&self) {
        if !self.state().is_settling {
            self.is_lost.store(true, Ordering::Release);
            self.execution.wake();
        }
    }

    /// Completes when another process owns it. Only its execution waits for that.
    pub(crate) async fn lost(&self) {
        poll_fn(|context| {
            self.execution.register(context.waker());
            match self.is_lost.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Its caller wants it cancelled: the partner is asked to as soon as it can be.
    pub(crate) fn cancel(&self) {
        let is_first = !std::mem::replace(&mut self.state().is_cancelled, true);
        if is_first {
            self.is_cancel_news.store(true, Ordering::Release);
            self.execution.wake();
        }
    }

    /// Whether its caller wants it cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Completes once, when its caller wants it cancelled. Only its execution waits for that.
    pub(crate) async fn cancelled(&self) {
        poll_fn(|context| {
            self.execution.register(context.waker());
            match self.is_cancel_news.swap(false, Ordering::AcqRel) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Sends the waiter away, because the router stops; the work goes on.
    fn dismiss(&self) {
        let retry_after = self.retry_later();
        self.cut_stream(Bucket::ServiceUnavailable);
        let waiter = self.state().waiter.take();
        if let Some(waiter) = waiter {
            let error = RouterError::Stopping {
                retry_after: Some(retry_after),
            };
            // Who left meanwhile needs no reply.
            let _ = waiter.send(Reply::of(Err(error)));
        }
    }

    /// Ends it: the waiter gets the reply, and no call can follow any more. A stream ends for its caller.
    fn end(&self, mut reply: Reply) {
        let (waiter, stream, is_streamed) = {
            let mut state = self.state();
            state.over = true;
            (state.waiter.take(), state.stream.take(), state.is_streamed)
        };
        if let Some(stream) = stream {
            let ending = stream_ending(&reply.result, stream.is_whole);
            // Who left meanwhile finds the outcome behind its key.
            let _ = stream.ending.send(ending);
        }
        if let Some(waiter) = waiter {
            // A longer stream was kept in part.
            let is_part = |answer: &Answer| answer.body.len() > REPLAY_CAP_BYTES;
            if is_streamed && reply.result.as_ref().is_ok_and(is_part) {
                reply.result = Err(RouterError::NotReplayable);
            }
            // Who left meanwhile finds the outcome behind its key.
            let _ = waiter.send(reply);
        }
    }

    /// When a retry may ask that gets the outcome from somewhere else.
    pub(crate) fn retry_later(&self) -> Duration {
        self.retry_after().unwrap_or(SYNCHRONOUS_RETRY)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a call waits for it or takes its stream.
    fn is_awaited(&self) -> bool {
        let waiter = self.waiter.as_ref();
        let stream = self.stream.as_ref();
        waiter.is_some_and(|waiter| !waiter.is_closed())
            || stream.is_some_and(|stream| !stream.ending.is_closed())
    }
}

/// How a stream ends for its caller when the end of the work is written down.
fn stream_ending(result: &Result<Answer, RouterError>, is_whole: bool) -> StreamEnding {
    match result {
        Ok(_) if is_whole => StreamEnding::Whole(None),
        // An event told it.
        Err(RouterError::Ended(outcome)) if is_whole => StreamEnding::Whole(outcome.bucket()),
        Ok(_) => StreamEnding::Cut(Bucket::InternalError),
        Err(error) => StreamEnding::Cut(error.bucket()),
    }
}

impl Registry {
    /// Enters a generation that is about to run.
    pub(crate) fn enter(&self, generation: &Generation) -> Registered {
        let running = Arc::new(Running::of(generation));
        let id = generation.id;
        self.entries().insert(id, Arc::clone(&running));
        Registered {
            registry: self.clone(),
            id,
            running,
        }
    }

    pub(crate) fn get(&self, id: GenerationId) -> Option<Arc<Running>> {
        self.entries().get(&id).cloned()
    }

    /// Sends all away who wait; how many generations run.
    pub(crate) fn dismiss(&self) -> usize {
        let running: Vec<Arc<Running>> = self.entries().values().cloned().collect();
        running.iter().for_each(|running| running.dismiss());
        running.len()
    }

    /// Those that were dispatched.
    pub(crate) fn dispatched(&self) -> Vec<Arc<Running>> {
        let entries = self.entries();
        let begun = entries.values().filter(|one| one.state().begun);
        begun.cloned().collect()
    }

    /// Another process owns this one now.
    pub(crate) fn lose(&self, id: GenerationId) {
        if let Some(running) = self.get(id) {
            running.lose();
        }
    }

    /// Waits while a generation is ending here, which it is until its room is given back. One that only runs is not waited for.
    pub(crate) async fn has_ended(&self, id: GenerationId) {
        loop {
            // What ends from here on is heard of.
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            let is_ending = self.get(id).is_some_and(|running| running.is_settling());
            if !is_ending {
                return;
            }
            ended.await;
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<GenerationId, Arc<Running>>> {
        let entries = self.0.running.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    /// Takes the generation out and gives its waiter the reply.
    pub(crate) fn end(self, reply: Reply) {
        let running = Arc::clone(&self.running);
        drop(self);
        running.end(reply);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.entries().remove(&self.id);
        self.registry.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use accounts::Labels;
    use futures_util::FutureExt;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn generation() -> Generation {
        Generation {
            id: GenerationId(Uuid::nil()),
            account: "acme".parse().expect("an id"),
            model: "own/flux".parse().expect("an id"),
            hold_cents: 0,
            received_at: Timestamp::UNIX_EPOCH,
            dispatched_at: Timestamp::UNIX_EPOCH,
            api_key: None,
            labels: Labels::NONE,
            serving: None,
        }
    }

    #[test]
    fn who_waits_for_an_end_hears_of_it() {
        let (registry, id) = (Registry::default(), generation().id);
        assert_eq!(registry.has_ended(id).now_or_never(), Some(()));
        let registered = registry.enter(&generation());
        // What runs here may have been ended by another process.
        assert_eq!(registry.has_ended(id).now_or_never(), Some(()));
        registered.running.settles();
        let mut ended = pin!(registry.has_ended(id));
        assert_eq!(ended.as_mut().now_or_never(), None);
        drop(registered);
        assert_eq!(ended.now_or_never(), Some(()));
    }

    #[test]
    fn what_one_partner_accepted_is_not_told_of_the_next() {
        let running = Running::of(&generation());
        running.contact.written();
        assert_eq!(running.retry_after(), Some(SYNCHRONOUS_RETRY));
        running.asks_another();
        assert_eq!(running.retry_after(), None);
        running.accepted(Duration::from_secs(7));
        assert_eq!(running.retry_after(), Some(Duration::from_secs(7)));
        running.asks_another();
        assert_eq!(running.retry_after(), None);
    }
}

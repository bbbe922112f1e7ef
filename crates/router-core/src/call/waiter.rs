//! The half of a call that the connection holds: it waits under the deadline, and leaving it hurts nobody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::running::{Reply, Running};
use crate::{Answer, Bucket, GenerationId, RouterError, Timer};

/// Where an attempt stands; shared by its execution and its waiter, who race to move it on.
#[derive(Debug, Default)]
pub(crate) struct Attempt(Mutex<Stage>);

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
    timer: TimerHandle,
    deadline: Duration,
    has_key: bool,
    delivery: Option<Delivery>,
}

/// What a caller is to be told.
#[derive(Debug)]
pub struct Answered {
    /// The result, or why there is none.
    pub result: Result<Answer, RouterError>,
    /// Whether it was stored, and told before (`Idempotent-Replayed`).
    pub replayed: bool,
    /// To be told whether the caller got it all.
    pub delivery: Delivery,
}

/// Remembers whether the caller got the whole answer; dropping it tells that it did not.
#[derive(Debug)]
pub struct Delivery {
    tell: Option<oneshot::Sender<Told>>,
    told: Told,
}

/// How a call ended, as far as its record is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) bucket: Option<Bucket>,
    pub(super) generation: Option<GenerationId>,
    pub(super) replayed: bool,
    pub(super) answered_at: Option<Timestamp>,
    pub(super) delivered: bool,
}

struct TimerHandle(Arc<dyn Timer>);

impl Attempt {
    /// Whether its waiter left before anything was dispatched.
    pub(super) fn abandoned(&self) -> Option<Bucket> {
        match &*self.stage() {
            Stage::Abandoned(bucket) => Some(*bucket),
            Stage::Preparing | Stage::Following(..) => None,
        }
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    pub(super) fn new(
        attempt: Arc<Attempt>,
        replied: oneshot::Receiver<Reply>,
        tell: oneshot::Sender<Told>,
        timer: Arc<dyn Timer>,
        deadline: Duration,
        has_key: bool,
    ) -> Self {
        let delivery = Delivery {
            tell: Some(tell),
            told: Told::default(),
        };
        Self {
            attempt,
            replied,
            timer: TimerHandle(timer),
            deadline,
            has_key,
            delivery: Some(delivery),
        }
    }

    /// Waits for the reply, at most until the deadline.
    pub async fn wait(mut self) -> Answered {
        let timer = Arc::clone(&self.timer.0);
        let replied = tokio::select! {
            biased;
            replied = &mut self.replied => replied.ok(),
            () = timer.sleep(self.deadline) => {
                let running = self.attempt.leave(Bucket::DeadlineExceeded);
                let replied = self.replied.try_recv().ok();
                replied.or_else(|| Some(self.deadline_exceeded(running.as_deref())))
            }
        };
        let reply = replied.unwrap_or_else(stopped);
        let mut delivery = self.delivery.take().expect("it is taken only here");
        delivery.told = Told {
            bucket: reply.result.as_ref().err().map(RouterError::bucket),
            generation: reply.generation,
            replayed: reply.replayed,
            answered_at: Some(timer.now()),
            delivered: false,
        };
        Answered {
            result: reply.result,
            replayed: reply.replayed,
            delivery,
        }
    }

    fn deadline_exceeded(&self, running: Option<&Running>) -> Reply {
        let retry_after = running
            .filter(|_| self.has_key)
            .and_then(Running::retry_after);
        Reply {
            result: Err(RouterError::Deadline { retry_after }),
            generation: None,
            replayed: false,
        }
    }
}

/// The reply if the execution ended without one, as it does when the program stops.
fn stopped() -> Reply {
    Reply {
        result: Err(RouterError::Unavailable("the execution was stopped".into())),
        generation: None,
        replayed: false,
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.attempt.leave(Bucket::ClientDisconnected);
    }
}

impl Delivery {
    /// The caller got the whole answer.
    pub fn delivered(mut self) {
        self.told.delivered = true;
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            // Nobody listens when the program stops.
            let _ = tell.send(self.told);
        }
    }
}

impl Default for Told {
    /// The caller left before there was an answer.
    fn default() -> Self {
        Self {
            bucket: Some(Bucket::ClientDisconnected),
            generation: None,
            replayed: false,
            answered_at: None,
            delivered: false,
        }
    }
}

impl std::fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Timer")
    }
}

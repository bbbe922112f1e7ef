//! Following a prompt until its end is certain.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use workflow_core::{NodeEvent, NodeId, RunError};

use super::{Run, engine_error, failure, gone};
use crate::client::WorkerError;
use crate::history::{Ending, Entry, InQueue};
use crate::worker::{LOST_AFTER, Signal};

/// After this silence of the socket the worker is asked where the prompt is.
const SILENCE: Duration = Duration::from_secs(5);

/// Pauses between looks at a prompt that seems to be over, or at a worker that does not answer: the first and the longest.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Pauses between attempts to stop a prompt: the first and the longest.
const STOP_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How long a worker that answers garbage is asked for the end of a prompt.
const GARBAGE_TIME: Duration = Duration::from_secs(30);

/// What a look at a worker finds.
enum Found {
    /// It is over.
    Over(Box<Entry>),
    /// It waits or runs.
    Going,
    /// Neither queue nor history has it.
    Gone,
}

/// What wakes a run.
enum Woken {
    Signal(Option<Signal>),
    Look,
    Cancel,
    Stop,
}

impl Run<'_> {
    /// Follows the prompt to its end.
    pub(super) async fn follow(&mut self) -> Result<(), RunError> {
        self.follow_until(Instant::now() + SILENCE, false).await
    }

    /// As [`Run::follow`], for a prompt that an earlier claim submitted and that may be over. One that was stopped is lost.
    pub(super) async fn follow_from_now(&mut self) -> Result<(), RunError> {
        self.follow_until(Instant::now(), true).await
    }

    async fn follow_until(
        &mut self,
        mut look_at: Instant,
        is_earlier: bool,
    ) -> Result<(), RunError> {
        let mut pause = LOOK_AGAIN.0;
        let mut failing_since: Option<Instant> = None;
        let mut stopping: Option<(Instant, Duration)> = None;
        let mut is_deaf = false;
        loop {
            let stop_at = stopping.map_or_else(Instant::now, |(at, _)| at);
            let woken = tokio::select! {
                // Waiting messages are passed on before the worker is asked.
                biased;
                () = self.context.cancel.cancelled(), if stopping.is_none() => Woken::Cancel,
                () = sleep_until(stop_at), if stopping.is_some() => Woken::Stop,
                signal = self.signals.recv(), if !is_deaf => Woken::Signal(signal),
                () = sleep_until(look_at) => Woken::Look,
            };
            match woken {
                Woken::Signal(Some(Signal::Heard(heard))) => {
                    look_at = Instant::now() + SILENCE;
                    let news = self.translator.hear(heard.said);
                    if self.tell(news).await? {
                        look_at = Instant::now();
                        pause = LOOK_AGAIN.0;
                    }
                }
                Woken::Signal(Some(Signal::Reconnected)) => look_at = Instant::now(),
                // Nothing is heard any more: this run only looks.
                Woken::Signal(None) => {
                    is_deaf = true;
                    look_at = Instant::now();
                }
                Woken::Cancel => stopping = Some((Instant::now(), STOP_AGAIN.0)),
                Woken::Stop => {
                    let place = self.worker.stop_prompt(&self.prompt).await;
                    let (_, pause) = stopping.unwrap_or((Instant::now(), STOP_AGAIN.0));
                    stopping = Some((Instant::now() + pause, (pause * 2).min(STOP_AGAIN.1)));
                    if let Ok(InQueue::Pending | InQueue::Absent) = place {
                        look_at = Instant::now();
                    }
                }
                Woken::Look => match self.look_while_there().await {
                    Ok(Found::Over(entry)) => {
                        let is_stopped = matches!(entry.ending, Ending::Interrupted(_));
                        if is_earlier && is_stopped && stopping.is_none() {
                            return Err(RunError::Lost);
                        }
                        return self.end(*entry, stopping.is_some()).await;
                    }
                    // A prompt that was deleted leaves no trace.
                    Ok(Found::Gone) if stopping.is_some() => {
                        return Err(RunError::Canceled(self.stopped_at()));
                    }
                    Ok(Found::Gone) => {
                        tracing::warn!(worker = self.worker.name, job.id = %self.ticket.job, "a worker lost a job");
                        self.worker.forget_staged();
                        return Err(RunError::Lost);
                    }
                    Ok(Found::Going) => {
                        failing_since = None;
                        look_at = Instant::now() + pause;
                        // It seemed to be over and is not: it is asked again soon, then after silence.
                        pause = match pause < LOOK_AGAIN.1 {
                            true => pause * 2,
                            false => SILENCE,
                        };
                    }
                    Err(error) => {
                        let since = *failing_since.get_or_insert_with(Instant::now);
                        self.worker.look_now();
                        let is_lost = self.worker.silent_for() >= LOST_AFTER;
                        if is_lost || since.elapsed() >= GARBAGE_TIME {
                            tracing::warn!(worker = self.worker.name, job.id = %self.ticket.job, %error, "a job was lost with its worker");
                            self.worker.stray(&self.prompt);
                            return Err(RunError::Lost);
                        }
                        if matches!(error, WorkerError::Status { .. } | WorkerError::Garbage(_)) {
                            self.worker.failed(&error.to_string());
                        }
                        look_at = Instant::now() + LOOK_AGAIN.1;
                    }
                },
            }
        }
    }

    /// As [`Run::look`], unless the worker is lost meanwhile.
    async fn look_while_there(&self) -> Result<Found, WorkerError> {
        tokio::select! {
            found = self.look() => found,
            () = gone(&self.worker) => {
                Err(WorkerError::Unanswered("it does not answer any more".to_owned()))
            }
        }
    }

    /// Asks the queue, then the history: the other way round a prompt that ends between the two would be in neither.
    async fn look(&self) -> Result<Found, WorkerError> {
        let client = &self.worker.client;
        if client.queue().await?.place(&self.prompt) != InQueue::Absent {
            return Ok(Found::Going);
        }
        if let Some(entry) = client.history(&self.prompt).await? {
            return Ok(Found::Over(Box::new(entry)));
        }
        // A prompt that was just accepted may be on its way from one to the other.
        if client.queue().await?.place(&self.prompt) != InQueue::Absent {
            return Ok(Found::Going);
        }
        let entry = client.history(&self.prompt).await?;
        Ok(entry.map_or(Found::Gone, |entry| Found::Over(Box::new(entry))))
    }

    /// Ends the run as the history says.
    async fn end(&mut self, entry: Entry, was_asked: bool) -> Result<(), RunError> {
        self.hear_rest().await?;
        match entry.ending {
            Ending::Succeeded => {
                for (id, shown, ui) in entry.outputs {
                    self.deliver_kept(&id, &shown, ui).await?;
                }
                let news = self.translator.complete(&self.ticket.plan.order);
                self.tell(news).await?;
                self.worker.succeeded();
                Ok(())
            }
            Ending::Failed(failed) => {
                // The node failed, and the worker did its part.
                self.worker.succeeded();
                for (id, shown, ui) in entry.outputs {
                    self.deliver_kept(&id, &shown, ui).await?;
                }
                let node = failed.node.as_deref().and_then(|id| self.root_of(id, id));
                if let Some(node) = &node {
                    let inputs = failure::bounded_inputs(failed.inputs.clone());
                    let node = node.clone();
                    self.sink().progress(NodeEvent::Failed { node, inputs });
                }
                let secret = self.context.secret.as_ref();
                Err(RunError::Failed(failure::of_node(&failed, node, secret)))
            }
            Ending::Interrupted(node) if was_asked || self.context.cancel.is_cancelled() => {
                let node = node.and_then(|id| self.root_of(&id, &id));
                Err(RunError::Canceled(node.or_else(|| self.stopped_at())))
            }
            Ending::Interrupted(_) => Err(engine_error(
                "another client interrupted the run at its worker; submit the job again",
            )),
        }
    }

    /// Tells what was said before the end and is still unread.
    async fn hear_rest(&mut self) -> Result<(), RunError> {
        while let Ok(signal) = self.signals.try_recv() {
            if let Signal::Heard(heard) = signal {
                let news = self.translator.hear(heard.said);
                self.tell(news).await?;
            }
        }
        Ok(())
    }

    /// The node that the run was stopped before, as far as is known.
    fn stopped_at(&self) -> Option<NodeId> {
        let current = self.translator.current().cloned();
        current.or_else(|| super::first(self.ticket))
    }
}

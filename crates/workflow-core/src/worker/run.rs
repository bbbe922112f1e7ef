//! One job from its claim to its end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::sink::Sink;
use super::traces::{self, NodeSpans};
use super::{Backoff, Running, Worker};
use crate::{
    Claim, CommitError, ComputePermit, Durability, Graph, Job, JobError, JobErrorCode, JobEvent,
    JobId, JobStatus, NodeCatalog, Plan, RunContext, RunError, SaveJob, SaveOutcome, StoreError,
    Ticket, ValidGraph, validate,
};

/// How often progress that nobody committed is written down, so that a job that runs again does not show less.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Why a run was told to stop, when it was the worker that told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Its time is over.
    TimedOut,
    /// The server drains and will not wait longer.
    Halted,
}

/// Takes a run out of the registry however it ends, so that a lost one is not renewed for ever. A later run of the same job stays.
struct Registered<'a> {
    worker: &'a Worker,
    job: JobId,
    sink: Arc<Sink>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // Nobody goes on with a run that is over.
        self.sink.claim.lose();
        let mut registry = self.worker.registry();
        let known = registry.get(&self.job);
        if known.is_some_and(|running| Arc::ptr_eq(&running.sink, &self.sink)) {
            registry.remove(&self.job);
        }
    }
}

impl Worker {
    /// Runs a claimed job to its end and saves how it ended.
    pub(super) async fn run_claim(
        &self,
        claim: Claim,
        permit: ComputePermit,
        halt: &CancellationToken,
    ) {
        let (id, epoch) = (claim.job.id, claim.job.epoch);
        if self.is_run_already(&claim).await {
            return;
        }
        let sink = Sink::new(self, &claim);
        let cancel = CancellationToken::new();
        self.registry().insert(
            id,
            Running {
                account: claim.job.account.clone(),
                permit: permit.clone(),
                sink: sink.clone(),
                cancel: cancel.clone(),
            },
        );
        let registered = Registered {
            worker: self,
            job: id,
            sink: sink.clone(),
        };
        self.publish(&claim.job);
        // The job may have been canceled between the claim and now.
        self.ports.hub.stop_if_canceled(id, &cancel);
        let (written, timer) = (Arc::downgrade(&sink), Arc::clone(&self.timer));
        self.ports.hub.offer_log(id, move || {
            let log = written.upgrade()?.log(timer.now(), false);
            (!log.text.is_empty()).then_some(log)
        });

        let mut stop = None;
        let result = {
            let run = self.run_engine(&claim, &sink, permit, cancel.clone());
            let span = traces::run();
            sink.trace_nodes(NodeSpans::within(span.clone()));
            let run = run.instrument(span);
            let run_limit = self.timer.sleep(self.config.run_limit);
            let mut tick = self.timer.sleep(PROGRESS_EVERY);
            let overdue = sink.overdue();
            tokio::pin!(run, run_limit, overdue);
            loop {
                tokio::select! {
                    result = &mut run => break result,
                    () = &mut run_limit, if stop.is_none() => {
                        stop = Some(Stop::TimedOut);
                        cancel.cancel();
                    }
                    () = halt.cancelled(), if stop.is_none() => {
                        stop = Some(Stop::Halted);
                        cancel.cancel();
                    }
                    () = &mut tick => {
                        tick = self.timer.sleep(PROGRESS_EVERY);
                        sink.save_progress().await;
                    }
                    () = &mut overdue => {
                        overdue.set(sink.overdue());
                        sink.save_progress().await;
                    }
                }
            }
        };
        // A run that was stopped finishes no node.
        sink.trace_nodes(NodeSpans::none());
        if let Err(RunError::Canceled(Some(node))) = &result {
            sink.stopped_at(node.clone());
        }
        let event = match (result, stop) {
            (Ok(()), _) => JobEvent::Finished { epoch },
            (Err(RunError::Failed(error)), _) => JobEvent::Failed { epoch, error },
            (
                Err(RunError::Canceled(_) | RunError::Lost | RunError::NoWorker),
                Some(Stop::TimedOut),
            ) => JobEvent::TimedOut { epoch },
            (Err(RunError::Canceled(_)), Some(Stop::Halted))
            | (Err(RunError::NoWorker), Some(Stop::Halted) | None) => JobEvent::GivenBack { epoch },
            (Err(RunError::Canceled(_)), None) => JobEvent::Stopped { epoch },
            (Err(RunError::Lost), Some(Stop::Halted) | None) => {
                tracing::warn!(job.id = %id, "the worker of a run was lost");
                JobEvent::LeaseLost { epoch }
            }
        };
        let unsaved = self.unsaved.try_acquire();
        if unsaved.is_ok() {
            self.give_seat_back(id, &sink);
        }
        self.save_end(&sink, event, halt).await;
        drop((unsaved, registered));
    }

    /// Lets another job compute from now on. This one still counts as one of its account's that runs: its permit is not one
    /// that was left to wait.
    fn give_seat_back(&self, job: JobId, sink: &Arc<Sink>) {
        let mut registry = self.registry();
        let running = registry.get_mut(&job);
        if let Some(running) = running.filter(|running| Arc::ptr_eq(&running.sink, sink)) {
            running.permit = ComputePermit::default();
        }
    }

    /// Whether a run of this worker goes on with this claim: a crash took back the claim that the run began with, and this one is
    /// the same again. Any other run of the job is stopped for good.
    async fn is_run_already(&self, claim: &Claim) -> bool {
        let id = claim.job.id;
        let Some(earlier) = self.registry().get(&id).cloned() else {
            return false;
        };
        let is_same = earlier.sink.epoch() == claim.job.epoch;
        if is_same && earlier.sink.goes_on().await {
            tracing::warn!(job.id = %id, "the database had lost a claim and gave it out again; its run continues");
            return true;
        }
        earlier.sink.claim.lose();
        earlier.cancel.cancel();
        false
    }

    async fn run_engine(
        &self,
        claim: &Claim,
        sink: &Arc<Sink>,
        permit: ComputePermit,
        cancel: CancellationToken,
    ) -> Result<(), RunError> {
        tokio::select! {
            biased;
            () = permit.take() => {}
            () = cancel.cancelled() => return Err(RunError::Canceled(None)),
        }
        let secret = self.ports.secrets.get(claim.job.id);
        let needs = self.sets.read(&claim.body.placement.requirements);
        let needs_secret = needs
            .as_ref()
            .is_some_and(|needs| needs.secret_at.is_some());
        if needs_secret && secret.is_none() {
            let message = "the key that came with this job did not survive a restart of the server; submit it again";
            return Err(RunError::Failed(JobError::new(
                JobErrorCode::SecretLost,
                message,
            )));
        }
        let engine = needs.and_then(|needs| self.ports.engines.get(&needs.engine));
        let engine = engine.ok_or_else(|| RunError::Failed(broken(NO_ENGINE)))?;
        let graph = Self::prepare(claim, &engine.nodes()).map_err(RunError::Failed)?;
        let plan = Arc::new(Plan::of(&graph));
        sink.begin(&plan);
        let ticket = Ticket {
            job: claim.job.id,
            account: claim.job.account.clone(),
            graph: Arc::new(graph),
            plan,
            extra_pnginfo: members(&claim.body.extra_pnginfo),
            origin: claim.body.origin.clone(),
        };
        let context = RunContext {
            secret,
            fence: claim.job.epoch,
            cancel,
            permit,
            sink: sink.clone(),
        };
        engine.run(ticket, context).await
    }

    /// The graph as it was validated at submission: the same text, the same files, the same classes.
    fn prepare(claim: &Claim, nodes: &NodeCatalog) -> Result<ValidGraph, JobError> {
        let value = json_text::read(&claim.body.workflow)
            .map_err(|_| broken("the stored workflow is damaged"))?;
        let graph =
            Graph::from_value(value).map_err(|_| broken("the stored workflow is damaged"))?;
        let targets = claim.body.targets.as_deref();
        let validation = validate(&graph, nodes, &claim.body.files, targets);
        validation
            .graph
            .ok_or_else(|| broken("the workflow does not fit the nodes of this worker any more"))
    }

    /// Saves the end of a run. The store must take it in the end: until then the job is neither done nor lost.
    async fn save_end(&self, sink: &Sink, event: JobEvent, halt: &CancellationToken) {
        let mut end = self.end(sink, event);
        let mut backoff = Backoff::new();
        loop {
            match self.try_end(sink, &mut end).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(error = %error, "saving the end of a job failed; trying again")
                }
            }
            tokio::select! {
                () = self.timer.sleep(backoff.next()) => {}
                // The next start finds the job as it was last saved and takes it up from there.
                () = halt.cancelled() => return,
            }
        }
    }

    /// What is to be saved of a run that ended so.
    pub(super) fn end(&self, sink: &Sink, event: JobEvent) -> End {
        let is_refused = matches!(&event, JobEvent::Failed { error, .. } if error.code == JobErrorCode::InvalidWorkflow);
        End {
            event,
            withdraws: is_refused && self.ports.hub.take_verdict(sink.id),
            unanswered: None,
        }
    }

    pub(super) async fn try_end(&self, sink: &Sink, end: &mut End) -> Result<(), StoreError> {
        let mut kept = sink.kept().await;
        while !sink.claim.is_lost() {
            let now = self.timer.now();
            let mut job = Job::clone(&kept.job);
            job.progress = sink.progress_now();
            if job.apply(end.event.clone(), now).is_err() {
                // Either a cancel was saved by the request that asked for it, or the claim was lost meanwhile: the job then goes on
                // elsewhere, or is over.
                let before = kept.job.revision;
                if sink.reload(&mut kept).await? && kept.job.revision > before {
                    continue;
                }
                return Ok(());
            }
            if end.withdraws && job.status == JobStatus::Failed {
                // Its submission is refused instead. One that was canceled meanwhile is no refused one.
                job.withdraw();
            }
            let log = Some(sink.log(now, job.status.is_terminal()));
            let unanswered = end.unanswered.replace(job.clone());
            let save = SaveJob {
                job,
                outputs: kept.put_off.clone(),
                log,
                durability: Durability::Now,
                reports: sink.hand_over(),
            };
            let outcome = self.ports.store.save(save).await?;
            end.unanswered = None;
            match outcome {
                SaveOutcome::Saved(job) => {
                    self.ended(sink, &job);
                    return Ok(());
                }
                // A crash took outputs back, and there is no room for them any more.
                SaveOutcome::QuotaExceeded => {
                    kept.put_off.clear();
                    let code = JobErrorCode::StorageQuotaExceeded;
                    end.event = JobEvent::Failed {
                        epoch: sink.epoch(),
                        error: JobError::new(code, CommitError::StorageQuota.to_string()),
                    };
                }
                SaveOutcome::Conflict => {
                    let found = sink.load(&kept).await?;
                    // The answer to a save that worked may have been lost.
                    if let Some(saved) = unanswered.and_then(|job| saved(job, found.as_ref())) {
                        self.ended(sink, &saved);
                        return Ok(());
                    }
                    sink.take(&mut kept, found);
                }
            }
        }
        Ok(())
    }

    /// The end of a run is saved.
    fn ended(&self, sink: &Sink, job: &Arc<Job>) {
        traces::saved(job);
        sink.release();
        self.publish(job);
        // Its account may have lacked the room for another one, or the job itself is to be claimed again.
        self.ports.hub.ring();
    }
}

/// The end of a run on its way into the store.
pub(super) struct End {
    event: JobEvent,
    /// Whether nothing of the job is kept, for its submission waits to be refused.
    withdraws: bool,
    /// The job as it was to be saved, where the store has not answered.
    unanswered: Option<Job>,
}

/// The job as it is saved, if what was found is what was to be saved. Of a job that is withdrawn nothing is found.
fn saved(unanswered: Job, found: Option<&Arc<Job>>) -> Option<Arc<Job>> {
    let revision = unanswered.revision + 1;
    match found {
        Some(found) => {
            let of = |job: &Job| (job.status, job.epoch, job.worker);
            let is_it = found.revision == revision && of(found) == of(&unanswered);
            is_it.then(|| Arc::clone(found))
        }
        None => unanswered.is_withdrawn().then(|| {
            Arc::new(Job {
                revision,
                ..unanswered
            })
        }),
    }
}

/// The members of a stored object; none of what is no object.
fn members(text: &str) -> Map<String, Value> {
    match json_text::read_str(text) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    }
}

const NO_ENGINE: &str = "the engine of this job is not part of this server any more";

fn broken(message: &str) -> JobError {
    JobError::new(JobErrorCode::InvalidWorkflow, message)
}

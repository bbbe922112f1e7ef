//! One job at a worker, from its claim to its end.
//!
//! The socket tells how far a prompt is; how it ended is only believed of the history, and that it is gone only if neither queue
//! nor history has it. Whatever cannot be known ends as *lost*: the job runs again if it has no output yet.

mod deliver;
mod earlier;
mod failure;
mod follow;
mod submit;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use workflow_core::{
    JobError, JobErrorCode, NodeEvent, NodeId, Requirements, RunContext, RunError, RunSink, Ticket,
};

use crate::history::FileRef;
use crate::pool::{ComfyPool, Shared, WorkerSlot};
use crate::prompt::{self, Staged};
use crate::translate::{News, Translator};
use crate::worker::{LOST_AFTER, Signal, Worker};

/// How many workers are tried before a prompt is submitted anywhere.
const MOST_WORKERS_TRIED: usize = 5;

/// A job at a worker.
struct Run<'a> {
    pool: &'a Shared,
    worker: Arc<Worker>,
    ticket: &'a Ticket,
    context: &'a RunContext,
    /// The prompt of this attempt.
    prompt: String,
    signals: mpsc::Receiver<Signal>,
    translator: Translator,
    /// Files and texts that were committed, so that none is committed twice.
    delivered: HashSet<(NodeId, FileRef)>,
    /// How many outputs of a node were committed.
    indices: HashMap<NodeId, u32>,
    /// When its turn came.
    began: Instant,
    /// Its turn to compute at the worker.
    _turn: OwnedSemaphorePermit,
}

/// How the try of a worker ended that came to no end of the job.
enum NotHere {
    /// The worker failed; another one may do it.
    Elsewhere,
    /// The worker is not there, and nothing was sent to it.
    Away,
    /// It ends so.
    Ends(RunError),
}

impl From<RunError> for NotHere {
    fn from(error: RunError) -> Self {
        Self::Ends(error)
    }
}

/// Runs a job at some worker.
pub(crate) async fn run(
    pool: &Arc<Shared>,
    ticket: Ticket,
    context: RunContext,
) -> Result<(), RunError> {
    let classes = ticket.graph.nodes.values();
    let needs = Requirements {
        classes: classes.map(|node| node.definition.class.clone()).collect(),
        files: pool.model_files(&ticket.graph),
        ..Requirements::of_engine(ComfyPool::name())
    };
    if context.fence.0 > 1
        && let Some(ended) = earlier::take_up(pool, &ticket, &context, &needs).await
    {
        return ended;
    }
    let mut avoid = Vec::new();
    let mut again = 0;
    while avoid.len() < MOST_WORKERS_TRIED {
        let place = tokio::select! {
            place = pool.acquire(ticket.job, &needs, &avoid) => place,
            () = context.cancel.cancelled() => return Err(RunError::Canceled(first(&ticket))),
        };
        let Some(place) = place else {
            return Err(RunError::NoWorker);
        };
        match at_worker(pool, &place, &ticket, &context, &needs, &mut again).await {
            Ok(()) => return Ok(()),
            Err(NotHere::Ends(error)) => return Err(error),
            Err(NotHere::Away) => place.worker.unreachable(),
            Err(NotHere::Elsewhere) => avoid.push(place.worker.name.clone()),
        }
    }
    // Nothing was committed, so the job may try once more later.
    Err(RunError::Lost)
}

/// The node that a job is stopped before if none has begun.
fn first(ticket: &Ticket) -> Option<NodeId> {
    ticket.plan.order.first().cloned()
}

async fn at_worker(
    pool: &Arc<Shared>,
    place: &WorkerSlot,
    ticket: &Ticket,
    context: &RunContext,
    needs: &Requirements,
    again: &mut u32,
) -> Result<(), NotHere> {
    let worker = &place.worker;
    stage(pool, worker, &prompt::staged(&ticket.graph), context).await?;
    let mut run = Run::begin(pool, worker, ticket, context).await?;
    run.submit(again).await?;
    worker.warmed(&needs.files);
    let ended = run.follow().await;
    run.count(&ended);
    Ok(ended?)
}

/// Puts the files of a job where the worker finds them. Each is sent once.
async fn stage(
    pool: &Shared,
    worker: &Worker,
    files: &[Staged],
    context: &RunContext,
) -> Result<(), NotHere> {
    for file in files {
        if worker.has_staged(&file.name) {
            continue;
        }
        let uploaded = tokio::select! {
            uploaded = worker.client.upload(&*pool.blobs, file) => uploaded,
            () = context.cancel.cancelled() => return Err(RunError::Canceled(None).into()),
        };
        match uploaded {
            Ok(()) => worker.staged(&file.name, file.blob.size_bytes),
            Err(error) => return Err(failure::of_upload(worker, &error)),
        }
    }
    Ok(())
}

impl<'a> Run<'a> {
    /// Waits for the turn to compute.
    async fn begin(
        pool: &'a Shared,
        worker: &Arc<Worker>,
        ticket: &'a Ticket,
        context: &'a RunContext,
    ) -> Result<Self, NotHere> {
        let turn = tokio::select! {
            turn = Arc::clone(&worker.compute).acquire_owned() => turn,
            () = context.cancel.cancelled() => {
                return Err(RunError::Canceled(first(ticket)).into());
            }
            () = gone(worker) => return Err(NotHere::Away),
        };
        // Nobody ever closes it.
        let turn = turn.map_err(|_| NotHere::Elsewhere)?;
        worker.connected().await;
        let (_, signals) = mpsc::channel(1);
        Ok(Self {
            pool,
            worker: Arc::clone(worker),
            ticket,
            context,
            prompt: String::new(),
            signals,
            translator: Translator::new(&ticket.graph.prompt),
            delivered: HashSet::new(),
            indices: HashMap::new(),
            began: Instant::now(),
            _turn: turn,
        })
    }

    fn sink(&self) -> &dyn RunSink {
        &*self.context.sink
    }

    /// Follows this prompt from now on.
    fn attend(&mut self, prompt: String) {
        self.signals = self.worker.route(&prompt);
        self.worker.not_stray(&prompt);
        self.prompt = prompt;
    }

    /// Tells what was heard. Files that a node shows are committed before they are told of.
    async fn tell(&mut self, news: Vec<News>) -> Result<bool, RunError> {
        let mut may_be_over = false;
        for news in news {
            match news {
                News::Node(event) => self.sink().progress(event),
                News::Shown(node, ui) => self.show(node, ui).await?,
                News::Preview(preview) => self.sink().preview(preview),
                News::Frame(node, png) => {
                    if let Err(refused) = self.sink().frame(&node, png).await {
                        // Nobody reads what the prompt makes from now on.
                        self.worker.stray(&self.prompt);
                        let class = self.translator.class(&node).to_owned();
                        return Err(refused.ends_run(node, class));
                    }
                }
                News::Line(node, line) => self.sink().text(&node, &line),
                News::MayBeOver => may_be_over = true,
            }
        }
        Ok(may_be_over)
    }

    async fn show(&mut self, node: NodeId, ui: Value) -> Result<(), RunError> {
        self.deliver(&node, &ui).await?;
        self.sink().progress(NodeEvent::Executed { node, ui });
        Ok(())
    }

    fn count(&self, ended: &Result<(), RunError>) {
        let mut shared = self.worker.shared();
        match ended {
            Ok(()) => shared.counts.succeeded += 1,
            Err(RunError::Failed(_)) => shared.counts.failed += 1,
            Err(RunError::Lost) => shared.counts.lost += 1,
            Err(RunError::Canceled(_) | RunError::NoWorker) => {}
        }
        if !matches!(ended, Err(RunError::Lost)) {
            shared.counts.runs.observe(self.began.elapsed());
        }
    }
}

/// Completes when a worker counts as lost.
async fn gone(worker: &Worker) {
    loop {
        let silent = worker.silent_for();
        if silent >= LOST_AFTER {
            return;
        }
        tokio::time::sleep(LOST_AFTER - silent).await;
    }
}

/// A failure that no node is to blame for.
fn engine_error(message: &str) -> RunError {
    RunError::Failed(JobError::new(JobErrorCode::EngineError, message))
}

/// A graph as it is sent, for a worker that may have lost its definitions by now.
fn graph_for(worker: &Worker, ticket: &Ticket) -> Result<Map<String, Value>, NotHere> {
    let definitions = worker.shared().definitions.clone();
    let definitions = definitions.ok_or(NotHere::Away)?;
    Ok(prompt::graph(&ticket.graph, &definitions))
}

//! One run: starts calls, moves values between them, commits what they make, and tells of it in order.
//!
//! One task owns the run and everything in it; calls on the engine's threads only send. A call that outlives the run finds
//! nobody to send to and is silent.

mod deliver;
mod expand;
mod failure;
mod fetch;
mod plan;
mod settle;
mod start;
mod wait;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak, mpsc as std_mpsc};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value as Json};
use tokio::sync::mpsc;
use workflow_core::{ComputePermit, NodeEvent, RunContext, RunError, RunSink, Share, Ticket};

use super::Inner;
use super::announce::Announcer;
use super::cache::KeptFile;
use super::call::Outcome;
use super::compile::{Compiled, Source, Step};
use super::got::Got;
use super::host::{Delivery, Shared};
use super::machine::Machine;
use super::memory::{Budget, Ledger, Parts, Reservation};
use super::threads;
use crate::Value;
use crate::node::RunValues;
use deliver::Delivered;
use expand::Expanding;
use failure::Failure;
use fetch::{Fetched, Fetching};
use start::Next;
use wait::{Answered, Waiting};

/// A run under way.
pub(super) struct Run {
    engine: Arc<Inner>,
    ticket: Arc<Ticket>,
    sink: Arc<dyn RunSink>,
    permit: ComputePermit,
    shared: Arc<Shared>,
    /// Threads for its calls.
    share: Share,
    values: Arc<RunValues>,
    nodes: Vec<Running>,
    outputs: Vec<usize>,
    machine: Machine,
    ledger: Ledger,
    /// Calls under way.
    running: usize,
    /// The same, on their threads; some may be over.
    calls: Vec<Weak<threads::Call>>,
    /// Whether a node failed: what comes after it in order is not begun any more.
    failing: bool,
    finished: mpsc::UnboundedReceiver<(usize, Outcome)>,
    finishes: mpsc::UnboundedSender<(usize, Outcome)>,
    /// Holds at most as many pictures as there are tokens, and the end of each call under way.
    deliveries: mpsc::UnboundedReceiver<(usize, Delivery)>,
    delivers: mpsc::UnboundedSender<(usize, Delivery)>,
    /// A token for each picture among them. There is room for one, which waits while another is committed: with the one that its
    /// maker holds, three pictures in all. The end of a node waits for no room, and so keeps no thread.
    pictures: std_mpsc::Receiver<()>,
    has_room: std_mpsc::SyncSender<()>,
    delivering: Option<BoxFuture<'static, Delivered>>,
    fetching: Fetching,
    waiting: Waiting,
    /// Answers that came, in their order.
    answers: VecDeque<Answered>,
}

/// A node of the run, with its result once it has one.
struct Running {
    step: Step,
    /// The submitted node in whose place it stands.
    root: Option<usize>,
    /// An earlier node of the same key: its result is this one's.
    twin: Option<usize>,
    /// Lazy inputs that the node asked for.
    resolved: Vec<usize>,
    slots: Vec<Held>,
    ui: Map<String, Json>,
    files: Vec<KeptFile>,
    /// Outputs committed in its name, those of its expansion included.
    committed: u32,
    failure: Option<Failure>,
    expanding: Option<Expanding>,
    call: Option<Calling>,
    /// What its latest call got, until it has its result.
    got: Option<Got>,
    /// Files from web addresses, by input; until it has its result.
    fetched: Vec<Fetched>,
    began: bool,
    /// Its result must not stand for it in a later run: something in its place commits files, or in that of what it reads.
    once: bool,
    /// It once ran out of memory beside others: next time it runs alone.
    alone: bool,
}

/// A call under way.
struct Calling {
    /// Its arguments.
    parts: Parts,
    /// Whether they were taken from where they lay, so that it cannot be made again.
    takes: bool,
    /// Outputs that were committed in its root's name before.
    committed: u32,
    /// What it asked for, held until its result is counted as alive.
    _reservation: Arc<Reservation>,
}

/// The values of one output slot.
#[derive(Default)]
struct Held {
    values: Option<Vec<Value>>,
    parts: Parts,
    /// Inputs that still read it.
    uses: u32,
}

/// How long a run that is to stop waits for the calls under way; then it leaves them behind.
const STOP_GRACE: Duration = Duration::from_secs(1);

impl Run {
    pub(super) fn new(
        engine: Arc<Inner>,
        ticket: Arc<Ticket>,
        context: RunContext,
        compiled: Compiled,
    ) -> Self {
        let shared = Shared {
            announcer: Announcer::new(Arc::clone(&context.sink)),
            budget: Arc::new(Budget::new(engine.job_memory_bytes)),
            cancel: context.cancel,
        };
        let values = RunValues {
            job: ticket.job,
            account: ticket.account.to_string(),
            secret: context.secret,
            prompt: compiled.prompt,
            extra_pnginfo: ticket.extra_pnginfo.clone(),
            metadata: OnceLock::new(),
        };
        let (finishes, finished) = mpsc::unbounded_channel();
        let (delivers, deliveries) = mpsc::unbounded_channel();
        let (has_room, pictures) = std_mpsc::sync_channel(1);
        Self {
            share: engine.threads.shares().of(&ticket.account),
            engine,
            ticket,
            sink: context.sink,
            permit: context.permit,
            shared: Arc::new(shared),
            values: Arc::new(values),
            nodes: compiled
                .steps
                .into_iter()
                .map(|step| Running::new(step, None))
                .collect(),
            outputs: compiled.outputs,
            machine: Machine::default(),
            ledger: Ledger::default(),
            running: 0,
            calls: Vec::new(),
            failing: false,
            finished,
            finishes,
            deliveries,
            delivers,
            pictures,
            has_room,
            delivering: None,
            fetching: Fetching::default(),
            waiting: Waiting::default(),
            answers: VecDeque::new(),
        }
    }

    /// Runs to the end, which the announcements never pass.
    pub(super) async fn finish(mut self) -> Result<(), RunError> {
        self.deliver_again().await?;
        self.plan();
        loop {
            self.advance()?;
            if self.machine.is_over() {
                return Ok(());
            }
            let next = match self.next()? {
                Next::Settled => continue,
                Next::Call(node) => Some(node),
                Next::Wait => None,
            };
            let may_call = next.is_some() || !self.answers.is_empty();
            let is_idle =
                self.running == 0 && self.delivering.is_none() && self.fetching.is_empty();
            if !may_call && is_idle {
                if self.waiting.is_empty() {
                    return Err(self.never_ends());
                }
                self.rest().await?;
                continue;
            }
            let cancel = self.shared.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return self.stop().await,
                Some((node, outcome)) = self.finished.recv() => self.settle(node, outcome)?,
                delivered = deliver::pending(&mut self.delivering) => self.delivered(delivered)?,
                Some(fetched) = self.fetching.next() => self.fetched(fetched),
                Some(answered) = self.waiting.next() => self.answered(answered),
                Some((node, delivery)) = self.deliveries.recv(), if self.delivering.is_none() => {
                    self.take(node, delivery)?;
                }
                permit = self.share.take(), if may_call => {
                    match (self.answers.pop_front(), next) {
                        (Some(answered), _) => self.go_on(answered, permit),
                        (None, Some(node)) => self.start(node, permit),
                        (None, None) => {}
                    }
                }
            }
        }
    }

    /// Tells what can be told, in order.
    fn advance(&mut self) -> Result<(), RunError> {
        while let Some(turn) = self.machine.turn() {
            let is_done = self.machine.is_done(turn);
            let node = &mut self.nodes[turn];
            // Whether a node with lazy inputs gives its turn back first is known only when it is done.
            let is_silent = node.step.known.is_some() || node.twin.is_some();
            let may_begin =
                is_done || node.failure.is_some() || !node.step.sources.iter().any(Source::is_lazy);
            if !node.began && !is_silent && may_begin {
                node.began = true;
                self.shared
                    .announcer
                    .begin(turn, &node.step.id, &node.step.definition.class);
            }
            if let Some(Failure { error, inputs }) = node.failure.take() {
                let node = node.step.id.clone();
                self.shared
                    .announcer
                    .tell(NodeEvent::Failed { node, inputs });
                return Err(RunError::Failed(error));
            }
            if !is_done {
                break;
            }
            let node = &self.nodes[turn];
            let id = || node.step.id.clone();
            let ui = node.shown();
            if !ui.is_empty() {
                self.shared.announcer.tell(NodeEvent::Executed {
                    node: id(),
                    ui: Json::Object(ui),
                });
            }
            self.shared
                .announcer
                .tell(NodeEvent::Finished { node: id() });
            self.machine.told(turn);
        }
        Ok(())
    }

    /// Stops: gives the calls under way a moment, tells what they finished, and names the node that was about to run.
    async fn stop(&mut self) -> Result<(), RunError> {
        let grace = tokio::time::sleep(STOP_GRACE);
        tokio::pin!(grace);
        while self.running > 0 || self.delivering.is_some() {
            tokio::select! {
                biased;
                () = &mut grace => break,
                Some((node, outcome)) = self.finished.recv() => self.settle(node, outcome)?,
                delivered = deliver::pending(&mut self.delivering) => self.delivered(delivered)?,
                Some((node, delivery)) = self.deliveries.recv(), if self.delivering.is_none() => {
                    self.take(node, delivery)?;
                }
            }
        }
        // A node that fails while the run is stopped was stopped: that is what was asked for.
        let _ = self.advance();
        if self.machine.is_over() {
            // It was finished before anybody could stop it: nothing that it made is taken back.
            return Ok(());
        }
        let turn = self.machine.turn();
        Err(RunError::Canceled(
            turn.map(|turn| self.nodes[turn].step.id.clone()),
        ))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.announcer.close();
        self.calls.retain(|call| call.strong_count() > 0);
        if self.calls.is_empty() {
            return;
        }
        // Detached on purpose: the job is over, and its calls may never be. Outside a runtime nothing runs that could wait.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let calls = std::mem::take(&mut self.calls);
            runtime.spawn(Arc::clone(&self.engine.threads).outlived(calls));
        }
    }
}

impl Running {
    fn new(step: Step, root: Option<usize>) -> Self {
        let slots = step
            .definition
            .outputs
            .iter()
            .map(|_| Held::default())
            .collect();
        Self {
            step,
            root,
            twin: None,
            resolved: Vec::new(),
            slots,
            ui: Map::new(),
            files: Vec::new(),
            committed: 0,
            failure: None,
            expanding: None,
            call: None,
            got: None,
            fetched: Vec::new(),
            began: false,
            once: false,
            alone: false,
        }
    }

    /// What clients of the older API show: the files that say so, then what the node itself shows.
    fn shown(&self) -> Map<String, Json> {
        let mut shown = Map::new();
        for file in &self.files {
            let Some(list) = file.shown_under else {
                continue;
            };
            let entry = shown.entry(list).or_insert_with(|| Json::Array(Vec::new()));
            if let Json::Array(files) = entry {
                files.push(file.shown());
            }
        }
        for (key, value) in &self.ui {
            shown.entry(key.as_str()).or_insert_with(|| value.clone());
        }
        shown
    }
}

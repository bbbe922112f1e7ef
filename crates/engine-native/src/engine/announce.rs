//! Tells what happens in a run, node after node, however many run at once.
//!
//! What a node reports before its turn waits; only the node that has the turn speaks to the sink. After [`Announcer::close`]
//! nothing is told any more, so a call that outlives its run is silent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use workflow_core::{NodeEvent, NodeId, Preview, RunSink};

/// The voice of a run.
pub(super) struct Announcer {
    sink: Arc<dyn RunSink>,
    state: Mutex<State>,
    /// Written with the state locked, read without, because every call asks for it often.
    closed: AtomicBool,
}

#[derive(Default)]
struct State {
    turn: Option<usize>,
    waiting: HashMap<usize, Vec<Report>>,
    previewed: Option<Instant>,
}

/// What a node reports while it works.
pub(super) enum Report {
    Step { step: u32, steps: u32 },
    Text(String),
}

/// Reports of one node that wait at most; more replace the last one.
const MAX_WAITING: usize = 1024;

/// About four previews a second for a whole job: what a person can tell apart.
const PREVIEW_EVERY: Duration = Duration::from_millis(250);

impl Announcer {
    pub(super) fn new(sink: Arc<dyn RunSink>) -> Self {
        Self {
            sink,
            state: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Tells events that belong to no turn.
    pub(super) fn tell(&self, event: NodeEvent) {
        let _state = self.state();
        if !self.is_closed() {
            self.sink.progress(event);
        }
    }

    /// A node begins its turn; what it reported before is told now.
    pub(super) fn begin(&self, index: usize, node: &NodeId, class: &str) {
        let mut state = self.state();
        if self.is_closed() {
            return;
        }
        state.turn = Some(index);
        self.sink.progress(NodeEvent::Started {
            node: node.clone(),
            class: class.to_owned(),
        });
        for report in state.waiting.remove(&index).unwrap_or_default() {
            self.pass_on(node, report);
        }
    }

    /// A node reports.
    pub(super) fn report(&self, index: usize, node: &NodeId, report: Report) {
        let mut state = self.state();
        if self.is_closed() {
            return;
        }
        if state.turn == Some(index) {
            self.pass_on(node, report);
            return;
        }
        let waiting = state.waiting.entry(index).or_default();
        if waiting.len() == MAX_WAITING {
            waiting.pop();
        }
        waiting.push(report);
    }

    /// Whether a preview would be shown now.
    pub(super) fn wants_preview(&self, index: usize) -> bool {
        let state = self.state();
        let is_due = state
            .previewed
            .is_none_or(|previewed| previewed.elapsed() >= PREVIEW_EVERY);
        !self.is_closed() && state.turn == Some(index) && is_due
    }

    /// Shows a preview.
    pub(super) fn preview(&self, index: usize, node: &NodeId, jpeg: Bytes) {
        let mut state = self.state();
        if self.is_closed() || state.turn != Some(index) {
            return;
        }
        state.previewed = Some(Instant::now());
        self.sink.preview(Preview {
            node_id: node.clone(),
            content_type: "image/jpeg",
            bytes: jpeg,
        });
    }

    /// Nothing is told from now on.
    pub(super) fn close(&self) {
        let _state = self.state();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether the run is over, for threads that still work for it.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn pass_on(&self, node: &NodeId, report: Report) {
        match report {
            Report::Step { step, steps } => {
                self.sink.progress(NodeEvent::Step {
                    node: node.clone(),
                    step,
                    steps,
                });
            }
            Report::Text(line) => self.sink.text(node, &line),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The sink never panics by contract; if it did, the state would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

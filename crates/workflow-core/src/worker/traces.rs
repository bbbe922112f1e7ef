//! The spans of a job: its wait in the queue, its run, and the nodes of the run. They cost nothing unless something asks for spans.

use std::collections::HashMap;

use trace_context::TARGET;
use tracing::field::Empty;
use tracing::{Level, Span, enabled, trace_span};

use crate::{Claim, Epoch, Job, JobStatus, NodeEvent, NodeId};

/// The spans of nodes that run.
#[derive(Debug)]
pub(super) struct NodeSpans {
    run: Span,
    open: HashMap<NodeId, Span>,
}

/// The span of a job from its submission to the end of this claim. It continues the trace of the submission, in whatever
/// process that was; the wait is a span in it.
pub(super) fn job(claim: &Claim) -> Span {
    let job = &claim.job;
    let start_ms = job.created_at.as_millisecond();
    let span = trace_span!(
        target: TARGET,
        parent: None,
        "job",
        otel.kind = "consumer",
        trace.parent = claim.body.trace.map(display),
        trace.start_ms = start_ms,
        easel.job.id = %job.id,
        easel.account = %job.account,
        easel.job.epoch = job.epoch.0,
        easel.job.status = Empty,
        otel.status_code = Empty,
    );
    // A job that is claimed again waited since its last claim was lost, which no row tells.
    if job.epoch == Epoch(1) {
        drop(trace_span!(
            target: TARGET,
            parent: &span,
            "queue wait",
            trace.start_ms = start_ms
        ));
    }
    span
}

/// The span of the work of the engine, within that of the job.
pub(super) fn run() -> Span {
    trace_span!(target: TARGET, "run")
}

/// Notes how the job of the current span ended, or that it waits again.
pub(super) fn saved(job: &Job) {
    if !enabled!(target: TARGET, Level::TRACE) {
        return;
    }
    let span = Span::current();
    span.record("easel.job.status", job.status.name());
    if matches!(job.status, JobStatus::Failed | JobStatus::Expired) {
        span.record("otel.status_code", "ERROR");
    }
}

impl NodeSpans {
    /// Without the span of a run, nothing is made.
    pub(super) fn none() -> Self {
        Self::within(Span::none())
    }

    /// Spans within that of a run: an engine tells of its nodes from whatever thread.
    pub(super) fn within(run: Span) -> Self {
        Self {
            run,
            open: HashMap::new(),
        }
    }

    /// Begins and ends spans.
    pub(super) fn record(&mut self, event: &NodeEvent) {
        if self.run.is_disabled() {
            return;
        }
        match event {
            NodeEvent::Started { node, class } => {
                let span = trace_span!(
                    target: TARGET,
                    parent: &self.run,
                    "node",
                    otel.name = class.as_str(),
                    easel.node.id = %node,
                    easel.node.class = class.as_str(),
                    otel.status_code = Empty,
                );
                self.open.insert(node.clone(), span);
            }
            NodeEvent::Failed { node, .. } => {
                if let Some(span) = self.open.remove(node) {
                    span.record("otel.status_code", "ERROR");
                }
            }
            NodeEvent::Finished { node } => drop(self.open.remove(node)),
            NodeEvent::Cached(_) | NodeEvent::Step { .. } | NodeEvent::Executed { .. } => {}
        }
    }
}

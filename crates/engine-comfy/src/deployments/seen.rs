//! The workers of a deployment as they are seen: by the decision, and in numbers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use workflow_core::deployment::{SeenWorker, WorkerCounts, WorkerPhase};

use super::running::{Managed, State};
use crate::pool::WorkerReport;
use crate::worker::WorkerState;

/// The workers that there are here.
pub(super) fn counts(state: &State, reports: &BTreeMap<String, WorkerReport>) -> WorkerCounts {
    let mut counts = WorkerCounts::default();
    for worker in state.workers.values() {
        let report = reports.get(&worker.worker);
        *match report.map(|report| report.state) {
            Some(WorkerState::Draining | WorkerState::Stopped) => &mut counts.draining,
            Some(WorkerState::Ready | WorkerState::Busy) => &mut counts.ready,
            Some(WorkerState::Starting | WorkerState::Unreachable | WorkerState::Failed) | None => {
                &mut counts.starting
            }
        } += 1;
    }
    counts
}

/// A worker as the decision sees it.
pub(super) fn seen(
    number: u32,
    worker: &Managed,
    report: Option<&WorkerReport>,
    now: Timestamp,
) -> SeenWorker {
    let phase = match report.map(|report| (report.state, report.since)) {
        None | Some((WorkerState::Starting, _)) => WorkerPhase::Starting(worker.started_at),
        // What cannot be used never becomes ready.
        Some((WorkerState::Failed, _)) if !worker.was_ready => {
            WorkerPhase::Starting(worker.started_at)
        }
        Some((WorkerState::Unreachable, since)) => WorkerPhase::Away(since.min(now)),
        Some((
            WorkerState::Ready
            | WorkerState::Busy
            | WorkerState::Failed
            | WorkerState::Draining
            | WorkerState::Stopped,
            _,
        )) => WorkerPhase::Ready(worker.idle_since),
    };
    SeenWorker {
        number,
        revision: worker.revision,
        phase,
        is_draining: worker.is_draining,
        jobs: report.map_or(0, |report| u32::try_from(report.jobs).unwrap_or(u32::MAX)),
    }
}

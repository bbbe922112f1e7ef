//! What metrics show of each ComfyUI worker.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use engine_comfy::{BreakerState, Durations, WorkerReport, WorkerState};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use server_kit::metrics::Metrics;

/// What metrics show of workers. Clones show the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerMetrics {
    state: Family<StateLabels, Gauge>,
    jobs: Family<WorkerLabels, Gauge>,
    slots: Family<WorkerLabels, Gauge>,
    breaker: Family<StateLabels, Gauge>,
    ended: Family<EndLabels, Gauge>,
    staged: Family<WorkerLabels, Gauge>,
    fetched: Family<WorkerLabels, Gauge>,
    answers: Family<WorkerLabels, ShownDurations>,
    runs: Family<WorkerLabels, ShownDurations>,
}

/// A histogram that is counted elsewhere.
#[derive(Debug, Default)]
struct ShownDurations(Mutex<Durations>);

impl ShownDurations {
    fn set(&self, durations: Durations) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = durations;
    }
}

impl TypedMetric for ShownDurations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for ShownDurations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let durations = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets: Vec<(f64, u64)> = durations.buckets().collect();
        let total = durations.total().as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(total, durations.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    worker: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabels {
    worker: String,
    end: &'static str,
}

/// All states, so that a gauge goes back to 0 when its state is left.
const STATES: [WorkerState; 7] = [
    WorkerState::Starting,
    WorkerState::Ready,
    WorkerState::Busy,
    WorkerState::Unreachable,
    WorkerState::Draining,
    WorkerState::Stopped,
    WorkerState::Failed,
];

const BREAKER_STATES: [BreakerState; 3] = [
    BreakerState::Closed,
    BreakerState::HalfOpen,
    BreakerState::Open,
];

impl WorkerMetrics {
    /// Registers them.
    pub(crate) fn register(metrics: &mut Metrics) -> Self {
        let shown = Self::default();
        let registry = metrics.registry();
        registry.register(
            "easel_worker_state",
            "1 for the state that a ComfyUI worker is in",
            shown.state.clone(),
        );
        registry.register(
            "easel_worker_jobs",
            "Jobs that a ComfyUI worker has",
            shown.jobs.clone(),
        );
        registry.register(
            "easel_worker_slots",
            "Jobs that a ComfyUI worker may have at once",
            shown.slots.clone(),
        );
        registry.register(
            "easel_worker_breaker",
            "1 for the state that the circuit breaker of a ComfyUI worker is in",
            shown.breaker.clone(),
        );
        registry.register(
            "easel_worker_jobs_ended",
            "Jobs that ended at a ComfyUI worker since the start",
            shown.ended.clone(),
        );
        registry.register(
            "easel_worker_staged_bytes",
            "Bytes of inputs that were staged at a ComfyUI worker since the start",
            shown.staged.clone(),
        );
        registry.register(
            "easel_worker_output_bytes",
            "Bytes of outputs that were fetched from a ComfyUI worker since the start",
            shown.fetched.clone(),
        );
        registry.register(
            "easel_worker_answer_seconds",
            "How long a ComfyUI worker took to answer questions for its health",
            shown.answers.clone(),
        );
        registry.register(
            "easel_worker_job_seconds",
            "How long jobs had a ComfyUI worker for themselves",
            shown.runs.clone(),
        );
        shown
    }

    /// Shows how the workers are.
    pub(crate) fn show(&self, workers: &[WorkerReport]) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        // A worker that was removed is shown no longer.
        self.state.clear();
        self.jobs.clear();
        self.slots.clear();
        self.breaker.clear();
        self.ended.clear();
        self.staged.clear();
        self.fetched.clear();
        self.answers.clear();
        self.runs.clear();
        for report in workers {
            let worker = || WorkerLabels {
                worker: report.name.clone(),
            };
            for state in STATES {
                let labels = StateLabels {
                    worker: report.name.clone(),
                    state: state.name(),
                };
                let is_in = i64::from(state == report.state);
                self.state.get_or_create(&labels).set(is_in);
            }
            let jobs = number(report.jobs as u64);
            self.jobs.get_or_create(&worker()).set(jobs);
            let slots = i64::from(report.slots);
            self.slots.get_or_create(&worker()).set(slots);
            for state in BREAKER_STATES {
                let labels = StateLabels {
                    worker: report.name.clone(),
                    state: state.name(),
                };
                let is_in = i64::from(state == report.breaker);
                self.breaker.get_or_create(&labels).set(is_in);
            }
            for (end, count) in [
                ("succeeded", report.succeeded),
                ("failed", report.failed),
                ("lost", report.lost),
            ] {
                let labels = EndLabels {
                    worker: report.name.clone(),
                    end,
                };
                self.ended.get_or_create(&labels).set(number(count));
            }
            let staged = number(report.staged_bytes);
            self.staged.get_or_create(&worker()).set(staged);
            let fetched = number(report.output_bytes);
            self.fetched.get_or_create(&worker()).set(fetched);
            self.answers.get_or_create(&worker()).set(report.answers);
            self.runs.get_or_create(&worker()).set(report.runs);
        }
    }
}

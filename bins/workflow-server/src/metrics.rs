//! What is counted of jobs: how many wait, run and ended, and how long they took; and the log line of a job that failed.
//!
//! Ends are counted where they are told, which is after they were saved; what waits and runs is asked of the queue when
//! somebody looks.

use std::sync::{Arc, OnceLock};

use engine_native::Overdue;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use server_kit::metrics::Metrics;
use workflow_core::{Job, JobStatus, QueueDepth};

/// Bounds of the histograms in seconds: from a trivial graph to the longest run.
const SECONDS: [f64; 12] = [
    0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0,
];

/// Bytes of bodies and of trees that requests hold now.
type CountMemory = Box<dyn Fn() -> (usize, usize) + Send + Sync>;

/// Counts jobs. Clones count together.
#[derive(Clone)]
pub(crate) struct JobMetrics {
    queued: Gauge,
    running: Gauge,
    streams: Gauge,
    /// How many event streams are open.
    count_streams: Arc<OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>>,
    bodies: Gauge,
    trees: Gauge,
    /// How many bytes bodies and the trees made of them take.
    count_memory: Arc<OnceLock<CountMemory>>,
    free: Gauge,
    abandoned: Gauge,
    stuck: Gauge,
    ended: Family<EndLabels, Counter>,
    waited: Histogram,
    ran: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabels {
    status: &'static str,
}

impl JobMetrics {
    /// Registers them.
    pub(crate) fn register(metrics: &mut Metrics) -> Self {
        let counted = Self {
            queued: Gauge::default(),
            running: Gauge::default(),
            streams: Gauge::default(),
            count_streams: Arc::default(),
            bodies: Gauge::default(),
            trees: Gauge::default(),
            count_memory: Arc::default(),
            free: Gauge::default(),
            abandoned: Gauge::default(),
            stuck: Gauge::default(),
            ended: Family::default(),
            waited: Histogram::new(SECONDS),
            ran: Histogram::new(SECONDS),
        };
        let registry = metrics.registry();
        registry.register(
            "easel_jobs_queued",
            "Jobs that wait",
            counted.queued.clone(),
        );
        registry.register(
            "easel_jobs_running",
            "Jobs that a worker has",
            counted.running.clone(),
        );
        registry.register(
            "easel_event_streams_open",
            "Event streams that are open",
            counted.streams.clone(),
        );
        registry.register(
            "easel_body_bytes",
            "Bytes of the bodies of requests in memory",
            counted.bodies.clone(),
        );
        registry.register(
            "easel_tree_bytes",
            "Bytes that the trees made of bodies take at most",
            counted.trees.clone(),
        );
        registry.register(
            "easel_disk_free_bytes",
            "Space on the disk of the data directory",
            counted.free.clone(),
        );
        registry.register(
            "easel_engine_threads_abandoned",
            "Nodes that still run after their jobs ended, on threads that were replaced",
            counted.abandoned.clone(),
        );
        registry.register(
            "easel_engine_threads_stuck",
            "Nodes that still run after their jobs ended, on threads that were not replaced",
            counted.stuck.clone(),
        );
        registry.register(
            "easel_jobs_ended",
            "Jobs that reached a terminal status",
            counted.ended.clone(),
        );
        registry.register(
            "easel_job_queue_seconds",
            "How long jobs that ended had waited",
            counted.waited.clone(),
        );
        registry.register(
            "easel_job_execution_seconds",
            "How long jobs that ended had run",
            counted.ran.clone(),
        );
        counted
    }

    /// Shows what waits and runs.
    pub(crate) fn set_depth(&self, depth: QueueDepth) {
        self.queued
            .set(i64::try_from(depth.queued).unwrap_or(i64::MAX));
        self.running
            .set(i64::try_from(depth.running).unwrap_or(i64::MAX));
    }

    /// Asks `count` from now on how many streams are open; the first one given is asked.
    pub(crate) fn watch_streams(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        let _ = self.count_streams.set(Box::new(count));
    }

    /// Asks `count` from now on how many bytes bodies and the trees made of them take; the first one given is asked.
    pub(crate) fn watch_memory(&self, count: impl Fn() -> (usize, usize) + Send + Sync + 'static) {
        let _ = self.count_memory.set(Box::new(count));
    }

    /// Shows how many streams are open, and what bodies and trees take.
    pub(crate) fn show_requests(&self) {
        let open = self.count_streams.get().map_or(0, |count| count());
        self.streams.set(i64::try_from(open).unwrap_or(i64::MAX));
        let (bodies, trees) = self.count_memory.get().map_or((0, 0), |count| count());
        self.bodies.set(i64::try_from(bodies).unwrap_or(i64::MAX));
        self.trees.set(i64::try_from(trees).unwrap_or(i64::MAX));
    }

    /// Shows how much room the disk has.
    pub(crate) fn set_free(&self, bytes: u64) {
        self.free.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Shows how many nodes do not end.
    pub(crate) fn set_overdue(&self, overdue: Overdue) {
        let shown = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.abandoned.set(shown(overdue.abandoned));
        self.stuck.set(shown(overdue.stuck));
    }

    /// Counts the end of a job, and logs it if the job failed.
    pub(crate) fn ended(&self, job: &Job) {
        log_failure(job);
        let status = job.status.name();
        self.ended.get_or_create(&EndLabels { status }).inc();
        let seconds = |milliseconds: i64| milliseconds as f64 / 1e3;
        if let Some(waited) = job.queue_ms() {
            self.waited.observe(seconds(waited));
        }
        if let Some(ran) = job.execution_ms() {
            self.ran.observe(seconds(ran));
        }
    }
}

/// Most characters of a node's id or class in a log line: clients choose both.
const MOST_LOGGED: usize = 80;

/// Writes the one line of a job that failed or whose time ran out. It has no message, since that may quote the graph; the
/// answer of the job has it.
fn log_failure(job: &Job) {
    let said = match job.status {
        JobStatus::Failed => "a job failed",
        JobStatus::Expired => "the time of a job ran out",
        JobStatus::Queued
        | JobStatus::Running
        | JobStatus::Canceling
        | JobStatus::Succeeded
        | JobStatus::Canceled => return,
    };
    let error = job.error.as_ref();
    let node = error.and_then(|error| Some(shortened(error.node_id.as_ref()?.as_str())));
    let class = error.and_then(|error| Some(shortened(error.class_type.as_ref()?)));
    tracing::info!(
        job.id = %job.id,
        account = %job.account,
        code = error.map(|error| error.code.name()),
        // As texts, which both forms of the log quote: a line feed in them begins no other line.
        node,
        class,
        queue_ms = job.queue_ms(),
        execution_ms = job.execution_ms(),
        "{said}"
    );
}

fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(MOST_LOGGED);
    end.map_or(text, |(end, _)| &text[..end])
}

//! Calls by model and bucket, and executions at work.
//!
//! A model becomes a label only if the catalog has it, and only so many of them: a client cannot make labels.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::HashMap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use providers::{BreakerState, Settings};
use router_core::{CallQueue, ModelId};
use router_http::Observed;
use server_kit::metrics::{HttpMetrics, Metrics};
use tokio_util::task::TaskTracker;

/// Most models with a label of their own; those beyond are counted together.
const MOST_MODELS: usize = 500;

/// The label of models beyond that, and of calls that name none.
const OTHER: &str = "other";

/// Bounds of the latency histogram in seconds: a picture takes seconds, a video minutes.
const LATENCY_S: [f64; 11] = [
    0.05, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
];

/// Counts answered requests of the router. Clones count together.
#[derive(Clone)]
pub(crate) struct RouterMetrics {
    requests: HttpMetrics,
    calls: Family<CallLabels, Counter>,
    latency: Family<ModelLabels, Histogram>,
    /// What is counted of each model of the catalog, found by its id alone.
    models: Arc<Mutex<HashMap<ModelId, ModelMetrics>>>,
    count_bodies: CountBodies,
}

/// How many bytes bodies take.
type CountBodies = Arc<OnceLock<Box<dyn Fn() -> usize + Send + Sync>>>;

/// The metrics of a model that most of its calls change.
#[derive(Clone, Debug)]
struct ModelMetrics {
    /// The label.
    model: String,
    succeeded: Counter,
    latency: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    model: String,
    bucket: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KeyLabels {
    partner: String,
    key: u8,
    state: &'static str,
}

/// Read when a client asks.
struct Now {
    executions: TaskTracker,
    queue: Arc<dyn CallQueue>,
    count_bodies: CountBodies,
    /// How partners are reached.
    partners: Settings,
}

impl RouterMetrics {
    pub(crate) fn register(
        metrics: &mut Metrics,
        requests: HttpMetrics,
        executions: TaskTracker,
        queue: Arc<dyn CallQueue>,
        partners: Settings,
    ) -> Self {
        let latency = || Histogram::new(LATENCY_S);
        let counted = Self {
            requests,
            calls: Family::default(),
            latency: Family::new_with_constructor(latency as fn() -> Histogram),
            models: Arc::default(),
            count_bodies: CountBodies::default(),
        };
        let registry = metrics.registry();
        registry.register(
            "easel_router_calls",
            "Calls by model and bucket; `ok` is a result",
            counted.calls.clone(),
        );
        registry.register(
            "easel_router_call_duration_seconds",
            "Time from the head of a call to the head of its answer",
            counted.latency.clone(),
        );
        registry.register_collector(Box::new(Now {
            executions,
            queue,
            count_bodies: Arc::clone(&counted.count_bodies),
            partners,
        }));
        counted
    }

    /// Asks `count` from now on how many bytes the bodies of calls take; the first one given is asked.
    pub(crate) fn watch_bodies(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        let _ = self.count_bodies.set(Box::new(count));
    }

    /// Counts an answered request.
    pub(crate) fn observe(&self, seen: &Observed) {
        let status = seen.status.as_u16();
        let method = seen.method.as_str();
        self.requests
            .observe(method, seen.route, status, seen.elapsed);
        // Submissions and estimates run nothing.
        let runs_nothing =
            || seen.route.ends_with("/requests") || seen.route.ends_with("/estimate");
        if seen.method != "POST" || runs_nothing() {
            return;
        }
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.model.as_ref().and_then(|model| models.get(model));
        if let Some(known) = known {
            self.count(known, seen);
            return;
        }
        let labelled = seen.model.as_ref().filter(|_| models.len() < MOST_MODELS);
        let label = labelled.map_or(OTHER, ModelId::as_str);
        let counted = self.of_model(label);
        self.count(&counted, seen);
        if let Some(model) = labelled {
            models.insert(model.clone(), counted);
        }
    }

    fn count(&self, counted: &ModelMetrics, seen: &Observed) {
        match seen.bucket {
            None => {
                counted.succeeded.inc();
            }
            Some(bucket) => {
                let labels = CallLabels {
                    model: counted.model.clone(),
                    bucket: bucket.name(),
                };
                self.calls.get_or_create(&labels).inc();
            }
        }
        counted.latency.observe(seen.elapsed.as_secs_f64());
    }

    fn of_model(&self, model: &str) -> ModelMetrics {
        let labels = CallLabels {
            model: model.to_owned(),
            bucket: "ok",
        };
        let succeeded = self.calls.get_or_create(&labels).clone();
        let model = labels.model;
        let labels = ModelLabels { model };
        let latency = self.latency.get_or_create(&labels).clone();
        ModelMetrics {
            model: labels.model,
            succeeded,
            latency,
        }
    }
}

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let bodies = self.count_bodies.get().map_or(0, |count| count());
        let gauges = [
            (
                "easel_router_executions",
                "Executions of calls at work, with or without a caller",
                self.executions.len(),
            ),
            (
                "easel_router_queued_requests",
                "Requests that wait to be dispatched",
                self.queue.waiting(),
            ),
            (
                "easel_router_body_bytes",
                "Bytes of the bodies of calls in memory",
                bodies,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let described = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(described)?;
        }
        let shown: Family<KeyLabels, Gauge> = Family::default();
        for status in self.partners.key_states() {
            for state in BreakerState::ALL {
                let labels = KeyLabels {
                    partner: status.partner.clone(),
                    key: status.key,
                    state: state.name(),
                };
                let is_in = i64::from(state == status.breaker);
                shown.get_or_create(&labels).set(is_in);
            }
        }
        let help = "1 for the state that the circuit breaker of a partner's key is in";
        let described =
            encoder.encode_descriptor("easel_partner_breaker", help, None, shown.metric_type())?;
        shown.encode(described)
    }
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Now").finish_non_exhaustive()
    }
}

impl fmt::Debug for RouterMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterMetrics").finish_non_exhaustive()
    }
}

//! Requests by route, and what the accept loop counts.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use hyper_kit::serve::Counter as Count;
use hyper_kit::{Observer, ServerStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::Metrics;

/// Bounds of the latency histogram in seconds: from a row in memory to a slow upload.
const LATENCY_S: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// Counts answered requests. Clones count together.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram>,
    /// What was found before, by labels that no client chooses: finding it there costs a fraction of the families' own hashes.
    found: Arc<Mutex<HashMap<RequestLabels, Found>>>,
}

/// The metrics of one kind of request.
#[derive(Clone, Debug)]
struct Found {
    requests: Counter,
    latency: Histogram,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

/// The counters of one server, read when they are asked for.
#[derive(Debug)]
struct ServerCounters(Arc<ServerStats>);

impl HttpMetrics {
    /// Registers the metrics of one server.
    #[must_use]
    pub fn register(metrics: &mut Metrics, server: Arc<ServerStats>) -> Self {
        let latency = || Histogram::new(LATENCY_S);
        let counted = Self {
            requests: Family::default(),
            latency: Family::new_with_constructor(latency as fn() -> Histogram),
            found: Arc::default(),
        };
        let registry = metrics.registry();
        registry.register(
            "easel_http_requests",
            "Answered requests",
            counted.requests.clone(),
        );
        registry.register(
            "easel_http_request_duration_seconds",
            "Time from the head of a request to the head of its answer",
            counted.latency.clone(),
        );
        registry.register_collector(Box::new(ServerCounters(server)));
        counted
    }

    /// Counts every request that it hears of.
    #[must_use]
    pub fn observer(&self) -> Observer {
        let counted = self.clone();
        Arc::new(move |seen| {
            let (method, status) = (seen.method.as_str(), seen.status.as_u16());
            counted.observe(method, seen.route, status, seen.elapsed);
        })
    }

    /// Counts an answered request under the pattern of its route.
    pub fn observe(&self, method: &str, route: &'static str, status: u16, elapsed: Duration) {
        let labels = RequestLabels {
            method: known_method(method),
            route,
            status,
        };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.entry(labels).or_insert_with(|| Found {
            requests: self.requests.get_or_create(&labels).clone(),
            latency: self.latency.get_or_create(&RouteLabels { route }).clone(),
        });
        found.requests.inc();
        found.latency.observe(elapsed.as_secs_f64());
    }
}

/// A client may send any word as a method; only known ones become labels.
fn known_method(method: &str) -> &'static str {
    const KNOWN: [&str; 8] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "other",
    ];
    let known = KNOWN.into_iter().find(|known| *known == method);
    known.unwrap_or("other")
}

impl Collector for ServerCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.0;
        let gauges: [(&str, &str, &Count); 2] = [
            (
                "easel_http_connections_open",
                "Connections open now",
                &stats.open,
            ),
            (
                "easel_http_requests_in_flight",
                "Requests whose answer is not wholly sent yet",
                &stats.in_flight,
            ),
        ];
        for (name, help, count) in gauges {
            let gauge = ConstGauge::new(i64::try_from(count.get()).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let counters: [(&str, &str, &Count); 12] = [
            (
                "easel_http_connections_accepted",
                "Connections accepted",
                &stats.accepted,
            ),
            (
                "easel_http_connections_refused_full",
                "Connections closed at once because the server was full",
                &stats.refused_full,
            ),
            (
                "easel_http_connections_refused_peer",
                "Connections closed at once because their peer had too many",
                &stats.refused_peer,
            ),
            (
                "easel_http_accept_faults",
                "How often accepting a connection failed because descriptors or memory ran out",
                &stats.accept_faults,
            ),
            (
                "easel_http_write_stalls",
                "Connections cut because their reader stalled",
                &stats.write_stalls,
            ),
            (
                "easel_http_response_stalls",
                "Responses of HTTP/2 cut because their client did not take them",
                &stats.response_stalls,
            ),
            (
                "easel_http_control_floods",
                "Connections cut because their client sent too many control frames of HTTP/2",
                &stats.control_floods,
            ),
            (
                "easel_http_streams_refused",
                "Requests of HTTP/2 refused because too many were unfinished",
                &stats.refused_streams,
            ),
            (
                "easel_http_requests_refused",
                "Requests refused before any route saw them",
                &stats.refused_requests,
            ),
            ("easel_http_panics", "Handlers that panicked", &stats.panics),
            (
                "easel_http_read_bytes",
                "Bytes read from sockets",
                &stats.bytes_read,
            ),
            (
                "easel_http_written_bytes",
                "Bytes written to sockets",
                &stats.bytes_written,
            ),
        ];
        for (name, help, count) in counters {
            let counter = ConstCounter::new(count.get());
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

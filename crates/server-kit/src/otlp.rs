//! Traces and logs for a collector, by OTLP over HTTP: what the standard `OTEL_*` variables ask for.
//!
//! Nothing waits for the collector. Spans and log records go into bounded queues; a thread of its own empties them in batches.
//! What finds a queue full, or cannot be delivered in time, is lost and counted.
//!
//! Spans are those of [`trace_context`]; nothing else of what the process does is exported. No field has a body, a key, a path or
//! a query.

mod collector;
mod config;
mod exporter;
mod layer;
mod queue;

use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use config::Config;
use exporter::Exporter;
use queue::Counts;

pub use config::OtlpError;
pub(crate) use layer::OtlpLayer;

/// What this process exports with: one, as it has one log.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Starts to export if the environment asks for it. Only the first call of a process counts.
///
/// # Errors
/// If a variable makes no sense.
pub(crate) fn start() -> Result<Option<OtlpLayer>, OtlpError> {
    let variables = |name: &str| std::env::var(name).ok();
    let Some(config) = Config::read(&variables)? else {
        return Ok(None);
    };
    let (layer, exporter) = exporter::start(&config)?;
    if EXPORTER.set(exporter).is_err() {
        return Ok(None);
    }
    trace_context::read_by(layer::context_of);
    Ok(Some(layer))
}

/// Delivers what waits, for a moment at most: the process ends.
pub(crate) fn finish() {
    if let Some(exporter) = EXPORTER.get() {
        exporter.finish();
    }
}

/// Shows what was exported and what was lost, if anything is exported at all.
pub(crate) fn register(registry: &mut Registry) {
    if let Some(exporter) = EXPORTER.get() {
        registry.register_collector(Box::new(CountsCollector(exporter)));
    }
}

#[derive(Debug)]
struct CountsCollector(&'static Exporter);

impl Collector for CountsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = self.0.counts();
        let mut sent = encoder.encode_descriptor(
            "easel_otlp_delivered",
            "Spans and log records that the collector took",
            None,
            MetricType::Counter,
        )?;
        for (signal, counts) in counts {
            let count = ConstCounter::new(Counts::get(&counts.delivered));
            count.encode(sent.encode_family(&[("signal", signal)])?)?;
        }
        let mut lost = encoder.encode_descriptor(
            "easel_otlp_lost",
            "Spans and log records that were not delivered: their queue was full, or the collector did not take them",
            None,
            MetricType::Counter,
        )?;
        for (signal, counts) in counts {
            for (reason, count) in [
                ("queue_full", &counts.refused),
                ("undelivered", &counts.undelivered),
            ] {
                let labels = [("signal", signal), ("reason", reason)];
                ConstCounter::new(Counts::get(count)).encode(lost.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

//! What a server counts, and how it is written down for Prometheus.
//!
//! The hot path is a handful of atomic additions; everything that can be read instead of counted is read when somebody
//! asks. Labels come from closed sets: methods, patterns of routes, statuses.

mod http;
mod process;

use std::fmt;

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use http::HttpMetrics;
pub(crate) use process::most_descriptors;

/// The media type of [`Metrics::write`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a process, to be registered while it starts.
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Begins with what is true of every process: its version, memory, descriptors and processor time.
    #[must_use]
    pub fn new(program: &'static str, version: &'static str) -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("program", program), ("version", version)]);
        registry.register("easel_build", "The program and its version", build);
        registry.register_collector(Box::new(process::ProcessMetrics));
        #[cfg(feature = "otlp")]
        crate::otlp::register(&mut registry);
        Self { registry }
    }

    /// The registry, for code that has something to count. Names start with `easel_`.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Everything in the text format of OpenMetrics.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing into a string does not fail");
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

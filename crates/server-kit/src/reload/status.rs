//! How attempts to read the configuration again ended, for metrics and `/ready`.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;
use crate::sweeps::Notes;

/// The notes beside readiness.
const REFUSED: &str = "configuration refused";
const WAITING: &str = "configuration waiting";

/// What became of the newest attempt and of those before it. Clones count together.
#[derive(Clone, Debug)]
pub struct ReloadStatus {
    attempts: Family<ResultLabels, Counter>,
    last_successful: Gauge,
    last_success: Gauge,
    notes: Notes,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl ReloadStatus {
    /// Registers the metrics. The start counts as a success, and as no attempt.
    #[must_use]
    pub fn register(metrics: &mut Metrics, notes: Notes) -> Self {
        let status = Self {
            attempts: Family::default(),
            last_successful: Gauge::default(),
            last_success: Gauge::default(),
            notes,
        };
        for result in ["succeeded", "refused"] {
            drop(status.attempts.get_or_create(&ResultLabels { result }));
        }
        status.is_in_force();
        let registry = metrics.registry();
        registry.register(
            "easel_config_reloads",
            "Attempts to read the configuration again, by outcome",
            status.attempts.clone(),
        );
        registry.register(
            "easel_config_last_reload_successful",
            "Whether the newest attempt to read the configuration again succeeded; 1 before the first one",
            status.last_successful.clone(),
        );
        registry.register(
            "easel_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was read",
            status.last_success.clone(),
        );
        status
    }

    /// The configuration is in force but for the settings that wait for a restart.
    pub(crate) fn succeeded(&self, waiting: &[&str]) {
        self.count("succeeded");
        self.is_in_force();
        self.notes.clear(REFUSED);
        match waiting {
            [] => self.notes.clear(WAITING),
            names => {
                let names = names.join(", ");
                let text = format!("changed settings wait for a restart: {names}");
                self.notes.set(WAITING, text);
            }
        }
    }

    /// The configuration changed nothing. The reason is in the log alone: readiness is told to everybody.
    pub(crate) fn refused(&self) {
        self.count("refused");
        self.last_successful.set(0);
        let text =
            "the changed configuration is refused, as the log says; the one before stays in force";
        self.notes.set(REFUSED, text.to_owned());
    }

    fn is_in_force(&self) {
        self.last_successful.set(1);
        self.last_success.set(Timestamp::now().as_second());
    }

    fn count(&self, result: &'static str) {
        self.attempts.get_or_create(&ResultLabels { result }).inc();
    }
}

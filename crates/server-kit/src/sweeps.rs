//! Whether sweeps may delete, asked before each pass, and where an operator sees that they may not: log, `/ready`, metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use asset_store::{Admission, Assets, ReleasedBlobs, SweepStates};
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;

pub use asset_store::SweepName;

/// The sweeps of one installation. Cheap to clone.
#[derive(Clone)]
pub struct Sweeps {
    states: Arc<dyn SweepStates>,
    held_seconds: Family<SweepLabels, Gauge>,
    unnamed_blobs: Gauge,
    notes: Notes,
}

/// What an operator should know and what keeps nothing from being served. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<BTreeMap<&'static str, String>>>);

/// The clock of one loop that sweeps.
#[derive(Debug)]
pub struct Passes {
    sweep: SweepName,
    last: Option<Instant>,
    is_held: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SweepLabels {
    sweep: &'static str,
}

impl Sweeps {
    /// Registers the metrics.
    #[must_use]
    pub fn register(states: Arc<dyn SweepStates>, metrics: &mut Metrics) -> Self {
        let sweeps = Self {
            states,
            held_seconds: Family::default(),
            unnamed_blobs: Gauge::default(),
            notes: Notes::default(),
        };
        for sweep in SweepName::ALL {
            sweeps.held(sweep).set(0);
        }
        let registry = metrics.registry();
        registry.register(
            "easel_sweep_held_seconds",
            "How long the server has to run before it deletes anything, because the clock jumped",
            sweeps.held_seconds.clone(),
        );
        registry.register(
            "easel_sweep_unnamed_blobs",
            "Blobs that no row names and that are too many to be deleted unconfirmed",
            sweeps.unnamed_blobs.clone(),
        );
        sweeps
    }

    /// What is to be shown beside readiness.
    #[must_use]
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Asks whether a pass may delete at `now`: `None` if it may not, else whether the operator confirmed it.
    pub async fn admit(&self, passes: &mut Passes, now: Timestamp) -> Option<bool> {
        let running = passes.running();
        let sweep = passes.sweep;
        match self.states.admit(sweep, now, running).await {
            Ok(Admission::Admitted { confirmed }) => {
                passes.is_held = false;
                self.held(sweep).set(0);
                self.notes.clear(sweep.as_str());
                Some(confirmed)
            }
            Ok(Admission::Held { left }) => {
                let hours = (left.as_secs() + 3599) / 3600;
                let text = format!(
                    "the clock is more than a day from where the last sweep of {} left it; nothing is deleted until the server has run for {hours} h, or until `sweep confirm` says that the clock is right",
                    sweep.as_str()
                );
                self.held(sweep).set(left.as_secs());
                // Before the log: whoever reads it there looks at `/ready` next.
                self.notes.set(sweep.as_str(), text.clone());
                if !std::mem::replace(&mut passes.is_held, true) {
                    tracing::warn!(%now, "{text}");
                }
                None
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "a sweep could not begin; trying again at the next pass"
                );
                None
            }
        }
    }

    /// Deletes records that are past their time, and bytes that nothing refers to. A pass that fails leaves them for the next one.
    pub async fn sweep_assets(
        &self,
        assets: &Assets,
        released: &dyn ReleasedBlobs,
        now: Timestamp,
        confirmed: bool,
    ) {
        match assets.sweep(released, now, confirmed).await {
            Ok(report) => {
                self.show_unnamed(report.held_back);
                if report.records + report.blobs > 0 {
                    tracing::info!(
                        records = report.records,
                        blobs = report.blobs,
                        "deleted expired records and unused bytes"
                    );
                }
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "deleting expired files failed; trying again at the next pass"
                );
            }
        }
    }

    /// Shows how many blobs a pass left alone because no row names them.
    fn show_unnamed(&self, blobs: usize) {
        self.unnamed_blobs
            .set(i64::try_from(blobs).unwrap_or(i64::MAX));
        if blobs == 0 {
            self.notes.clear("unnamed blobs");
            return;
        }
        let text = format!(
            "{blobs} blobs, more than half of all, are named by no row, as if rows were lost; they stay until `sweep confirm`, or until the right main.db is restored"
        );
        self.notes.set("unnamed blobs", text.clone());
        tracing::warn!(blobs, "{text}");
    }

    fn held(&self, sweep: SweepName) -> impl std::ops::Deref<Target = Gauge> + use<'_> {
        let sweep = sweep.as_str();
        self.held_seconds.get_or_create(&SweepLabels { sweep })
    }
}

impl Passes {
    /// A loop that has not swept yet.
    #[must_use]
    pub fn of(sweep: SweepName) -> Self {
        Self {
            sweep,
            last: None,
            is_held: false,
        }
    }

    /// How long the process ran since this was last asked; zero at first.
    fn running(&mut self) -> SignedDuration {
        let last = self.last.replace(Instant::now());
        last.map_or(SignedDuration::ZERO, |last| {
            SignedDuration::try_from(last.elapsed()).unwrap_or(SignedDuration::MAX)
        })
    }
}

impl Notes {
    /// Each of them, a sentence.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        self.entries().values().cloned().collect()
    }

    pub(crate) fn set(&self, about: &'static str, text: String) {
        self.entries().insert(about, text);
    }

    pub(crate) fn clear(&self, about: &'static str) {
        self.entries().remove(about);
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        // Every change is one call of the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sweeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeps")
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

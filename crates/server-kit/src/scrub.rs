//! Where an operator sees that stored bytes were compared with their hashes, and that some are damaged: `/ready` and metrics.
//! The log names each damaged blob when it is found.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;
use crate::sweeps::Notes;

/// The note about damaged blobs.
const NOTE: &str = "damaged blobs";

/// What is shown of the bytes of one installation. Cheap to clone.
#[derive(Clone)]
pub struct BlobHealth {
    blobs: Counter,
    bytes: Counter,
    damaged: Gauge,
    completed: Gauge,
    notes: Notes,
}

impl BlobHealth {
    /// Registers the metrics. The operator finds damage among `notes`.
    #[must_use]
    pub fn register(notes: Notes, metrics: &mut Metrics) -> Self {
        let health = Self {
            blobs: Counter::default(),
            bytes: Counter::default(),
            damaged: Gauge::default(),
            completed: Gauge::default(),
            notes,
        };
        let registry = metrics.registry();
        registry.register(
            "easel_scrub_blobs",
            "Stored blobs that were compared with their hashes",
            health.blobs.clone(),
        );
        registry.register(
            "easel_scrub_bytes",
            "Bytes that were compared with hashes",
            health.bytes.clone(),
        );
        registry.register(
            "easel_scrub_completed_seconds",
            "When the last comparison of all blobs ended, as seconds since 1970; 0 before the first one",
            health.completed.clone(),
        );
        registry.register(
            "easel_damaged_blobs",
            "Blobs whose stored bytes are damaged",
            health.damaged.clone(),
        );
        health
    }

    /// Counts bytes that were compared.
    pub fn count_bytes(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }

    /// Counts a blob that was compared to its end.
    pub fn count_blob(&self) {
        self.blobs.inc();
    }

    /// Shows when the last pass over all blobs ended.
    pub fn show_completed(&self, at: Timestamp) {
        self.completed.set(at.as_second());
    }

    /// Shows how many blobs are known to be damaged now.
    pub fn show_damaged(&self, blobs: usize) {
        self.damaged.set(i64::try_from(blobs).unwrap_or(i64::MAX));
        if blobs == 0 {
            self.notes.clear(NOTE);
            return;
        }
        let text = format!(
            "stored files are damaged and are not sent: {blobs}, each named in the log; upload their bytes again, or restore the files from a backup"
        );
        self.notes.set(NOTE, text);
    }
}

impl fmt::Debug for BlobHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobHealth")
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

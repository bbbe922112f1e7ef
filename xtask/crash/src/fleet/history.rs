//! What each client was told, and when: written down as it comes, and judged when everything is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What an answer told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Observation {
    /// A submission under this key was taken in as this job.
    Submitted { key: String, job: String },
    /// A job as it was shown.
    Seen {
        job: String,
        status: String,
        /// The ids and hashes of its outputs, in order.
        outputs: Vec<String>,
    },
    /// There is no such job.
    Missing { job: String },
    /// A wish to cancel was taken.
    Cancelled { job: String },
    /// An upload was taken in.
    Uploaded { asset: String },
    /// An upload or an output was read: whether the bytes were those that it should have.
    Read { asset: String, is_whole: bool },
    /// A call under this key was answered with a result or an error that stands.
    Called {
        key: String,
        status: u16,
        body: Vec<u8>,
    },
    /// A look at the end of the campaign found the job in this status.
    Final { job: String, status: String },
}

/// One answer.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// When its request began and when it was there, since the campaign began.
    pub(super) began: Duration,
    pub(super) ended: Duration,
    pub(super) told: Observation,
}

/// The answers of all clients. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct History {
    start: Instant,
    events: Arc<Mutex<Vec<Event>>>,
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            events: Arc::default(),
        }
    }

    /// Writes down what the answer to a request that began at `began` told.
    pub(super) fn add(&self, began: Instant, told: Observation) {
        let event = Event {
            began: began.duration_since(self.start),
            ended: self.start.elapsed(),
            told,
        };
        let events = self.events.lock();
        events.unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Everything so far, in the order in which it came.
    pub(super) fn events(&self) -> Vec<Event> {
        let events = self.events.lock();
        events.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The jobs that were acknowledged, each with what was shown of it last.
    pub(super) fn jobs(&self) -> BTreeMap<String, Option<String>> {
        let mut jobs = BTreeMap::new();
        for event in self.events() {
            match event.told {
                Observation::Submitted { job, .. } => {
                    jobs.entry(job).or_default();
                }
                Observation::Seen { job, status, .. } => {
                    jobs.insert(job, Some(status));
                }
                Observation::Missing { .. }
                | Observation::Cancelled { .. }
                | Observation::Uploaded { .. }
                | Observation::Read { .. }
                | Observation::Called { .. }
                | Observation::Final { .. } => {}
            }
        }
        jobs
    }
}

/// Whether a job in this status is over.
pub(super) fn is_over(status: &str) -> bool {
    ["succeeded", "failed", "canceled", "expired"].contains(&status)
}

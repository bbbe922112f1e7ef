//! Listening in on a talk, for people who write catalogs. Secrets are masked before anything is noted.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// One request and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The address, its secrets masked.
    pub url: String,
    /// The headers that were sent, their secrets masked.
    pub headers: Vec<(String, String)>,
    /// The body that was sent.
    pub body: Bytes,
    /// The answer, or why there is none.
    pub outcome: Result<Received, String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The status.
    pub status: u16,
    /// The headers, secrets masked.
    pub headers: Vec<(String, String)>,
    /// The body, as it came; text in it has its secrets masked.
    pub body: Bytes,
}

/// Takes note of exchanges.
#[derive(Clone, Debug, Default)]
pub struct ExchangeRecorder(Arc<Mutex<Vec<Exchange>>>);

impl ExchangeRecorder {
    pub(crate) fn note(&self, exchange: Exchange) {
        self.exchanges().push(exchange);
    }

    /// What was noted so far is handed out, and forgotten.
    #[must_use]
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.exchanges())
    }

    fn exchanges(&self) -> std::sync::MutexGuard<'_, Vec<Exchange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What a server counts; the binary exports it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one server, shared with the code that exports them.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Connections taken up.
    pub accepted: Counter,
    /// Connections open now.
    pub open: Counter,
    /// Connections closed at once because the server was full.
    pub refused_full: Counter,
    /// Connections closed at once because their peer had too many.
    pub refused_peer: Counter,
    /// How often accepting a connection failed because descriptors or memory ran out.
    pub accept_faults: Counter,
    /// Connections cut because their reader stalled.
    pub write_stalls: Counter,
    /// Responses of HTTP/2 cut because their client did not take them.
    pub response_stalls: Counter,
    /// Connections cut because their client sent too many control frames of HTTP/2.
    pub control_floods: Counter,
    /// Requests refused because too many were unfinished.
    pub refused_streams: Counter,
    /// Requests taken up, the refused ones included.
    pub requests: Counter,
    /// Requests whose answer is not wholly sent yet.
    pub in_flight: Counter,
    /// Requests refused before the application saw them.
    pub refused_requests: Counter,
    /// Handlers that panicked.
    pub panics: Counter,
    /// Bytes read from sockets.
    pub bytes_read: Counter,
    /// Bytes written to sockets.
    pub bytes_written: Counter,
}

/// A number that any thread may change; it orders nothing else.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }
}

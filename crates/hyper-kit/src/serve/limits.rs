//! Every bound of a server in one place, each with its reason.

use std::time::Duration;

use crate::host::HostNames;
use crate::peers::PeerSet;

/// The bounds of one server. [`ServerLimits::default`] suits a server that faces the internet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections open at once; one more is accepted and closed. The default leaves a fifth of the process's file
    /// descriptors to files and outgoing calls.
    pub max_connections: usize,
    /// Connections open at once from one IPv4 address or IPv6 /64 network (1,024): a single client cannot take the whole
    /// server. Loopback is not counted.
    pub max_connections_per_peer: usize,
    /// Peers that are not counted, such as the proxies in front (none).
    pub uncounted_peers: PeerSet,
    /// The host names that are answered; requests for others are refused ([`super::Refusal::UnknownHost`]). `None` (the
    /// default) answers every name, which suits a server that asks each request for a credential.
    pub host_names: Option<HostNames>,
    /// The longest a client takes to send the head of a request, and the longest an idle connection of HTTP/1 stays open
    /// (10 s): a slow head costs the sender its connection.
    pub header_read_timeout: Duration,
    /// Bytes of the head of a request, its first line included (32 KiB): far more than a browser sends.
    pub max_header_bytes: u32,
    /// How long a reader may make no progress (20 s): a connection whose socket stalls longer is cut, and so is a response
    /// of HTTP/2 whose client grants it no bytes.
    pub write_stall: Duration,
    /// Bytes in a second that a reader must take, over each `write_stall` in which something waits for it (1 KiB/s): a
    /// byte now and then is no progress.
    pub write_min_rate: u32,
    /// Bytes buffered for one connection of HTTP/1 or one stream of HTTP/2, each way (32 KiB, at least 8 KiB): 1,000
    /// stalled readers then hold 32 MiB.
    pub buffer_bytes: usize,
    /// Streams of one HTTP/2 connection at once (128).
    pub h2_max_streams: u32,
    /// Requests of HTTP/2 unfinished at once on the connections of one peer, besides one on each (1,024). Peers that are
    /// not counted otherwise are not counted here.
    pub h2_streams_per_peer: usize,
    /// Requests of HTTP/2 unfinished at once, besides one on each connection (8,192): with 32 KiB waiting for each reader,
    /// 256 MiB. The last quarter is for connections with fewer than 8.
    pub h2_streams_in_all: usize,
    /// Streams a client may open and reset before they were handled (20): what the rapid-reset attack lives on.
    pub h2_max_pending_resets: usize,
    /// Streams reset by this server for protocol errors before the connection is closed (256).
    pub h2_max_local_resets: usize,
    /// How often a quiet HTTP/2 connection is pinged, and how long it may take to answer (20 s).
    pub h2_keep_alive: Duration,
    /// How long an HTTP/2 connection may live without a request once it had one (60 s). HTTP/1, and HTTP/2 before its
    /// first request, go by `header_read_timeout`.
    pub h2_idle: Duration,
    /// How long sent bytes may stay unacknowledged, and a silent connection unprobed, before the system gives it up
    /// (30 s): a client whose line is cut sends no goodbye.
    pub user_timeout: Duration,
    /// How long the rest of an unread request body is thrown away before the connection closes (2 s): closing at once
    /// would reset the connection, and the client might lose the very answer that refuses its body.
    pub linger: Duration,
    /// How long a connection on which nothing came yet is kept open after the shutdown (1 s): a client that connected just before has
    /// its request on the way, and does not expect to send it again.
    pub first_request: Duration,
    /// How long requests may go on after the shutdown (30 s).
    pub grace: Duration,
}

/// The pace that readers must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WritePace {
    /// The span over which it is measured.
    pub(super) stall: Duration,
    /// The least rate over such a span.
    pub(super) min_bytes_per_second: u32,
}

impl ServerLimits {
    pub(super) fn write_pace(&self) -> WritePace {
        WritePace {
            stall: self.write_stall,
            min_bytes_per_second: self.write_min_rate,
        }
    }
}

impl WritePace {
    /// What a reader must take in a span; at least something.
    pub(super) fn least_bytes(&self) -> u64 {
        let least = self.stall.as_millis() * u128::from(self.min_bytes_per_second) / 1000;
        u64::try_from(least).unwrap_or(u64::MAX).max(1)
    }
}

/// The share of the descriptor limit that connections may use, in tenths.
const DESCRIPTOR_TENTHS: u64 = 8;

/// What a system without a descriptor limit is given.
const UNLIMITED_DESCRIPTORS: u64 = 65_536;

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: connections_for(descriptor_limit()),
            max_connections_per_peer: 1024,
            uncounted_peers: PeerSet::default(),
            host_names: None,
            header_read_timeout: Duration::from_secs(10),
            max_header_bytes: 32 * 1024,
            write_stall: Duration::from_secs(20),
            write_min_rate: 1024,
            buffer_bytes: 32 * 1024,
            h2_max_streams: 128,
            h2_streams_per_peer: 1024,
            h2_streams_in_all: 8192,
            h2_max_pending_resets: 20,
            h2_max_local_resets: 256,
            h2_keep_alive: Duration::from_secs(20),
            h2_idle: Duration::from_secs(60),
            user_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            first_request: Duration::from_secs(1),
            grace: Duration::from_secs(30),
        }
    }
}

fn descriptor_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(UNLIMITED_DESCRIPTORS)
}

fn connections_for(descriptors: u64) -> usize {
    let connections = descriptors.min(UNLIMITED_DESCRIPTORS * 16) * DESCRIPTOR_TENTHS / 10;
    usize::try_from(connections).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_fifth_of_the_descriptors() {
        assert_eq!(connections_for(20_000), 16_000);
        assert_eq!(connections_for(64), 51);
        assert_eq!(connections_for(0), 1);
        assert_eq!(connections_for(u64::MAX), 838_860);
    }
}

//! How many requests of HTTP/2 may be unfinished at once, in all and for one peer.
//!
//! A request that has its connection to itself, as each of HTTP/1 does, is bounded by the bounds of connections and not
//! counted here. So HTTP/1 costs nothing here, and a client always gets one answer on a connection that it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ServerLimits;

/// Streams of one connection that are still taken when three quarters of all are in use, so that a few connections cannot
/// keep the others at one request each.
const FEW: usize = 8;

/// The streams of one server that share their connections with others.
#[derive(Debug)]
pub(super) struct Streams {
    open: AtomicUsize,
    most: usize,
    most_per_peer: usize,
}

/// What the connections of one peer have in common.
#[derive(Debug, Default)]
pub(super) struct PeerUse {
    /// Connections, changed under the lock of the admission alone.
    pub(super) connections: AtomicUsize,
    /// Streams that share their connections with others.
    pub(super) streams: AtomicUsize,
}

/// The right to one more stream on a connection; given back when dropped.
#[derive(Debug)]
pub(super) struct StreamPermit {
    streams: Arc<Streams>,
    peer: Option<Arc<PeerUse>>,
}

/// The server, the peer or the connection has too many unfinished requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Streams {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        Self {
            open: AtomicUsize::new(0),
            most: limits.h2_streams_in_all,
            most_per_peer: limits.h2_streams_per_peer,
        }
    }

    /// Admits a stream to a connection that has `others`; `peer` is `None` where peers are not counted.
    pub(super) fn admit(
        self: &Arc<Self>,
        others: usize,
        peer: Option<&Arc<PeerUse>>,
    ) -> Result<Option<StreamPermit>, TooMany> {
        if others == 0 {
            return Ok(None);
        }
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        // From here on a permit gives back what was counted.
        let mut permit = StreamPermit {
            streams: Arc::clone(self),
            peer: None,
        };
        let most = if others < FEW {
            self.most
        } else {
            self.most / 4 * 3
        };
        if open > most {
            return Err(TooMany);
        }
        if let Some(peer) = peer {
            let of_peer = peer.streams.fetch_add(1, Ordering::Relaxed) + 1;
            permit.peer = Some(Arc::clone(peer));
            if of_peer > self.most_per_peer {
                return Err(TooMany);
            }
        }
        Ok(Some(permit))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(peer) = &self.peer {
            peer.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(in_all: usize, per_peer: usize) -> Arc<Streams> {
        Arc::new(Streams::new(&ServerLimits {
            h2_streams_in_all: in_all,
            h2_streams_per_peer: per_peer,
            ..ServerLimits::default()
        }))
    }

    #[test]
    fn the_only_request_of_a_connection_is_always_admitted() {
        let streams = streams(0, 0);
        let peer = Arc::default();
        assert!(matches!(streams.admit(0, Some(&peer)), Ok(None)));
        assert!(streams.admit(1, Some(&peer)).is_err());
        assert_eq!(streams.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_peer_has_its_part_and_gives_it_back() {
        let streams = streams(100, 2);
        let (one, other) = (Arc::default(), Arc::default());
        let held: Vec<_> = (0..2).map(|_| streams.admit(1, Some(&one))).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(streams.admit(1, Some(&one)).err(), Some(TooMany));
        assert!(streams.admit(1, Some(&other)).is_ok());
        // Peers that are not counted have no part of their own.
        assert!(streams.admit(1, None).is_ok());
        drop(held);
        assert!(streams.admit(1, Some(&one)).is_ok());
        assert_eq!(streams.open.load(Ordering::Relaxed), 0);
        assert_eq!(one.streams.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_last_quarter_is_for_connections_with_few_streams() {
        let streams = streams(8, 100);
        let held: Vec<_> = (0..6).map(|_| streams.admit(100, None)).collect();
        assert!(held.iter().all(Result::is_ok));
        assert!(streams.admit(FEW, None).is_err());
        let few: Vec<_> = (0..2).map(|_| streams.admit(FEW - 1, None)).collect();
        assert!(few.iter().all(Result::is_ok));
        assert!(streams.admit(1, None).is_err());
    }
}

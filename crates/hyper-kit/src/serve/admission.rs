//! Who may hold a connection: so many in all, so many for one peer.
//!
//! IPv6 peers are counted by their /64 network, because a single client commonly owns all of it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::streams::PeerUse;
use super::{ServerLimits, ServerStats};
use crate::peers::PeerSet;

/// What each peer has in use; the entry goes with its last connection.
type Counts = Arc<Mutex<HashMap<IpAddr, Arc<PeerUse>>>>;

#[derive(Debug)]
pub(super) struct Admission {
    room: Arc<Semaphore>,
    counts: Counts,
    most_per_peer: usize,
    uncounted: PeerSet,
    stats: Arc<ServerStats>,
}

/// The right to one connection; given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    _room: OwnedSemaphorePermit,
    counted: Option<Counted>,
    stats: Arc<ServerStats>,
}

#[derive(Debug)]
struct Counted {
    peer: IpAddr,
    in_use: Arc<PeerUse>,
    counts: Counts,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The server has no room.
    Full,
    /// The peer has its share.
    Peer,
}

impl Admission {
    pub(super) fn new(limits: &ServerLimits, stats: Arc<ServerStats>) -> Self {
        let room = limits.max_connections.min(Semaphore::MAX_PERMITS);
        Self {
            room: Arc::new(Semaphore::new(room)),
            counts: Arc::default(),
            most_per_peer: limits.max_connections_per_peer,
            uncounted: limits.uncounted_peers.clone(),
            stats,
        }
    }

    pub(super) fn admit(&self, address: IpAddr) -> Result<Ticket, Refused> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        let room = room.map_err(|_| Refused::Full)?;
        let address = address.to_canonical();
        let counted = if address.is_loopback() || self.uncounted.contains(address) {
            None
        } else {
            Some(self.count(peer_of(address))?)
        };
        self.stats.open.add(1);
        Ok(Ticket {
            _room: room,
            counted,
            stats: Arc::clone(&self.stats),
        })
    }

    fn count(&self, peer: IpAddr) -> Result<Counted, Refused> {
        let counts = Arc::clone(&self.counts);
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.get(&peer);
        let held = held.map_or(0, |held| held.connections.load(Ordering::Relaxed));
        if held >= self.most_per_peer {
            return Err(Refused::Peer);
        }
        let in_use = Arc::clone(all.entry(peer).or_default());
        in_use.connections.store(held + 1, Ordering::Relaxed);
        Ok(Counted {
            peer,
            in_use,
            counts,
        })
    }
}

impl Ticket {
    /// What the connections of the same peer have in common; `None` where peers are not counted.
    pub(super) fn peer(&self) -> Option<Arc<PeerUse>> {
        let counted = self.counted.as_ref();
        counted.map(|counted| Arc::clone(&counted.in_use))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.stats.open.sub(1);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.in_use.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            all.remove(&self.peer);
        }
    }
}

fn peer_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests;

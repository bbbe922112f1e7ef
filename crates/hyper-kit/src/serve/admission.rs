//! Who may hold a connection: so many in all, so many for one peer.
//!
//! IPv6 peers are counted by their /64 network, because a single client commonly owns all of it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ServerLimits, ServerStats};
use crate::peers::PeerSet;

#[derive(Debug)]
pub(super) struct Admission {
    room: Arc<Semaphore>,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most_per_peer: usize,
    uncounted: PeerSet,
    stats: Arc<ServerStats>,
}

/// The right to one connection; given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    _room: OwnedSemaphorePermit,
    _counted: Option<Counted>,
    stats: Arc<ServerStats>,
}

#[derive(Debug)]
struct Counted {
    peer: IpAddr,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
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
            _counted: counted,
            stats: Arc::clone(&self.stats),
        })
    }

    fn count(&self, peer: IpAddr) -> Result<Counted, Refused> {
        let counts = Arc::clone(&self.counts);
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.get(&peer).copied().unwrap_or(0);
        if held >= self.most_per_peer {
            return Err(Refused::Peer);
        }
        all.insert(peer, held + 1);
        Ok(Counted { peer, counts })
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
        if let Some(held) = all.get_mut(&self.peer) {
            *held -= 1;
            if *held == 0 {
                all.remove(&self.peer);
            }
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

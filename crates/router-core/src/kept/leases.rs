//! Who fetches which result: for a store that keeps it in memory.

use foldhash::HashMap;
use jiff::Timestamp;

use super::ResultId;
use crate::{Lease, OwnerId, Ownership};

/// The leases of results that are being fetched. A result without one is nobody's.
#[derive(Clone, Debug, Default)]
pub struct ResultLeases(HashMap<ResultId, Ownership>);

impl ResultLeases {
    /// Whether nobody fetches a result at a time.
    #[must_use]
    pub fn is_free(&self, id: ResultId, now: Timestamp) -> bool {
        self.0.get(&id).is_none_or(|held| held.has_lapsed(now))
    }

    /// A result is this owner's from now on.
    pub fn begin(&mut self, id: ResultId, lease: Lease, now: Timestamp) {
        self.0.insert(id, Ownership::begin(lease, now));
    }

    /// Whether a result is this owner's.
    #[must_use]
    pub fn is_of(&self, id: ResultId, owner: OwnerId) -> bool {
        self.0.get(&id).is_some_and(|held| held.is_of(owner))
    }

    /// Renews leases; those among the results that are not the owner's.
    #[must_use]
    pub fn renew(&mut self, results: &[ResultId], lease: Lease, now: Timestamp) -> Vec<ResultId> {
        let mut lost = Vec::new();
        for id in results {
            match self.0.get_mut(id).filter(|held| held.is_of(lease.owner)) {
                Some(held) => *held = Ownership::begin(lease, now),
                None => lost.push(*id),
            }
        }
        lost
    }

    /// A result is nobody's.
    pub fn end(&mut self, id: ResultId) {
        self.0.remove(&id);
    }
}

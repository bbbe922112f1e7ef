//! Who carries a generation out, and until when no other process may take it over.
//!
//! A process that runs a router is an owner. It holds each of its generations under a lease, and renews the leases while it
//! lives. If a lease lapses, the next process that asks owns the generation, and what the owner before still says of it changes
//! nothing. The rules are here; a store remembers.

use std::time::Duration;

use accounts::lapses_at;
use foldhash::HashMap;
use jiff::Timestamp;
use uuid::Uuid;

use crate::GenerationId;

/// A process that carries generations out: a fresh id for each start of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub Uuid);

/// What an owner asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who asks.
    pub owner: OwnerId,
    /// How long the generation is the owner's from now on, unless the owner renews it.
    pub lasts: Duration,
}

/// The ownership of one generation that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// `None` if the store knows that the owner is gone.
    owner: Option<OwnerId>,
    until: Timestamp,
}

/// The ownership of every generation that runs: for a store that keeps it in memory.
#[derive(Clone, Debug, Default)]
pub struct Ownerships(HashMap<GenerationId, Ownership>);

impl Lease {
    /// When it lapses if it begins now.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Timestamp {
        lapses_at(now, self.lasts)
    }
}

impl Ownership {
    /// The ownership that begins with a lease.
    #[must_use]
    pub fn begin(lease: Lease, now: Timestamp) -> Self {
        Self {
            owner: Some(lease.owner),
            until: lease.until(now),
        }
    }

    /// The ownership of an owner that is gone: it has lapsed at any time.
    #[must_use]
    pub fn orphaned() -> Self {
        Self {
            owner: None,
            until: Timestamp::MIN,
        }
    }

    /// Whether this process owns it. An owner stays the owner after its lease lapsed, until another one takes over.
    #[must_use]
    pub fn is_of(&self, owner: OwnerId) -> bool {
        self.owner == Some(owner)
    }

    /// Whether anybody may take it over.
    #[must_use]
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        self.until <= now
    }
}

impl Ownerships {
    /// A generation begins.
    pub fn begin(&mut self, id: GenerationId, lease: Lease, now: Timestamp) {
        self.0.insert(id, Ownership::begin(lease, now));
    }

    /// A generation runs, and its owner is gone.
    pub fn orphan(&mut self, id: GenerationId) {
        self.0.insert(id, Ownership::orphaned());
    }

    /// A generation does not run any more.
    pub fn end(&mut self, id: GenerationId) {
        self.0.remove(&id);
    }

    /// Whether a generation runs, whoever owns it.
    #[must_use]
    pub fn has(&self, id: GenerationId) -> bool {
        self.0.contains_key(&id)
    }

    /// Whether this process owns a generation.
    #[must_use]
    pub fn is_of(&self, id: GenerationId, owner: OwnerId) -> bool {
        self.0
            .get(&id)
            .is_some_and(|ownership| ownership.is_of(owner))
    }

    /// Renews the leases of an owner; the generations among these that it does not own.
    #[must_use]
    pub fn renew(
        &mut self,
        lease: Lease,
        ids: &[GenerationId],
        now: Timestamp,
    ) -> Vec<GenerationId> {
        let mut lost = Vec::new();
        for id in ids {
            match self.0.get_mut(id).filter(|held| held.is_of(lease.owner)) {
                Some(held) => *held = Ownership::begin(lease, now),
                None => lost.push(*id),
            }
        }
        lost
    }

    /// The generations that may be taken over, in no order.
    #[must_use]
    pub fn lapsed(&self, now: Timestamp) -> Vec<GenerationId> {
        let lapsed = self.0.iter().filter(|(_, held)| held.has_lapsed(now));
        lapsed.map(|(id, _)| *id).collect()
    }

    /// Makes a generation the owner's if it may be taken over; whether it may.
    #[must_use]
    pub fn take(&mut self, id: GenerationId, lease: Lease, now: Timestamp) -> bool {
        match self.0.get_mut(&id).filter(|held| held.has_lapsed(now)) {
            Some(held) => {
                *held = Ownership::begin(lease, now);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OwnerId = OwnerId(Uuid::from_u128(1));
    const B: OwnerId = OwnerId(Uuid::from_u128(2));

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("in range")
    }

    fn lease(owner: OwnerId) -> Lease {
        let lasts = Duration::from_secs(30);
        Lease { owner, lasts }
    }

    fn id(n: u128) -> GenerationId {
        GenerationId(Uuid::from_u128(n))
    }

    #[test]
    fn a_generation_is_taken_over_once_and_only_after_its_lease() {
        let mut owned = Ownerships::default();
        owned.begin(id(1), lease(A), at(0));
        assert!(!owned.take(id(1), lease(B), at(29)));
        assert_eq!(owned.lapsed(at(29)), []);
        assert_eq!(owned.lapsed(at(30)), [id(1)]);
        assert!(owned.is_of(id(1), A), "until another one takes over");
        assert!(owned.take(id(1), lease(B), at(30)));
        assert!(!owned.take(id(1), lease(A), at(30)));
        assert!(owned.is_of(id(1), B) && !owned.is_of(id(1), A));
    }

    #[test]
    fn a_renewed_lease_lasts_from_then_on_and_a_lost_one_is_told() {
        let mut owned = Ownerships::default();
        owned.begin(id(1), lease(A), at(0));
        owned.begin(id(2), lease(B), at(0));
        assert_eq!(
            owned.renew(lease(A), &[id(1), id(2), id(3)], at(20)),
            [id(2), id(3)]
        );
        assert_eq!(owned.lapsed(at(49)), [id(2)]);
        // Also one that lapsed, as long as nobody took it.
        assert_eq!(owned.renew(lease(A), &[id(1)], at(60)), []);
        assert!(!owned.take(id(1), lease(B), at(89)));
    }

    #[test]
    fn what_an_owner_left_that_is_gone_may_be_taken_at_any_time() {
        let mut owned = Ownerships::default();
        owned.orphan(id(1));
        assert!(owned.has(id(1)) && !owned.is_of(id(1), A));
        assert!(owned.take(id(1), lease(A), Timestamp::MIN));
        owned.end(id(1));
        assert!(!owned.has(id(1)) && !owned.take(id(1), lease(A), Timestamp::MAX));
    }

    #[test]
    fn a_lease_without_end_does_not_overflow() {
        let lasts = Duration::MAX;
        assert_eq!(Lease { owner: A, lasts }.until(at(0)), Timestamp::MAX);
    }
}

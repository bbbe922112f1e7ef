//! The permits of one account as a machine: it decides, a store remembers.
//!
//! A store tells it by `runs` whether a generation runs. It is asked only about permits that lapsed.

use accounts::RouterLimits;
use foldhash::HashMap;
use jiff::Timestamp;

use super::{Admission, Load, Permit};
use crate::{GenerationId, Lease, OwnerId};

/// So many permits have room in some kilobytes.
const FEW: usize = 64;

/// The permits of one account, by their calls.
#[derive(Clone, Debug, Default)]
pub struct Permits {
    held: HashMap<GenerationId, Held>,
    /// The most that it had at once, which is what the table has room for: its own word for that depends on how it was emptied.
    most_held: usize,
    /// The sums of `held`, so that an admission looks at no permit: what lapsed and was not noticed yet is in them.
    load: Load,
    /// None of them lapses before; `None` if there are none.
    first_lapse: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    owner: OwnerId,
    hold_cents: u64,
    until: Timestamp,
}

impl Permits {
    /// Gives a permit if there is room for it.
    pub fn admit(
        &mut self,
        permit: Permit<'_>,
        limits: &RouterLimits,
        lease: Lease,
        now: Timestamp,
        runs: impl Fn(GenerationId) -> bool,
    ) -> Admission {
        let held = self.held.get(&permit.generation);
        if held.is_none_or(|held| held.until <= now && !runs(permit.generation)) {
            let mut admission = self.load.admit(permit.hold_cents, limits);
            if admission != Admission::Admitted && self.drop_lapsed(now, runs) {
                admission = self.load.admit(permit.hold_cents, limits);
            }
            if admission != Admission::Admitted {
                return admission;
            }
        }
        self.resume(permit, lease, now);
        Admission::Admitted
    }

    /// Gives a permit, whatever there is room for.
    pub fn resume(&mut self, permit: Permit<'_>, lease: Lease, now: Timestamp) {
        let known = self.held.get(&permit.generation);
        if known.is_some_and(|held| held.until <= now) {
            self.remove(permit.generation);
        }
        let until = lease.until(now);
        self.first_lapse = Some(self.first_lapse.map_or(until, |first| first.min(until)));
        let held = self.held.entry(permit.generation).or_insert_with(|| {
            self.load.add(permit.hold_cents);
            Held {
                owner: lease.owner,
                hold_cents: permit.hold_cents,
                until,
            }
        });
        (held.owner, held.until) = (lease.owner, until);
        self.most_held = self.most_held.max(self.held.len());
    }

    /// Renews a permit; whether the owner had it.
    #[must_use]
    pub fn renew(&mut self, generation: GenerationId, lease: Lease, now: Timestamp) -> bool {
        let held = self.held.get_mut(&generation);
        match held.filter(|held| held.owner == lease.owner && held.until > now) {
            Some(held) => {
                held.until = lease.until(now);
                self.first_lapse = self.first_lapse.map(|first| first.min(held.until));
                true
            }
            None => false,
        }
    }

    /// Gives the room of a permit back, if it is this owner's.
    pub fn release(&mut self, generation: GenerationId, owner: OwnerId) {
        let held = self.held.get(&generation);
        if held.is_some_and(|held| held.owner == owner) {
            self.remove(generation);
        }
    }

    /// What is in flight.
    pub fn load(&mut self, now: Timestamp, runs: impl Fn(GenerationId) -> bool) -> Load {
        self.drop_lapsed(now, runs);
        self.load
    }

    /// Whether there are none, also none that lapsed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether it keeps room for more than a few permits.
    pub(super) fn is_large(&self) -> bool {
        self.most_held > FEW
    }

    fn remove(&mut self, generation: GenerationId) {
        if let Some(held) = self.held.remove(&generation) {
            self.load.calls = self.load.calls.saturating_sub(1);
            self.load.committed_cents = self.load.committed_cents.saturating_sub(held.hold_cents);
        }
    }

    /// Forgets what lapsed and does not run; whether there may have been any.
    fn drop_lapsed(&mut self, now: Timestamp, runs: impl Fn(GenerationId) -> bool) -> bool {
        // Renewed ones lapse later than this tells. So they are looked through once for each lease, not for each call; while one
        // that lapsed runs on, each time.
        if self.first_lapse.is_none_or(|first| first > now) {
            return false;
        }
        self.held.retain(|id, held| held.until > now || runs(*id));
        self.first_lapse = self.held.values().map(|held| held.until).min();
        self.load = Load::default();
        for held in self.held.values() {
            self.load.add(held.hold_cents);
        }
        true
    }
}

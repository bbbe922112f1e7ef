//! Quotas kept in memory: the twin of every store of them, and the store of an installation that one process has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::{AccountId, RateWindow, RouterLimits, UsedUp, Windows};
use async_trait::async_trait;
use foldhash::HashMap;
use jiff::Timestamp;

use super::{Admission, Load, Permit, Permits, Quota, QuotaError};
use crate::{GenerationId, Lease, OwnerId};

/// How many accounts keep their empty permits, so that the next call of one allocates nothing.
pub(super) const KEPT: usize = 1024;

/// Forgets everything with the process. Clones are the same one.
#[derive(Clone)]
pub struct MemoryQuota(Arc<Inner>);

struct Inner {
    /// One lock around each decision makes it atomic.
    permits: Mutex<HashMap<AccountId, Permits>>,
    windows: Windows,
    /// Whether a generation runs.
    runs: Box<dyn Fn(GenerationId) -> bool + Send + Sync>,
}

impl MemoryQuota {
    /// Nothing in flight and nothing counted. `runs` tells whether a generation was dispatched and has not ended; it is asked about
    /// permits that lapsed, with the permits locked.
    #[must_use]
    pub fn new(runs: impl Fn(GenerationId) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            permits: Mutex::default(),
            windows: Windows::default(),
            runs: Box::new(runs),
        }))
    }

    /// Gives a permit, if the account has room for another call and for its cents. The count is judged before the spend. A call that
    /// has a permit keeps it, and it is the asking owner's from then on.
    #[must_use]
    pub fn admit(
        &self,
        permit: Permit<'_>,
        limits: &RouterLimits,
        lease: Lease,
        now: Timestamp,
    ) -> Admission {
        let mut permits = self.permits();
        if let Some(known) = permits.get_mut(permit.account) {
            return known.admit(permit, limits, lease, now, &self.0.runs);
        }
        let mut first = Permits::default();
        let admission = first.admit(permit, limits, lease, now, &self.0.runs);
        if admission == Admission::Admitted {
            permits.insert(permit.account.clone(), first);
        }
        admission
    }

    /// Gives the room of a permit back, if it is this owner's.
    pub fn give_back(&self, permit: Permit<'_>, owner: OwnerId) {
        let mut permits = self.permits();
        let is_crowded = permits.len() > KEPT;
        if let Some(of_account) = permits.get_mut(permit.account) {
            of_account.release(permit.generation, owner);
            if of_account.is_empty() && (is_crowded || of_account.is_large()) {
                permits.remove(permit.account);
            }
        }
    }

    pub(super) fn permits(&self) -> MutexGuard<'_, HashMap<AccountId, Permits>> {
        // Nothing panics between the changes of one entry.
        self.0
            .permits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Quota for MemoryQuota {
    async fn count(
        &self,
        account: &AccountId,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<Result<(), UsedUp>, QuotaError> {
        Ok(self.0.windows.count(account, windows, now))
    }

    async fn resume(
        &self,
        permit: Permit<'_>,
        lease: Lease,
        now: Timestamp,
    ) -> Result<(), QuotaError> {
        let mut permits = self.permits();
        let of_account = permits.entry(permit.account.clone()).or_default();
        of_account.resume(permit, lease, now);
        Ok(())
    }

    async fn renew(
        &self,
        permits: &[Permit<'_>],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<usize>, QuotaError> {
        let mut held = self.permits();
        let lost = permits.iter().enumerate().filter(|(_, permit)| {
            let of_account = held.get_mut(permit.account);
            !of_account.is_some_and(|held| held.renew(permit.generation, lease, now))
        });
        Ok(lost.map(|(position, _)| position).collect())
    }

    async fn release(&self, permit: Permit<'_>, owner: OwnerId) -> Result<(), QuotaError> {
        self.give_back(permit, owner);
        Ok(())
    }

    async fn load(&self, account: &AccountId, now: Timestamp) -> Result<Load, QuotaError> {
        let mut permits = self.permits();
        let of_account = permits.get_mut(account);
        Ok(of_account.map_or_else(Load::default, |held| held.load(now, &self.0.runs)))
    }
}

impl std::fmt::Debug for MemoryQuota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryQuota")
    }
}

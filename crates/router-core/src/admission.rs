//! How many calls an account has in flight, and how many cents they have committed.
//!
//! One lock around the whole decision makes it atomic: no interleaving of calls commits more than the cap. What was taken
//! is given back exactly once, when its [`Permit`] is dropped. Counted per process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::{AccountId, RouterLimits};
use foldhash::HashMap;

use crate::RouterError;

/// The calls in flight of every account.
#[derive(Clone, Debug, Default)]
pub struct Admission(Arc<Mutex<HashMap<AccountId, Load>>>);

/// What one account has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Calls.
    pub calls: u32,
    /// Cents that they have committed.
    pub committed_cents: u64,
}

/// The room that a call in flight takes; dropping it gives the room back.
#[derive(Debug)]
pub struct Permit {
    admission: Admission,
    account: AccountId,
    hold_cents: u64,
}

impl Admission {
    /// Nothing in flight.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes room for one more call. The count is judged before the spend.
    ///
    /// # Errors
    /// If the account has no room for another call, or none for its cost.
    pub fn admit(
        &self,
        account: &AccountId,
        hold_cents: u64,
        limits: &RouterLimits,
    ) -> Result<Permit, RouterError> {
        let mut loads = self.loads();
        let load = loads.get(account).copied().unwrap_or_default();
        if load.calls >= limits.concurrent_calls {
            return Err(RouterError::TooManyCalls {
                limit: limits.concurrent_calls,
            });
        }
        let committed = load.committed_cents.checked_add(hold_cents);
        let committed = committed.filter(|cents| *cents <= limits.committed_spend_cents);
        let Some(committed_cents) = committed else {
            return Err(RouterError::SpendCap {
                limit_cents: limits.committed_spend_cents,
                current_cents: load.committed_cents,
            });
        };
        let load = Load {
            calls: load.calls + 1,
            committed_cents,
        };
        loads.insert(account.clone(), load);
        Ok(self.permit(account, hold_cents))
    }

    /// Takes room for a call that was admitted by an earlier process and still runs, whatever the limits are now.
    #[must_use]
    pub fn resume(&self, account: &AccountId, hold_cents: u64) -> Permit {
        let mut loads = self.loads();
        let load = loads.entry(account.clone()).or_default();
        load.calls = load.calls.saturating_add(1);
        load.committed_cents = load.committed_cents.saturating_add(hold_cents);
        self.permit(account, hold_cents)
    }

    /// What an account has in flight.
    #[must_use]
    pub fn load(&self, account: &AccountId) -> Load {
        self.loads().get(account).copied().unwrap_or_default()
    }

    fn permit(&self, account: &AccountId, hold_cents: u64) -> Permit {
        Permit {
            admission: self.clone(),
            account: account.clone(),
            hold_cents,
        }
    }

    fn loads(&self) -> MutexGuard<'_, HashMap<AccountId, Load>> {
        // Nothing panics between the changes of one entry.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut loads = self.admission.loads();
        let Some(load) = loads.get_mut(&self.account) else {
            return;
        };
        load.calls = load.calls.saturating_sub(1);
        load.committed_cents = load.committed_cents.saturating_sub(self.hold_cents);
        if load.calls == 0 {
            loads.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests;

//! The port to what accounts may have in flight and ask for, and the rules that every store of it calls.
//!
//! A call in flight has a permit, which takes one of the account's places and commits its cents. A permit is held under a lease:
//! the process that carries the call out renews it. What a dead process held is free again once the lease lapses and its call does
//! not run any more: a partner goes on with a call whose process died, so its room is taken until another process has ended it.

mod memory;
mod permits;

use accounts::{AccountId, RateWindow, RouterLimits, UsedUp};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{GenerationId, Lease, OwnerId, RouterError};

pub use memory::MemoryQuota;
pub use permits::Permits;

/// What one account has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Calls.
    pub calls: u32,
    /// Cents that they have committed.
    pub committed_cents: u64,
}

/// The room that a call in flight takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit<'a> {
    /// Whose room.
    pub account: &'a AccountId,
    /// The call: it has one permit at most.
    pub generation: GenerationId,
    /// What it commits.
    pub hold_cents: u64,
}

/// Whether a call has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has its permit.
    Admitted,
    /// The account runs as many calls as it may; nothing changed.
    TooManyCalls {
        /// How many it may run.
        limit: u32,
    },
    /// The call would commit more than the account may have committed; nothing changed.
    SpendCap {
        /// The cap.
        limit_cents: u64,
        /// What calls in flight have committed, without this one.
        current_cents: u64,
    },
}

/// The quotas cannot be read or written now.
#[derive(Debug, thiserror::Error)]
#[error("the quotas of accounts are unavailable")]
pub struct QuotaError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Calls in flight, committed cents and rate windows of accounts.
///
/// **Contract.** It is exact over all processes that share the store: each method is atomic, and no interleaving admits more
/// calls, commits more cents or counts more requests in a window than the limits that each caller names. What a store decides it
/// decides by [`Load::admit`] and [`accounts::WindowCounts`]; [`Permits`] is the whole for a store that keeps an account's
/// permits together. Nothing here needs to be durable: after a restart of everything, a store may have forgotten all.
///
/// A call gets its permit by [`Admissions::admit`](crate::Admissions::admit) in the same store. It is its owner's until it is
/// released or its lease lapses. One that lapsed counts for as long as its generation runs, by the rows of
/// [`Calls`](crate::Calls), and nowhere after that, whether it was noticed or not. `resume` of a call that has a permit makes it
/// the asking owner's and changes nothing else.
#[async_trait]
pub trait Quota: Send + Sync + 'static {
    /// Counts a request in all of these windows, if all of them have room. Otherwise it counts in none, and the answer is the
    /// used-up window that ends last.
    async fn count(
        &self,
        account: &AccountId,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<Result<(), UsedUp>, QuotaError>;

    /// Gives a permit to a call that runs already, whatever the limits are: it was admitted before and taken over, or its permit
    /// lapsed.
    async fn resume(
        &self,
        permit: Permit<'_>,
        lease: Lease,
        now: Timestamp,
    ) -> Result<(), QuotaError>;

    /// Renews the leases of permits. Answers the positions of those that the owner has not: they lapsed, or are another's.
    async fn renew(
        &self,
        permits: &[Permit<'_>],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<usize>, QuotaError>;

    /// Gives the room of a permit back, if it is this owner's.
    async fn release(&self, permit: Permit<'_>, owner: OwnerId) -> Result<(), QuotaError>;

    /// What an account has in flight.
    async fn load(&self, account: &AccountId, now: Timestamp) -> Result<Load, QuotaError>;
}

impl Load {
    /// Whether one more call has room beside these: the rule of every store.
    #[must_use]
    pub fn admit(self, hold_cents: u64, limits: &RouterLimits) -> Admission {
        if self.calls >= limits.concurrent_calls {
            return Admission::TooManyCalls {
                limit: limits.concurrent_calls,
            };
        }
        let committed = self.committed_cents.checked_add(hold_cents);
        if committed.is_none_or(|cents| cents > limits.committed_spend_cents) {
            return Admission::SpendCap {
                limit_cents: limits.committed_spend_cents,
                current_cents: self.committed_cents,
            };
        }
        Admission::Admitted
    }

    fn add(&mut self, hold_cents: u64) {
        self.calls = self.calls.saturating_add(1);
        self.committed_cents = self.committed_cents.saturating_add(hold_cents);
    }
}

impl Admission {
    /// The answer for the caller of a call that may cost `hold_cents`.
    ///
    /// # Errors
    /// If the call has no room.
    pub fn into_result(self, hold_cents: u64) -> Result<(), RouterError> {
        match self {
            Self::Admitted => Ok(()),
            Self::TooManyCalls { limit } => Err(RouterError::TooManyCalls { limit }),
            Self::SpendCap {
                limit_cents,
                current_cents,
            } => Err(RouterError::SpendCap {
                hold_cents,
                limit_cents,
                current_cents,
            }),
        }
    }
}

#[cfg(test)]
mod tests;

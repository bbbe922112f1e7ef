//! Credits: what an account has, what is set aside of it, and the entries that say why.
//!
//! The ledger is append-only and each entry has a cause of its own, so a cause is billed once however often it is told.
//! Holds are no entries: they keep calls in flight from spending the same credits twice, and end with them.

use std::fmt;

use foldhash::HashMap;
use jiff::Timestamp;
use uuid::Uuid;

use crate::AccountId;

/// Why credits are set aside or change. Equal causes are the same event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The operator granted credits, or took some back.
    Grant(Uuid),
    /// A partner generation, by its id.
    Generation(Uuid),
}

/// What an account has in US cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// The sum of its ledger. Below 0 where charges were higher than what was set aside, or billing is off.
    pub balance_cents: i64,
    /// What is set aside for what is under way.
    pub held_cents: u64,
}

/// An entry of the ledger. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Grows with every entry of the store.
    pub seq: u64,
    /// Whose ledger it is in.
    pub account: AccountId,
    /// Why it is there.
    pub cause: Cause,
    /// What it adds to the balance: grants are above 0, charges below.
    pub amount_cents: i64,
    /// When it was made.
    pub at: Timestamp,
}

/// The answer to a wish to set credits aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// They are.
    Held,
    /// There are not enough; nothing changed.
    Insufficient {
        /// What could have been set aside.
        available_cents: i64,
    },
}

/// The credits of one account as a machine: it decides, a store remembers.
#[derive(Clone, Debug, Default)]
pub struct Purse {
    credits: Credits,
    holds: HashMap<Cause, u32>,
}

impl Credits {
    /// What can still be set aside.
    #[must_use]
    pub fn available_cents(&self) -> i64 {
        let held = i64::try_from(self.held_cents).unwrap_or(i64::MAX);
        self.balance_cents.saturating_sub(held)
    }
}

impl Purse {
    /// The purse of an account whose entries add up to `balance_cents`; nothing is set aside.
    #[must_use]
    pub fn new(balance_cents: i64) -> Self {
        let credits = Credits {
            balance_cents,
            held_cents: 0,
        };
        Self {
            credits,
            holds: HashMap::default(),
        }
    }

    /// What it holds.
    #[must_use]
    pub fn credits(&self) -> Credits {
        self.credits
    }

    /// Sets credits aside for a cause; for one that has some set aside already, nothing changes. Where `billed`, no more is
    /// set aside than there is.
    pub fn reserve(&mut self, cause: Cause, hold_cents: u32, billed: bool) -> Reservation {
        if self.holds.contains_key(&cause) {
            return Reservation::Held;
        }
        let available_cents = self.credits.available_cents();
        if billed && i64::from(hold_cents) > available_cents {
            return Reservation::Insufficient { available_cents };
        }
        self.holds.insert(cause, hold_cents);
        self.credits.held_cents += u64::from(hold_cents);
        Reservation::Held
    }

    /// Gives back what was set aside for a cause, if anything was.
    pub fn release(&mut self, cause: Cause) {
        if let Some(hold_cents) = self.holds.remove(&cause) {
            self.credits.held_cents -= u64::from(hold_cents);
        }
    }

    /// Adds a new entry of the ledger; what was set aside for its cause is set free by it.
    pub fn post(&mut self, cause: Cause, amount_cents: i64) {
        self.release(cause);
        self.credits.balance_cents += amount_cents;
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant(id) => write!(f, "grant {id}"),
            Self::Generation(id) => write!(f, "generation {id}"),
        }
    }
}

#[cfg(test)]
mod tests;

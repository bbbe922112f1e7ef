//! Credits: what an account has, what is set aside of it, and the entries that say why.
//!
//! The ledger is append-only and each entry has a cause of its own, so a cause is billed once however often it is told.
//! Holds are no entries: they keep calls in flight from spending the same credits twice, and end with them. A hold whose call does
//! not run yet ends also when the process that made it does not renew it. A store tells by `runs` whether a cause runs; it is asked
//! only about holds that lapsed.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{AccountId, BudgetScope, Budgets, OverBudget, Spend};

/// Why credits are set aside or change. Equal causes are the same event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LedgerRef {
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
    /// What its calls were charged in the newest hour, day and month.
    pub spend: Spend,
}

/// An entry of the ledger. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Grows with every entry of the store.
    pub seq: u64,
    /// Whose ledger it is in.
    pub account: AccountId,
    /// Why it is there.
    pub cause: LedgerRef,
    /// What it adds to the balance: grants are above 0, charges below.
    pub amount_cents: i64,
    /// When it was made.
    pub at: Timestamp,
}

/// The answer to a wish to set credits aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// They are.
    Held,
    /// There are not enough; nothing changed.
    Insufficient {
        /// What could have been set aside.
        available_cents: i64,
    },
    /// A budget leaves too little; nothing changed.
    OverBudget(OverBudget),
}

/// What bounds a hold of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendRules<'a> {
    /// Whether no more may be set aside than there is.
    pub billed: bool,
    /// What may be held and charged in windows of the calendar.
    pub budgets: Budgets,
    /// The budgets of single keys and labels that the hold counts against.
    pub scoped: &'a [(BudgetScope, Budgets)],
}

/// The credits of one account as a machine: it decides, a store remembers.
#[derive(Clone, Debug, Default)]
pub struct CreditBalance {
    /// Holds that lapsed and were not noticed yet included.
    credits: Credits,
    holds: HashMap<LedgerRef, Held>,
    /// What counts against budgets of scopes: what is held, and what was charged.
    scopes: HashMap<BudgetScope, Credits>,
    /// Against which budgets of scopes a cause counts, until it is billed or released: the end of its hold changes nothing.
    within: HashMap<LedgerRef, Arc<[BudgetScope]>>,
    /// None of the holds lapses before; `None` if there are none.
    first_lapse: Option<Timestamp>,
}

/// What is set aside for a cause.
#[derive(Clone, Copy, Debug)]
struct Held {
    cents: u32,
    until: Timestamp,
}

impl Held {
    /// Whether the cents of this cause are set aside.
    fn counts(&self, cause: LedgerRef, now: Timestamp, runs: impl Fn(LedgerRef) -> bool) -> bool {
        self.until > now || runs(cause)
    }
}

/// When something lapses that lasts so long from now on.
#[must_use]
pub fn lapses_at(now: Timestamp, lasts: Duration) -> Timestamp {
    let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
    now.checked_add(lasts).unwrap_or(Timestamp::MAX)
}

impl Credits {
    /// What can still be set aside.
    #[must_use]
    pub fn available_cents(&self) -> i64 {
        let held = i64::try_from(self.held_cents).unwrap_or(i64::MAX);
        self.balance_cents.saturating_sub(held)
    }
}

impl CreditBalance {
    /// The balance of an account that has these credits. What is held in them belongs to no cause, and does not lapse.
    #[must_use]
    pub fn new(credits: Credits) -> Self {
        Self {
            credits,
            holds: HashMap::default(),
            scopes: HashMap::default(),
            within: HashMap::default(),
            first_lapse: None,
        }
    }

    /// What it holds now.
    #[must_use]
    pub fn credits(&self, now: Timestamp, runs: impl Fn(LedgerRef) -> bool) -> Credits {
        let mut credits = self.credits;
        if self.may_have_lapsed(now) {
            let holds = self.holds.iter();
            let ended = holds.filter(|(cause, held)| !held.counts(**cause, now, &runs));
            credits.held_cents -= ended.map(|(_, held)| u64::from(held.cents)).sum::<u64>();
        }
        credits
    }

    /// What it held when a hold was last made or ended: what lapsed since then is still in it.
    #[must_use]
    pub fn last_credits(&self) -> Credits {
        self.credits
    }

    /// Sets credits aside for a cause until then; for one that has some set aside already, their amount stays. No more is
    /// set aside than the rules allow.
    pub fn reserve(
        &mut self,
        cause: LedgerRef,
        hold_cents: u32,
        rules: SpendRules<'_>,
        (now, until): (Timestamp, Timestamp),
        runs: impl Fn(LedgerRef) -> bool,
    ) -> Reservation {
        if self.renew(cause, (now, until), &runs) {
            return Reservation::Held;
        }
        if self.refusal(hold_cents, rules, now).is_some() {
            self.drop_lapsed(now, runs);
            if let Some(refusal) = self.refusal(hold_cents, rules, now) {
                return refusal;
            }
        }
        // One of this cause that lapsed and was not noticed.
        self.end_hold(cause);
        if !rules.scoped.is_empty() {
            let scopes = rules.scoped.iter().map(|(scope, _)| scope.clone());
            let within = self.within.entry(cause);
            within.or_insert_with(|| scopes.collect());
        }
        let cents = hold_cents;
        self.holds.insert(cause, Held { cents, until });
        self.credits.held_cents += u64::from(hold_cents);
        for scope in self.within.get(&cause).into_iter().flat_map(|all| &**all) {
            self.scopes.entry(scope.clone()).or_default().held_cents += u64::from(hold_cents);
        }
        self.first_lapse = Some(self.first_lapse.map_or(until, |first| first.min(until)));
        Reservation::Held
    }

    /// Why so much cannot be set aside, if it cannot.
    fn refusal(
        &self,
        hold_cents: u32,
        rules: SpendRules<'_>,
        now: Timestamp,
    ) -> Option<Reservation> {
        let available_cents = self.credits.available_cents();
        if rules.billed && i64::from(hold_cents) > available_cents {
            return Some(Reservation::Insufficient { available_cents });
        }
        let over = rules.budgets.admit(hold_cents.into(), self.credits, now);
        let of_scopes = rules.scoped.iter().filter_map(|(scope, budgets)| {
            let credits = self.scopes.get(scope).copied().unwrap_or_default();
            let over = budgets.admit(hold_cents.into(), credits, now).err()?;
            Some(over.of_scope(scope))
        });
        // The one whose window ends last: a client that waits for it waits for all of them.
        let all = over.err().into_iter().chain(of_scopes);
        let last = all.min_by_key(|over| Reverse(over.left.ends_at));
        last.map(Reservation::OverBudget)
    }

    /// Keeps what is set aside for a cause until then; whether anything is.
    pub fn renew(
        &mut self,
        cause: LedgerRef,
        (now, until): (Timestamp, Timestamp),
        runs: impl Fn(LedgerRef) -> bool,
    ) -> bool {
        let held = self.holds.get_mut(&cause);
        match held.filter(|held| held.counts(cause, now, runs)) {
            Some(held) => {
                held.until = until;
                self.first_lapse = self.first_lapse.map(|first| first.min(until));
                true
            }
            None => false,
        }
    }

    /// Gives back what was set aside for a cause, if anything was: it counts against no budget any more.
    pub fn release(&mut self, cause: LedgerRef) {
        self.end_hold(cause);
        self.within.remove(&cause);
    }

    fn end_hold(&mut self, cause: LedgerRef) {
        if let Some(held) = self.holds.remove(&cause) {
            self.give_back(cause, held);
        }
    }

    /// Takes a hold that has ended off the sums.
    fn give_back(&mut self, cause: LedgerRef, held: Held) {
        let cents = u64::from(held.cents);
        self.credits.held_cents -= cents;
        for scope in self.within.get(&cause).into_iter().flat_map(|all| &**all) {
            if let Some(credits) = self.scopes.get_mut(scope) {
                credits.held_cents = credits.held_cents.saturating_sub(cents);
            }
        }
    }

    /// Against which budgets of keys and labels a cause counts, if against any.
    #[must_use]
    pub fn scopes_of(&self, cause: LedgerRef) -> Option<&Arc<[BudgetScope]>> {
        self.within.get(&cause)
    }

    /// What is held and was charged in a scope. What lapsed since a hold was last made or ended is still in it.
    #[must_use]
    pub fn last_scope_credits(&self, scope: &BudgetScope) -> Credits {
        self.scopes.get(scope).copied().unwrap_or_default()
    }

    /// Takes over what a store knows of a scope. What is held in it belongs to no cause, and does not lapse.
    pub fn put_scope(&mut self, scope: BudgetScope, credits: Credits) {
        self.scopes.insert(scope, credits);
    }

    /// Takes over against which budgets of scopes a cause counts that a store remembers.
    pub fn put_scopes_of(&mut self, cause: LedgerRef, scopes: Arc<[BudgetScope]>) {
        self.within.insert(cause, scopes);
    }

    /// Forgets what was charged in scopes that have no budgets any more.
    pub fn keep_scopes(&mut self, has_budgets: impl Fn(&BudgetScope) -> bool) {
        self.scopes.retain(|scope, _| has_budgets(scope));
    }

    fn may_have_lapsed(&self, now: Timestamp) -> bool {
        self.first_lapse.is_some_and(|first| first <= now)
    }

    /// Gives back what lapsed and does not run.
    fn drop_lapsed(&mut self, now: Timestamp, runs: impl Fn(LedgerRef) -> bool) {
        // Renewed ones lapse later than this tells. So holds are looked through once for each lease and not for each call; while one
        // that lapsed runs on, each time.
        if self.may_have_lapsed(now) {
            let holds = &mut self.holds;
            let ended = holds.extract_if(|cause, held| !held.counts(*cause, now, &runs));
            for (cause, held) in ended.collect::<Vec<_>>() {
                self.give_back(cause, held);
            }
            self.first_lapse = self.holds.values().map(|held| held.until).min();
        }
    }

    /// Adds a new entry of the ledger; what was set aside for its cause is set free by it.
    pub fn post(&mut self, cause: LedgerRef, amount_cents: i64, at: Timestamp) {
        self.end_hold(cause);
        self.credits.balance_cents += amount_cents;
        self.credits.spend.post(cause, amount_cents, at);
        for scope in self.within.remove(&cause).iter().flat_map(|all| &**all) {
            let credits = self.scopes.entry(scope.clone()).or_default();
            credits.spend.post(cause, amount_cents, at);
        }
    }
}

impl fmt::Display for LedgerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant(id) => write!(f, "grant {id}"),
            Self::Generation(id) => write!(f, "generation {id}"),
        }
    }
}

#[cfg(test)]
mod tests;

//! All accounts and keys as requests look them up: what every store keeps in memory.
//!
//! Pure and synchronous. It answers and remembers; that a change is durable before it is made here is up to the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use jiff::Timestamp;

use crate::{
    Account, AccountId, AccountQuery, AccountState, AccountView, ApiKey, BudgetScope,
    CreditBalance, Credits, KeyHash, KeyId, LedgerRef, Payer, Principal, Reservation, Scopes, Tier,
    lapses_at,
};

/// Accounts by id, keys by hash.
#[derive(Debug)]
pub struct AccountIndex {
    defaults: Tier,
    accounts: HashMap<AccountId, Row>,
    keys: HashMap<KeyHash, ApiKey>,
    hashes: HashMap<KeyId, KeyHash>,
    runs: Runs,
}

/// Tells whether a cause runs.
struct Runs(Box<dyn Fn(LedgerRef) -> bool + Send + Sync>);

#[derive(Debug)]
struct Row {
    account: Account,
    /// What `account.limits` make of the defaults, so that a look need not work it out.
    tier: Arc<Tier>,
    /// What the account itself allows; less than all only where a fixed principal says so.
    scopes: Scopes,
    balance: CreditBalance,
}

impl AccountIndex {
    /// No accounts; those that come have the tier `defaults` where their limits say nothing else.
    #[must_use]
    pub fn new(defaults: Tier) -> Self {
        Self {
            defaults,
            accounts: HashMap::default(),
            keys: HashMap::default(),
            hashes: HashMap::default(),
            runs: Runs(Box::new(|_| false)),
        }
    }

    /// Has holds count past their leases while their causes run. `runs` tells whether one was dispatched and has not ended; it is
    /// asked about holds that lapsed, while a caller has this index. Without it, no cause runs.
    pub fn keep_holds_while(&mut self, runs: impl Fn(LedgerRef) -> bool + Send + Sync + 'static) {
        self.runs = Runs(Box::new(runs));
    }

    /// Gives the tier `defaults` to every account where its limits say nothing else.
    pub fn set_defaults(&mut self, defaults: Tier) {
        for row in self.accounts.values_mut() {
            row.tier = Arc::new(defaults.with(&row.account.limits));
        }
        self.defaults = defaults;
    }

    /// Adds an account that has these credits, in place of one with its id.
    pub fn insert(&mut self, account: Account, credits: Credits) {
        let row = Row {
            tier: Arc::new(self.defaults.with(&account.limits)),
            scopes: Scopes::all(),
            balance: CreditBalance::new(credits),
            account,
        };
        self.accounts.insert(row.account.id.clone(), row);
    }

    /// Narrows what an account itself allows.
    pub(crate) fn narrow(&mut self, id: &AccountId, scopes: Scopes) {
        if let Some(row) = self.accounts.get_mut(id) {
            row.scopes = scopes;
        }
    }

    /// Takes over a changed account; its credits stay.
    pub fn update(&mut self, account: Account) {
        let tier = Arc::new(self.defaults.with(&account.limits));
        if let Some(row) = self.accounts.get_mut(&account.id) {
            let budgets = &account.limits.scoped_budgets;
            row.balance
                .keep_scopes(|scope| budgets.get(scope).is_some());
            (row.account, row.tier) = (account, tier);
        }
    }

    /// Adds a key, in place of one with its hash or id.
    pub fn insert_key(&mut self, key: ApiKey, hash: KeyHash) {
        self.hashes.insert(key.id.clone(), hash);
        self.keys.insert(hash, key);
    }

    /// Forgets a key.
    pub(crate) fn remove_key(&mut self, hash: &KeyHash) {
        if let Some(key) = self.keys.remove(hash) {
            self.hashes.remove(&key.id);
        }
    }

    /// Takes over a changed key.
    pub fn update_key(&mut self, key: ApiKey) {
        if let Some(hash) = self.hashes.get(&key.id) {
            self.keys.insert(*hash, key);
        }
    }

    /// An account.
    #[must_use]
    pub fn account(&self, id: &AccountId) -> Option<&Account> {
        self.accounts.get(id).map(|row| &row.account)
    }

    /// A key by its id.
    #[must_use]
    pub fn key(&self, id: &KeyId) -> Option<&ApiKey> {
        self.keys.get(self.hashes.get(id)?)
    }

    /// The hash of a key by the key's id.
    #[must_use]
    pub fn hash_of(&self, id: &KeyId) -> Option<KeyHash> {
        self.hashes.get(id).copied()
    }

    /// Whether a key has this hash.
    #[must_use]
    pub fn has_hash(&self, hash: &KeyHash) -> bool {
        self.keys.contains_key(hash)
    }

    /// The keys of an account, the oldest first.
    #[must_use]
    pub fn keys(&self, account: &AccountId) -> Vec<ApiKey> {
        let keys = self.keys.values().filter(|key| key.account == *account);
        let mut keys: Vec<ApiKey> = keys.cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }

    /// Against which budgets of keys and labels a cause of an account counts, if against any.
    #[must_use]
    pub fn scopes_of(&self, id: &AccountId, cause: LedgerRef) -> Option<&Arc<[BudgetScope]>> {
        self.accounts.get(id)?.balance.scopes_of(cause)
    }

    /// The credits of an account, to look at and to change.
    pub fn balance(&mut self, id: &AccountId) -> Option<&mut CreditBalance> {
        self.accounts.get_mut(id).map(|row| &mut row.balance)
    }

    /// Sets credits of a payer aside for so long; nothing where there is no such account.
    pub fn reserve(
        &mut self,
        payer: Payer<'_>,
        cause: LedgerRef,
        hold_cents: u32,
        lasts: Duration,
        now: Timestamp,
    ) -> Reservation {
        let span = (now, lapses_at(now, lasts));
        match self.accounts.get_mut(payer.account) {
            Some(row) => {
                let scoped = row.tier.router.scoped_budgets.of_scopes(payer.scopes);
                let rules = row.tier.spend_rules(row.account.billed, &scoped);
                let runs = &self.runs.0;
                row.balance.reserve(cause, hold_cents, rules, span, runs)
            }
            None => Reservation::Insufficient { available_cents: 0 },
        }
    }

    /// Renews holds; the positions of those that are none.
    pub fn renew(
        &mut self,
        holds: &[(&AccountId, LedgerRef)],
        lasts: Duration,
        now: Timestamp,
    ) -> Vec<usize> {
        let span = (now, lapses_at(now, lasts));
        let gone = holds.iter().enumerate().filter(|(_, (id, cause))| {
            let row = self.accounts.get_mut(*id);
            !row.is_some_and(|row| row.balance.renew(*cause, span, &self.runs.0))
        });
        gone.map(|(position, _)| position).collect()
    }

    /// What an account has; nothing where there is no such account.
    #[must_use]
    pub fn credits(&self, id: &AccountId, now: Timestamp) -> Credits {
        let row = self.accounts.get(id);
        row.map_or_else(Credits::default, |row| {
            row.balance.credits(now, &self.runs.0)
        })
    }

    /// The full principal of an active account.
    #[must_use]
    pub fn principal(&self, id: &AccountId) -> Option<Principal> {
        let row = self.active(id)?;
        Some(row.principal(None, row.scopes))
    }

    /// The principal of a key that counts, of an active account.
    #[must_use]
    pub fn principal_by_key(&self, hash: &KeyHash, now: Timestamp) -> Option<Principal> {
        let key = self.keys.get(hash).filter(|key| key.counts(now))?;
        let row = self.active(&key.account)?;
        Some(row.principal(Some(key.id.clone()), key.scopes))
    }

    /// Accounts as an operator sees them.
    #[must_use]
    pub fn views(&self, query: &AccountQuery) -> Vec<AccountView> {
        match query {
            AccountQuery::One(id) => self.accounts.get(id).map(Row::view).into_iter().collect(),
            AccountQuery::Page { after, limit } => {
                let behind =
                    |row: &&Row| after.as_ref().is_none_or(|after| row.account.id > *after);
                let mut rows: Vec<&Row> = self.accounts.values().filter(behind).collect();
                rows.sort_by(|a, b| a.account.id.cmp(&b.account.id));
                rows.into_iter().take(*limit).map(Row::view).collect()
            }
        }
    }

    fn active(&self, id: &AccountId) -> Option<&Row> {
        let row = self.accounts.get(id)?;
        (row.account.state == AccountState::Active).then_some(row)
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runs")
    }
}

impl Row {
    fn principal(&self, key: Option<KeyId>, scopes: Scopes) -> Principal {
        Principal {
            account: self.account.id.clone(),
            key,
            scopes,
            tier: Arc::clone(&self.tier),
            subscribed: self.account.subscribed,
            router: self.account.router,
            billed: self.account.billed,
        }
    }

    fn view(&self) -> AccountView {
        AccountView {
            account: self.account.clone(),
            tier: Tier::clone(&self.tier),
            credits: self.balance.last_credits(),
            scoped: self.account.limits.scoped_budgets.views(&self.balance),
        }
    }
}

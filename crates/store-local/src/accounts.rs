//! Accounts, keys and credits: rows on the disk, and an index in memory that requests are answered from.
//!
//! A change is a row first. The index takes it over on the writing thread, after the commit and before the caller that asked for
//! it is answered: so nobody is told of a change that a crash could undo, and nobody who was told meets the state before
//! it. Looking up a key touches neither the disk nor another thread.

#[cfg(feature = "router")]
mod bills;
mod ledger;
mod rows;
mod scopes;
mod sessions;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use accounts::{
    Account, AccountAdmin, AccountChange, AccountId, AccountIndex, AccountQuery, AccountState,
    AccountView, Accounts, AccountsError, AdminError, ApiKey, BudgetScope, CreditLedger, Credits,
    Granted, KeyHash, KeyId, LedgerEntry, LedgerRef, OverBudget, Payer, Principal, Reservation,
    Tier,
};
use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;

use crate::columns::whole_micros;
use crate::database::{Database, DatabaseError, Durability, Transaction};
use crate::webhooks::Hooks;

#[cfg(feature = "router")]
pub(crate) use bills::{Bill, bill, bill_ahead, post_bills};

/// Accounts in the database of a data directory. Clones share them.
#[derive(Clone, Debug)]
pub struct SqliteAccounts {
    database: Database,
    accounts: SharedAccounts,
    hooks: Hooks,
}

/// The index, where the writing thread and requests meet.
#[derive(Clone, Debug)]
pub(crate) struct SharedAccounts(Arc<RwLock<AccountIndex>>);

/// Reads everything that requests are answered from.
pub(crate) fn load(connection: &Connection, defaults: Tier) -> rusqlite::Result<SharedAccounts> {
    let mut index = AccountIndex::new(defaults);
    rows::each_account(connection, |account, credits| {
        index.insert(account, credits)
    })?;
    rows::each_key(connection, |key, hash| index.insert_key(key, hash))?;
    scopes::load(connection, &mut index)?;
    Ok(SharedAccounts(Arc::new(RwLock::new(index))))
}

impl SharedAccounts {
    fn read(&self) -> RwLockReadGuard<'_, AccountIndex> {
        // Every change is made whole by one call that does not panic in between.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, AccountIndex> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is such an account.
    pub(crate) fn knows(&self, account: &AccountId) -> bool {
        self.read().account(account).is_some()
    }

    /// Has holds count past their leases while their causes run.
    #[cfg(feature = "router")]
    pub(crate) fn keep_holds_while(
        &self,
        runs: impl Fn(LedgerRef) -> bool + Send + Sync + 'static,
    ) {
        self.write().keep_holds_while(runs);
    }

    /// Against which budgets of keys and labels a cause counts, if against any.
    fn scopes_of(&self, account: &AccountId, cause: LedgerRef) -> Option<Arc<[BudgetScope]>> {
        self.read().scopes_of(account, cause).cloned()
    }

    /// Whether a cause counts against budgets of keys or labels.
    pub(crate) fn has_scopes(&self, account: &AccountId, cause: LedgerRef) -> bool {
        self.read().scopes_of(account, cause).is_some()
    }

    /// Forgets in the rows against which budgets of keys and labels a cause counts; the index follows with its bill or its
    /// release.
    fn forget_scopes(
        &self,
        rows: &Connection,
        account: &AccountId,
        cause: LedgerRef,
    ) -> rusqlite::Result<Vec<BudgetScope>> {
        // Nearly every cause counts against none, which costs no statement.
        match self.has_scopes(account, cause) {
            true => scopes::forget(rows, account, cause),
            false => Ok(Vec::new()),
        }
    }

    /// Lets the index take a change over once it is committed.
    fn later(
        &self,
        transaction: &mut Transaction<'_>,
        change: impl FnOnce(&mut AccountIndex) + Send + 'static,
    ) {
        let accounts = self.clone();
        transaction.after_commit(move || change(&mut accounts.write()));
    }
}

impl SqliteAccounts {
    pub(crate) fn new(database: Database, accounts: SharedAccounts, hooks: Hooks) -> Self {
        Self {
            database,
            accounts,
            hooks,
        }
    }

    /// Tells the account of a budget that refused a call, where it wants to hear of it. The refusal stands in any case.
    async fn tell_over_budget(&self, account: &AccountId, over: OverBudget, now: Timestamp) {
        if !self.hooks.wants_budget(account, &over) {
            return;
        }
        let (hooks, account) = (self.hooks.clone(), account.clone());
        let told = self.write(move |_, rows| hooks.budget_reached(rows, &account, &over, now));
        if let Err(error) = told.await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "a reached budget could not be recorded; the next refusal tries again"
            );
        }
    }

    /// Writes down against which budgets of keys and labels a cause counts, if against any: its charge counts there whatever
    /// becomes of this process.
    async fn remember_scopes(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        now: Timestamp,
    ) -> Result<(), AccountsError> {
        let Some(scopes) = self.accounts.scopes_of(account, cause) else {
            return Ok(());
        };
        let of_account = account.clone();
        let written =
            self.write(move |_, rows| scopes::remember(rows, &of_account, cause, &scopes, now));
        let written = written.await;
        if written.is_err()
            && let Some(balance) = self.accounts.write().balance(account)
        {
            balance.release(cause);
        }
        written
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&SharedAccounts, &mut Transaction<'_>) -> rusqlite::Result<T>
        + Send
        + 'static,
    ) -> Result<T, AccountsError> {
        let accounts = self.accounts.clone();
        self.database
            .write(Durability::Now, move |rows| operation(&accounts, rows))
            .await
            .map_err(unavailable)
    }

    /// Adds an entry for its cause, unless there is one; the one that stands.
    async fn post(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i64,
        now: Timestamp,
    ) -> Result<LedgerEntry, AdminError> {
        // Accounts never go, so this cannot change before the row is written.
        if !self.accounts.knows(account) {
            return Err(AdminError::NoAccount);
        }
        let account = account.clone();
        let posted = self.write(move |accounts, rows| {
            ledger::post(rows, accounts, &account, cause, amount_cents, now)
        });
        Ok(posted.await?)
    }
}

#[async_trait]
impl Accounts for SqliteAccounts {
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        Ok(self.accounts.read().principal_by_key(key, now))
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError> {
        Ok(self.accounts.read().principal(id))
    }
}

/// Holds are in memory alone: they end with the process that has the directory.
#[async_trait]
impl CreditLedger for SqliteAccounts {
    async fn credits(&self, account: &AccountId, now: Timestamp) -> Result<Credits, AccountsError> {
        Ok(self.accounts.read().credits(account, now))
    }

    async fn reserve(
        &self,
        payer: Payer<'_>,
        cause: LedgerRef,
        hold_cents: u32,
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        let reserved = {
            let index = &mut self.accounts.write();
            index.reserve(payer, cause, hold_cents, lasts, now)
        };
        match &reserved {
            Reservation::Held if !payer.scopes.is_empty() => {
                self.remember_scopes(payer.account, cause, now).await?;
            }
            Reservation::OverBudget(over) => {
                self.tell_over_budget(payer.account, over.clone(), now)
                    .await;
            }
            Reservation::Held | Reservation::Insufficient { .. } => {}
        }
        Ok(reserved)
    }

    async fn renew(
        &self,
        holds: &[(&AccountId, LedgerRef)],
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        Ok(self.accounts.write().renew(holds, lasts, now))
    }

    async fn settle(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        charge_cents: u32,
        now: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        let charge = -i64::from(charge_cents);
        match self.post(account, cause, charge, now).await {
            Ok(entry) => Ok(entry),
            Err(AdminError::Unavailable(error)) => Err(error),
            Err(error @ (AdminError::NoAccount | AdminError::NoKey | AdminError::Taken)) => {
                Err(AccountsError(Box::new(error)))
            }
        }
    }

    async fn release(&self, account: &AccountId, cause: LedgerRef) -> Result<(), AccountsError> {
        let has_scopes = {
            let index = &mut self.accounts.write();
            let balance = index.balance(account);
            balance.is_some_and(|balance| {
                let has_scopes = balance.scopes_of(cause).is_some();
                balance.release(cause);
                has_scopes
            })
        };
        if !has_scopes {
            return Ok(());
        }
        let account = account.clone();
        let forgotten = self.write(move |_, rows| scopes::forget(rows, &account, cause));
        forgotten.await.map(|_| ())
    }

    async fn entries(
        &self,
        account: &AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        let account = account.clone();
        self.database.catch_up().await;
        self.database
            .read(move |rows| ledger::newest(rows, &account, before, limit))
            .await
            .map_err(unavailable)
    }
}

#[async_trait]
impl AccountAdmin for SqliteAccounts {
    async fn create(&self, account: Account) -> Result<(), AdminError> {
        let account = Account {
            created_at: whole_micros(account.created_at),
            ..account
        };
        let created = self.write(move |accounts, rows| {
            let created = rows::insert_account(rows, &account)?;
            if created {
                accounts.later(rows, move |index| index.insert(account, Credits::default()));
            }
            Ok(created)
        });
        created.await?.then_some(()).ok_or(AdminError::Taken)
    }

    async fn change(
        &self,
        id: &AccountId,
        changes: Vec<AccountChange>,
    ) -> Result<Account, AdminError> {
        let id = id.clone();
        let changed = self.write(move |accounts, rows| {
            // From the row and not from the index: an earlier change may be in the same transaction.
            let Some(mut account) = rows::account(rows, &id)? else {
                return Ok(None);
            };
            changes.into_iter().for_each(|change| account.apply(change));
            rows::update_account(rows, &account)?;
            if account.state == AccountState::Suspended {
                sessions::end_of_account(rows, &id)?;
            }
            let told = account.clone();
            accounts.later(rows, move |index| index.update(account));
            Ok(Some(told))
        });
        changed.await?.ok_or(AdminError::NoAccount)
    }

    async fn accounts(&self, query: &AccountQuery) -> Result<Vec<AccountView>, AdminError> {
        Ok(self.accounts.read().views(query))
    }

    async fn add_key(&self, key: ApiKey, hash: KeyHash) -> Result<(), AdminError> {
        if !self.accounts.knows(&key.account) {
            return Err(AdminError::NoAccount);
        }
        let key = ApiKey {
            created_at: whole_micros(key.created_at),
            expires_at: key.expires_at.map(whole_micros),
            ..key
        };
        let added = self.write(move |accounts, rows| {
            let added = rows::insert_key(rows, &key, &hash)?;
            if added {
                accounts.later(rows, move |index| index.insert_key(key, hash));
            }
            Ok(added)
        });
        added.await?.then_some(()).ok_or(AdminError::Taken)
    }

    async fn keys(&self, account: &AccountId) -> Result<Vec<ApiKey>, AdminError> {
        let index = self.accounts.read();
        if index.account(account).is_none() {
            return Err(AdminError::NoAccount);
        }
        Ok(index.keys(account))
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<ApiKey, AdminError> {
        let id = id.clone();
        let revoked = self.write(move |accounts, rows| {
            let Some(key) = rows::revoke_key(rows, &id, now)? else {
                return Ok(None);
            };
            sessions::end_of_key(rows, &id)?;
            let told = key.clone();
            accounts.later(rows, move |index| index.update_key(key));
            Ok(Some(told))
        });
        revoked.await?.ok_or(AdminError::NoKey)
    }

    fn set_defaults(&self, defaults: Tier) {
        self.accounts.write().set_defaults(defaults);
    }

    async fn grant(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i32,
        now: Timestamp,
    ) -> Result<Granted, AdminError> {
        let amount_cents = i64::from(amount_cents);
        let entry = self.post(account, cause, amount_cents, now).await?;
        let credits = self.credits(account, now).await?;
        Ok(Granted { entry, credits })
    }
}

fn unavailable(error: DatabaseError) -> AccountsError {
    AccountsError(Box::new(error))
}

#[cfg(test)]
mod tests;

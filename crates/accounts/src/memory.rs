//! Accounts kept in memory: the twin of every account store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Account, AccountAdmin, AccountChange, AccountId, AccountIndex, AccountQuery, AccountState,
    AccountView, Accounts, AccountsError, AdminError, ApiKey, CreditLedger, Credits, Granted,
    KeyHash, KeyId, LedgerEntry, LedgerRef, Limits, MintedKey, Payer, Principal, Reservation,
    Session, SessionSource, Sessions, Tier,
};

/// An account store that forgets everything with the process.
#[derive(Debug)]
pub struct MemoryAccounts {
    rows: Mutex<Rows>,
}

#[derive(Debug)]
struct Rows {
    index: AccountIndex,
    ledger: Vec<LedgerEntry>,
    sessions: HashMap<KeyHash, Session>,
}

impl MemoryAccounts {
    /// A store of no accounts; those that come have the standard tier where their limits say nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self::with_defaults(Tier::standard())
    }

    /// The same with another tier.
    #[must_use]
    pub fn with_defaults(defaults: Tier) -> Self {
        let rows = Rows {
            index: AccountIndex::new(defaults),
            ledger: Vec::new(),
            sessions: HashMap::new(),
        };
        Self {
            rows: Mutex::new(rows),
        }
    }

    /// Has holds count past their leases while their causes run. `runs` tells whether one was dispatched and has not ended; it is
    /// asked about holds that lapsed, with the accounts locked.
    pub fn keep_holds_while(&self, runs: impl Fn(LedgerRef) -> bool + Send + Sync + 'static) {
        self.rows().index.keep_holds_while(runs);
    }

    /// Adds an account that has exactly this principal, or replaces it.
    pub fn put(&self, principal: Principal) {
        let (id, scopes) = (principal.account.clone(), principal.scopes);
        let index = &mut self.rows().index;
        index.insert(account_of(principal), Credits::default());
        index.narrow(&id, scopes);
    }

    /// Lets a credential stand for an account with the scopes of `principal`; the account is added where it is missing.
    pub fn put_key(&self, hash: KeyHash, principal: Principal) {
        let id = principal.account.clone();
        let key = ApiKey {
            id: principal.key.clone().unwrap_or_else(|| key_id(&hash)),
            account: id.clone(),
            name: (&id).into(),
            scopes: principal.scopes,
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
            revoked_at: None,
        };
        let index = &mut self.rows().index;
        if index.account(&id).is_none() {
            index.insert(account_of(principal), Credits::default());
        }
        index.insert_key(key, hash);
    }

    /// Withdraws a credential.
    pub fn revoke(&self, key: &KeyHash) {
        self.rows().index.remove_key(key);
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Every change is made whole by one call that does not panic in between.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryAccounts {
    fn default() -> Self {
        Self::new()
    }
}

/// An account that gives `principal`, apart from its scopes.
fn account_of(principal: Principal) -> Account {
    let id = principal.account;
    Account {
        subscribed: principal.subscribed,
        router: principal.router,
        billed: principal.billed,
        limits: Limits::of(&principal.tier),
        ..Account::new(id.clone(), (&id).into(), Timestamp::UNIX_EPOCH)
    }
}

/// An id that follows from the hash.
fn key_id(hash: &KeyHash) -> KeyId {
    let mut random = [0; MintedKey::RANDOM_BYTES];
    random[..32].copy_from_slice(hash.as_bytes());
    MintedKey::new(&random).id
}

impl Rows {
    /// Adds an entry unless its cause has one; the one that stands.
    fn post(
        &mut self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i64,
        at: Timestamp,
    ) -> Option<LedgerEntry> {
        let balance = self.index.balance(account)?;
        let same = |entry: &&LedgerEntry| entry.account == *account && entry.cause == cause;
        if let Some(principal) = self.ledger.iter().find(same) {
            balance.release(cause);
            return Some(principal.clone());
        }
        balance.post(cause, amount_cents, at);
        let entry = LedgerEntry {
            seq: self.ledger.len() as u64 + 1,
            account: account.clone(),
            cause,
            amount_cents,
            at,
        };
        self.ledger.push(entry.clone());
        Some(entry)
    }
}

#[async_trait]
impl Accounts for MemoryAccounts {
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        Ok(self.rows().index.principal_by_key(key, now))
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError> {
        Ok(self.rows().index.principal(id))
    }
}

#[async_trait]
impl CreditLedger for MemoryAccounts {
    async fn credits(&self, account: &AccountId, now: Timestamp) -> Result<Credits, AccountsError> {
        Ok(self.rows().index.credits(account, now))
    }

    async fn reserve(
        &self,
        payer: Payer<'_>,
        cause: LedgerRef,
        hold_cents: u32,
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        let index = &mut self.rows().index;
        Ok(index.reserve(payer, cause, hold_cents, lasts, now))
    }

    async fn renew(
        &self,
        holds: &[(&AccountId, LedgerRef)],
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        Ok(self.rows().index.renew(holds, lasts, now))
    }

    async fn settle(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        charge_cents: u32,
        now: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        let entry = self
            .rows()
            .post(account, cause, -i64::from(charge_cents), now);
        entry.ok_or_else(|| AccountsError(Box::new(AdminError::NoAccount)))
    }

    async fn release(&self, account: &AccountId, cause: LedgerRef) -> Result<(), AccountsError> {
        if let Some(balance) = self.rows().index.balance(account) {
            balance.release(cause);
        }
        Ok(())
    }

    async fn entries(
        &self,
        account: &AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        let rows = self.rows();
        let wanted = |entry: &&LedgerEntry| {
            entry.account == *account && before.is_none_or(|before| entry.seq < before)
        };
        let newest = rows.ledger.iter().rev().filter(wanted);
        Ok(newest.take(limit).cloned().collect())
    }
}

#[async_trait]
impl AccountAdmin for MemoryAccounts {
    async fn create(&self, account: Account) -> Result<(), AdminError> {
        let index = &mut self.rows().index;
        if index.account(&account.id).is_some() {
            return Err(AdminError::Taken);
        }
        index.insert(account, Credits::default());
        Ok(())
    }

    async fn change(
        &self,
        id: &AccountId,
        changes: Vec<AccountChange>,
    ) -> Result<Account, AdminError> {
        let rows = &mut *self.rows();
        let found = rows.index.account(id).cloned();
        let mut account = found.ok_or(AdminError::NoAccount)?;
        changes.into_iter().for_each(|change| account.apply(change));
        rows.index.update(account.clone());
        if account.state == AccountState::Suspended {
            rows.sessions.retain(|_, session| session.account != *id);
        }
        Ok(account)
    }

    async fn accounts(&self, query: &AccountQuery) -> Result<Vec<AccountView>, AdminError> {
        Ok(self.rows().index.views(query))
    }

    async fn add_key(&self, key: ApiKey, hash: KeyHash) -> Result<(), AdminError> {
        let index = &mut self.rows().index;
        if index.account(&key.account).is_none() {
            return Err(AdminError::NoAccount);
        }
        if index.key(&key.id).is_some() || index.has_hash(&hash) {
            return Err(AdminError::Taken);
        }
        index.insert_key(key, hash);
        Ok(())
    }

    async fn keys(&self, account: &AccountId) -> Result<Vec<ApiKey>, AdminError> {
        let index = &self.rows().index;
        if index.account(account).is_none() {
            return Err(AdminError::NoAccount);
        }
        Ok(index.keys(account))
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<ApiKey, AdminError> {
        let rows = &mut *self.rows();
        let mut key = rows.index.key(id).cloned().ok_or(AdminError::NoKey)?;
        key.revoked_at = key.revoked_at.or(Some(now));
        rows.index.update_key(key.clone());
        if let Some(hash) = rows.index.hash_of(id) {
            let source = SessionSource::Credential(hash);
            rows.sessions.retain(|_, session| session.source != source);
        }
        Ok(key)
    }

    fn set_defaults(&self, defaults: Tier) {
        self.rows().index.set_defaults(defaults);
    }

    async fn grant(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i32,
        now: Timestamp,
    ) -> Result<Granted, AdminError> {
        let rows = &mut *self.rows();
        let entry = rows.post(account, cause, i64::from(amount_cents), now);
        Ok(Granted {
            entry: entry.ok_or(AdminError::NoAccount)?,
            credits: rows.index.credits(account, now),
        })
    }
}

#[async_trait]
impl Sessions for MemoryAccounts {
    async fn begin(&self, token: KeyHash, session: Session) -> Result<(), AdminError> {
        let rows = &mut *self.rows();
        if rows.index.account(&session.account).is_none() {
            return Err(AdminError::NoAccount);
        }
        let sessions = &mut rows.sessions;
        sessions.retain(|_, other| other.counts(session.began_at));
        if sessions.contains_key(&token) {
            return Err(AdminError::Taken);
        }
        let of_account = |(_, other): &(&KeyHash, &Session)| other.account == session.account;
        if sessions.iter().filter(of_account).count() >= Session::MOST_PER_ACCOUNT {
            let others = sessions.iter().filter(of_account);
            let first = others.min_by_key(|(token, other)| (other.ends_at, *token.as_bytes()));
            if let Some(first) = first.map(|(token, _)| *token) {
                sessions.remove(&first);
            }
        }
        sessions.insert(token, session);
        Ok(())
    }

    async fn find(
        &self,
        token: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Session>, AccountsError> {
        let found = self.rows().sessions.get(token).cloned();
        Ok(found.filter(|session| session.counts(now)))
    }

    async fn end(&self, token: &KeyHash) -> Result<(), AccountsError> {
        self.rows().sessions.remove(token);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contract::{self, Ports, SessionPorts};

    #[tokio::test]
    async fn keeps_the_contract() {
        contract::accounts(|defaults| {
            let store = Arc::new(MemoryAccounts::with_defaults(defaults));
            Ports {
                accounts: store.clone(),
                admin: store,
            }
        })
        .await;
    }

    #[tokio::test]
    async fn keeps_the_contract_of_replicas() {
        contract::replicas(|defaults| {
            let store = Arc::new(MemoryAccounts::with_defaults(defaults));
            let ports = Ports {
                accounts: store.clone(),
                admin: store,
            };
            [ports.clone(), ports]
        })
        .await;
    }

    #[tokio::test]
    async fn sessions_keep_the_contract() {
        contract::sessions(|| {
            let store = Arc::new(MemoryAccounts::new());
            let handle = || SessionPorts {
                sessions: store.clone(),
                admin: store.clone(),
            };
            [handle(), handle()]
        })
        .await;
    }

    #[tokio::test]
    async fn a_fixed_standing_is_given_as_it_is() {
        let accounts = MemoryAccounts::new();
        let principal = Principal {
            scopes: "jobs:read".parse().expect("a scope"),
            billed: true,
            ..Principal::full(AccountId::local(), Tier::standard())
        };
        accounts.put(principal.clone());
        let found = accounts.by_id(&AccountId::local()).await;
        assert_eq!(found.expect("memory answers"), Some(principal.clone()));

        let hash = KeyHash::of("key");
        accounts.put_key(hash, principal.clone());
        let now = Timestamp::UNIX_EPOCH;
        let found = accounts.by_key(&hash, now).await.expect("memory answers");
        let key = found.as_ref().and_then(|found| found.key.clone());
        assert_eq!(found, Some(Principal { key, ..principal }));
        accounts.revoke(&hash);
        let found = accounts.by_key(&hash, now).await;
        assert_eq!(found.expect("memory answers"), None);
    }
}

//! Accounts whose replicas hear late of what the others changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::{
    Account, AccountAdmin, AccountChange, AccountId, AccountQuery, AccountView, Accounts,
    AccountsError, AdminError, ApiKey, CreditLedger, Credits, Granted, KeyHash, KeyId, LedgerEntry,
    LedgerRef, Payer, Principal, Reservation, Tier,
};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::jitter::Jitter;

/// Counts the changes that operators made at any replica.
pub(crate) type Version = Arc<Mutex<u64>>;

/// A replica that answers for a key from memory for a while after another replica changed something.
pub(crate) struct OddAccounts {
    pub(crate) inner: Arc<dyn Accounts>,
    pub(crate) admin: Arc<dyn AccountAdmin>,
    pub(crate) jitter: Jitter,
    pub(crate) version: Version,
    pub(crate) seen: Mutex<Seen>,
}

/// What a replica knows.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    version: u64,
    /// Answers of that version, and the times that were asked for.
    keys: HashMap<KeyHash, (Timestamp, Option<Principal>)>,
    /// How often old answers are given once there is another version.
    late: usize,
}

impl OddAccounts {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn version(&self) -> MutexGuard<'_, u64> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a change that this replica made: it knows all from now on.
    fn changed(&self) {
        let mut version = self.version();
        *version += 1;
        let mut seen = self.seen();
        seen.keys.clear();
        seen.version = *version;
    }

    /// An old answer, if this one may be old.
    fn old(&self, key: &KeyHash, now: Timestamp) -> Option<Option<Principal>> {
        let (version, mut seen) = (*self.version(), self.seen());
        if seen.version == version {
            return None;
        }
        if seen.late > 0
            && let Some((at, known)) = seen.keys.get(key).cloned()
            && at == now
        {
            seen.late -= 1;
            return Some(known);
        }
        seen.keys.clear();
        (seen.version, seen.late) = (version, self.jitter.roll(20));
        None
    }
}

#[async_trait]
impl Accounts for OddAccounts {
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        self.jitter.pause().await;
        if let Some(old) = self.old(key, now) {
            return Ok(old);
        }
        let found = self.inner.by_key(key, now).await?;
        self.seen().keys.insert(*key, (now, found.clone()));
        Ok(found)
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError> {
        self.jitter.around(self.inner.by_id(id)).await
    }
}

#[async_trait]
impl CreditLedger for OddAccounts {
    async fn credits(&self, account: &AccountId, now: Timestamp) -> Result<Credits, AccountsError> {
        self.jitter.around(self.inner.credits(account, now)).await
    }

    async fn reserve(
        &self,
        payer: Payer<'_>,
        cause: LedgerRef,
        hold_cents: u32,
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        let reserved = self.inner.reserve(payer, cause, hold_cents, lasts, now);
        self.jitter.around(reserved).await
    }

    async fn renew(
        &self,
        holds: &[(&AccountId, LedgerRef)],
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        let mut gone = self
            .jitter
            .around(self.inner.renew(holds, lasts, now))
            .await?;
        self.jitter.shuffle(&mut gone);
        Ok(gone)
    }

    async fn settle(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        charge_cents: u32,
        now: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        let settled = self.inner.settle(account, cause, charge_cents, now);
        self.jitter.around(settled).await
    }

    async fn release(&self, account: &AccountId, cause: LedgerRef) -> Result<(), AccountsError> {
        self.jitter.around(self.inner.release(account, cause)).await
    }

    async fn entries(
        &self,
        account: &AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        let entries = self.inner.entries(account, before, limit);
        self.jitter.around(entries).await
    }
}

#[async_trait]
impl AccountAdmin for OddAccounts {
    async fn create(&self, account: Account) -> Result<(), AdminError> {
        self.jitter.pause().await;
        let created = self.admin.create(account).await;
        self.changed();
        created
    }

    async fn change(
        &self,
        id: &AccountId,
        changes: Vec<AccountChange>,
    ) -> Result<Account, AdminError> {
        self.jitter.pause().await;
        let changed = self.admin.change(id, changes).await;
        self.changed();
        changed
    }

    async fn accounts(&self, query: &AccountQuery) -> Result<Vec<AccountView>, AdminError> {
        self.jitter.around(self.admin.accounts(query)).await
    }

    async fn add_key(&self, key: ApiKey, hash: KeyHash) -> Result<(), AdminError> {
        self.jitter.pause().await;
        let added = self.admin.add_key(key, hash).await;
        self.changed();
        added
    }

    async fn keys(&self, account: &AccountId) -> Result<Vec<ApiKey>, AdminError> {
        self.jitter.around(self.admin.keys(account)).await
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<ApiKey, AdminError> {
        self.jitter.pause().await;
        let revoked = self.admin.revoke_key(id, now).await;
        self.changed();
        revoked
    }

    fn set_defaults(&self, defaults: Tier) {
        self.admin.set_defaults(defaults);
    }

    async fn grant(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i32,
        now: Timestamp,
    ) -> Result<Granted, AdminError> {
        let granted = self.admin.grant(account, cause, amount_cents, now);
        self.jitter.around(granted).await
    }
}

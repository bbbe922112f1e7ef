//! Accounts, keys and credits in rows, the same for every process.
//!
//! Requests that arrive together are looked up, held and billed together.

mod credits;
pub(crate) mod holds;
pub(crate) mod ledger;
mod rows;
mod scopes;
mod sessions;

use std::sync::{Arc, PoisonError, RwLock};

use accounts::{
    Account, AccountAdmin, AccountChange, AccountId, AccountIndex, AccountQuery, AccountState,
    AccountView, Accounts, AccountsError, AdminError, ApiKey, Credits, Granted, KeyHash, KeyId,
    LedgerEntry, LedgerRef, Principal, Reservation, ScopedBudgetView, Tier,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::Timestamp;

use crate::batch::Batches;
use crate::columns::whole_micros;
use crate::{Database, DatabaseError};

use holds::Reserve;
use ledger::Posting;

/// Most look-ups, holds or bills of one batch.
const TOGETHER: usize = 256;

/// Accounts in a PostgreSQL database. Clones share them.
#[derive(Clone)]
pub struct PgAccounts {
    database: Database,
    defaults: Defaults,
    lookups: Batches<Lookup, Option<Principal>>,
    reserving: Batches<Reserve, Reservation>,
    posting: Batches<Posting, Option<LedgerEntry>>,
}

/// What accounts get whose limits say nothing else, in this process. Clones are the same.
#[derive(Clone, Debug)]
struct Defaults(Arc<RwLock<Arc<Tier>>>);

impl Defaults {
    fn of(tier: Tier) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(tier))))
    }

    fn tier(&self) -> Arc<Tier> {
        // Every change is one assignment.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, tier: Tier) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tier);
    }
}

/// Who is asked for.
#[derive(Clone, Debug)]
enum Lookup {
    Key(KeyHash, Timestamp),
    Id(AccountId),
}

impl PgAccounts {
    /// Accounts that have the tier `defaults` where their limits say nothing else.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn new(database: Database, defaults: Tier) -> Self {
        let defaults = Defaults::of(defaults);
        let turnstile = database.turnstile().clone();
        let (store, current) = (database.clone(), defaults.clone());
        // A look-up locks nothing and commits nothing, and every request waits for one: it takes turns with no step of a call.
        let lookups = Batches::in_turn(&turnstile.apart(), TOGETHER, move |asked| {
            look_up(store.clone(), current.tier(), asked).boxed()
        });
        let store = database.clone();
        let reserving = Batches::in_turn(&turnstile, TOGETHER, move |wishes| {
            credits::reserve_all(store.clone(), wishes).boxed()
        });
        let store = database.clone();
        let posting = Batches::in_turn(&turnstile, TOGETHER, move |postings| {
            credits::post_all(store.clone(), postings).boxed()
        });
        Self {
            database,
            defaults,
            lookups,
            reserving,
            posting,
        }
    }

    async fn create_row(&self, account: &Account) -> Result<bool, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let created = rows::insert_account(&rows, account).await?;
        rows.commit().await?;
        Ok(created)
    }

    async fn change_row(
        &self,
        id: &AccountId,
        changes: Vec<AccountChange>,
    ) -> Result<Option<Account>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let Some(mut account) = rows::lock_account(&rows, id).await? else {
            return Ok(None);
        };
        changes.into_iter().for_each(|change| account.apply(change));
        rows::update_account(&rows, &account).await?;
        if account.state == AccountState::Suspended {
            sessions::end_of_account(&rows, id).await?;
        }
        rows.commit().await?;
        Ok(Some(account))
    }

    async fn revoke_row(
        &self,
        id: &KeyId,
        now: Timestamp,
    ) -> Result<Option<ApiKey>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let Some(account) = rows::account_of_key(&rows, id).await? else {
            return Ok(None);
        };
        rows::lock_account(&rows, &account).await?;
        let revoked = rows::revoke_key(&rows, id, now).await?;
        sessions::end_of_key(&rows, id.as_str()).await?;
        rows.commit().await?;
        Ok(revoked)
    }

    fn view(
        &self,
        (account, credits): (Account, Credits),
        scoped: Vec<ScopedBudgetView>,
    ) -> AccountView {
        AccountView {
            tier: self.defaults.tier().with(&account.limits),
            account,
            credits,
            scoped,
        }
    }
}

/// Looks up keys and accounts; the domain says which of them count.
async fn look_up(
    database: Database,
    defaults: Arc<Tier>,
    asked: Vec<Lookup>,
) -> Result<Vec<Option<Principal>>, DatabaseError> {
    let connection = database.connection().await?;
    let mut index = AccountIndex::new(Tier::clone(&defaults));
    let hashes = asked.iter().filter_map(|lookup| match lookup {
        Lookup::Key(hash, _) => Some(hash.as_bytes().as_slice()),
        Lookup::Id(_) => None,
    });
    let hashes: Vec<&[u8]> = hashes.collect();
    if !hashes.is_empty() {
        for (key, hash, account) in rows::keys_of_hashes(&connection, &hashes).await? {
            index.insert(account, Credits::default());
            index.insert_key(key, hash);
        }
    }
    let ids = asked.iter().filter_map(|lookup| match lookup {
        Lookup::Key(..) => None,
        Lookup::Id(id) => Some(id.as_str()),
    });
    let ids: Vec<&str> = ids.collect();
    if !ids.is_empty() {
        for account in rows::accounts(&connection, &ids).await? {
            index.insert(account, Credits::default());
        }
    }
    let found = asked.iter().map(|lookup| match lookup {
        Lookup::Key(hash, now) => index.principal_by_key(hash, *now),
        Lookup::Id(id) => index.principal(id),
    });
    Ok(found.collect())
}

#[async_trait]
impl Accounts for PgAccounts {
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        let found = self.lookups.write(Lookup::Key(*key, now)).await;
        found.map_err(unavailable)
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError> {
        let found = self.lookups.write(Lookup::Id(id.clone())).await;
        found.map_err(unavailable)
    }
}

#[async_trait]
impl AccountAdmin for PgAccounts {
    async fn create(&self, account: Account) -> Result<(), AdminError> {
        let account = Account {
            created_at: whole_micros(account.created_at),
            ..account
        };
        let created = self.create_row(&account).await.map_err(unavailable)?;
        created.then_some(()).ok_or(AdminError::Taken)
    }

    async fn change(
        &self,
        id: &AccountId,
        changes: Vec<AccountChange>,
    ) -> Result<Account, AdminError> {
        let changed = self.change_row(id, changes).await.map_err(unavailable)?;
        changed.ok_or(AdminError::NoAccount)
    }

    async fn accounts(&self, query: &AccountQuery) -> Result<Vec<AccountView>, AdminError> {
        let (range, limit) = match query {
            AccountQuery::One(id) => ((None, Some(id.as_str())), 1),
            AccountQuery::Page { after, limit } => {
                ((after.as_ref().map(AccountId::as_str), None), *limit)
            }
        };
        let views = async {
            let connection = self.database.connection().await?;
            let page = rows::page(&connection, range, limit).await?;
            let accounts: Vec<&Account> = page.iter().map(|(account, _)| account).collect();
            let mut scoped = scopes::views(&connection, &accounts).await?;
            let views = page.into_iter().map(|row| {
                let scoped = scoped.remove(&row.0.id).unwrap_or_default();
                self.view(row, scoped)
            });
            Ok(views.collect())
        };
        let views: Result<_, DatabaseError> = views.await;
        Ok(views.map_err(unavailable)?)
    }

    async fn add_key(&self, key: ApiKey, hash: KeyHash) -> Result<(), AdminError> {
        let key = ApiKey {
            created_at: whole_micros(key.created_at),
            expires_at: key.expires_at.map(whole_micros),
            ..key
        };
        let added = async {
            let connection = self.database.connection().await?;
            if !rows::exists(&connection, &key.account).await? {
                return Ok(Err(AdminError::NoAccount));
            }
            let added = rows::insert_key(&connection, &key, &hash).await?;
            Ok(added.then_some(()).ok_or(AdminError::Taken))
        };
        added.await.map_err(unavailable)?
    }

    async fn keys(&self, account: &AccountId) -> Result<Vec<ApiKey>, AdminError> {
        let keys = async {
            let connection = self.database.connection().await?;
            let keys = rows::keys(&connection, account).await?;
            let is_there = !keys.is_empty() || rows::exists(&connection, account).await?;
            Ok(is_there.then_some(keys))
        };
        let keys: Option<Vec<ApiKey>> = keys.await.map_err(unavailable)?;
        keys.ok_or(AdminError::NoAccount)
    }

    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<ApiKey, AdminError> {
        let revoked = self.revoke_row(id, now).await.map_err(unavailable)?;
        revoked.ok_or(AdminError::NoKey)
    }

    fn set_defaults(&self, defaults: Tier) {
        self.defaults.set(defaults);
    }

    async fn grant(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i32,
        now: Timestamp,
    ) -> Result<Granted, AdminError> {
        let posting = Posting {
            account: account.clone(),
            cause,
            amount_cents: i64::from(amount_cents),
            at: now,
        };
        let granted = credits::grant(&self.database, posting).await;
        granted.map_err(unavailable)?.ok_or(AdminError::NoAccount)
    }
}

fn unavailable(error: DatabaseError) -> AccountsError {
    AccountsError(Box::new(error))
}

impl std::fmt::Debug for PgAccounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgAccounts")
    }
}

#[cfg(test)]
mod tests;

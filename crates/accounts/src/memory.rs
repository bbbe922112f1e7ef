//! Accounts kept in memory: the twin of every account store, and all that an installation without accounts needs.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;

use crate::{AccountId, Accounts, AccountsError, KeyHash, Standing};

/// An account store that forgets everything with the process.
#[derive(Debug, Default)]
pub struct MemoryAccounts {
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    accounts: HashMap<AccountId, Standing>,
    keys: HashMap<KeyHash, Standing>,
}

impl MemoryAccounts {
    /// A store of no accounts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an account, or replaces it.
    pub fn put(&self, standing: Standing) {
        self.rows()
            .accounts
            .insert(standing.account.clone(), standing);
    }

    /// Lets a credential stand for `standing`.
    pub fn put_key(&self, key: KeyHash, standing: Standing) {
        self.rows().keys.insert(key, standing);
    }

    /// Withdraws a credential.
    pub fn revoke(&self, key: &KeyHash) {
        self.rows().keys.remove(key);
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, Rows> {
        // A panic while the maps are held leaves them whole: every change is one insert or remove.
        self.rows
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl Accounts for MemoryAccounts {
    async fn by_key(&self, key: &KeyHash) -> Result<Option<Standing>, AccountsError> {
        Ok(self.rows().keys.get(key).cloned())
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Standing>, AccountsError> {
        Ok(self.rows().accounts.get(id).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, Scopes, contract};

    #[tokio::test]
    async fn keeps_the_contract() {
        let accounts = MemoryAccounts::new();
        let standing = contract::standing("acme");
        accounts.put(standing.clone());
        let reader = Standing {
            scopes: [Scope::JobsRead].into_iter().collect::<Scopes>(),
            ..standing.clone()
        };
        accounts.put_key(KeyHash::of("key"), reader.clone());
        contract::looks_up(&accounts, &standing, "key", &reader).await;

        accounts.revoke(&KeyHash::of("key"));
        assert_eq!(
            accounts
                .by_key(&KeyHash::of("key"))
                .await
                .expect("memory answers"),
            None
        );
    }
}

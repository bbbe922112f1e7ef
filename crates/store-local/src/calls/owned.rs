//! Whose the generations are that run.
//!
//! In memory alone: one process at a time has the directory. What it finds at its start was its predecessor's, which the lock
//! of the directory shows to be gone, so everything has lapsed then; and what it hands to its routers ends with it. So a lease
//! costs no row, no entry of the log and no wait for the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::LedgerRef;
use router_core::{GenerationId, MemoryQuota, Ownerships};

use super::SqliteCalls;
use crate::accounts::SharedAccounts;

/// The owners of a data directory's generations. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned(Arc<Mutex<Ownerships>>);

impl Owned {
    /// What the process before left.
    pub(super) fn orphans(generations: impl IntoIterator<Item = GenerationId>) -> Self {
        let mut owned = Ownerships::default();
        generations.into_iter().for_each(|id| owned.orphan(id));
        Self(Arc::new(Mutex::new(owned)))
    }

    /// Has holds on credits count while their generations run.
    pub(super) fn keep_holds(&self, accounts: &SharedAccounts) {
        let owned = self.clone();
        accounts.keep_holds_while(move |cause| match cause {
            LedgerRef::Generation(id) => owned.lock().has(GenerationId(id)),
            LedgerRef::Grant(_) => false,
        });
    }

    /// Looks at them and changes them. Held while the log writes an end, so that nobody takes over what ends. No account is locked
    /// meanwhile: the accounts ask what runs.
    pub(super) fn lock(&self) -> MutexGuard<'_, Ownerships> {
        // Every change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SqliteCalls {
    /// What accounts have in flight beside these calls. Each one is a store of its own.
    pub(crate) fn quota(&self) -> MemoryQuota {
        let owned = self.under_way.owned.clone();
        MemoryQuota::new(move |id| owned.lock().has(id))
    }
}

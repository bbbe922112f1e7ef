//! How many event streams each account has open, per process, because the bound protects the memory and the descriptors of
//! one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::AccountId;

/// Open streams by account. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    open: Arc<Mutex<HashMap<AccountId, u32>>>,
}

/// The place of one open stream, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    streams: Streams,
    account: AccountId,
}

impl Streams {
    /// Takes a place, unless the account has `limit` of them.
    pub(crate) fn open(&self, account: &AccountId, limit: u32) -> Option<StreamSlot> {
        let mut open = self.lock();
        let count = open.entry(account.clone()).or_default();
        if *count >= limit {
            if *count == 0 {
                open.remove(account);
            }
            return None;
        }
        *count += 1;
        Some(StreamSlot {
            streams: self.clone(),
            account: account.clone(),
        })
    }

    /// How many are open in all.
    pub(crate) fn count(&self) -> u64 {
        self.lock().values().copied().map(u64::from).sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, u32>> {
        // Every change is one number: a panic elsewhere cannot have left the map half-changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_stream_is_dropped() {
        let streams = Streams::default();
        let (a, b) = ("a".parse().expect("an id"), "b".parse().expect("an id"));
        let first = streams.open(&a, 2).expect("there is room");
        let second = streams.open(&a, 2).expect("there is room");
        assert!(streams.open(&a, 2).is_none());
        assert!(streams.open(&b, 2).is_some(), "accounts count apart");
        drop(first);
        assert!(streams.open(&a, 2).is_some());
        drop(second);
        assert_eq!(streams.count(), 0);
        assert!(streams.open(&a, 0).is_none());
        assert!(
            streams.lock().is_empty(),
            "nothing is kept of who has none open"
        );
    }
}

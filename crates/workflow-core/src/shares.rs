//! Places that all accounts use, and how many of them one account may have: so that the others always find some.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use accounts::AccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of places.
#[derive(Debug)]
pub struct Shares {
    all: Arc<Semaphore>,
    of_account: usize,
    /// Of accounts that ask for places or have some.
    shares: Mutex<HashMap<AccountId, Weak<Semaphore>>>,
}

/// What one account may have of the places. Clones are the same.
#[derive(Clone, Debug)]
pub struct Share {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// A place that is taken; dropped, it is free.
#[derive(Debug)]
pub struct Taken {
    _place: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

impl Shares {
    /// `all` places, of which one account may have `of_account`.
    #[must_use]
    pub fn new(all: usize, of_account: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            of_account,
            shares: Mutex::default(),
        }
    }

    /// The share of an account.
    #[must_use]
    pub fn of(&self, account: &AccountId) -> Share {
        // Every change is one insert or remove: a panic elsewhere cannot have left the map half-changed.
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shares.get(account).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            shares.retain(|_, share| share.strong_count() > 0);
            let share = Arc::new(Semaphore::new(self.of_account));
            shares.insert(account.clone(), Arc::downgrade(&share));
            share
        });
        Share {
            all: Arc::clone(&self.all),
            own,
        }
    }

    /// The places of all accounts, for one that is kept before it is known whose it will be: see [`Share::give`].
    pub(crate) fn all(&self) -> &Arc<Semaphore> {
        &self.all
    }
}

impl Share {
    /// Waits for a place, in the order in which the account asks. Cancel-safe.
    pub async fn take(&self) -> Taken {
        // The share first: a place is not to be kept from others meanwhile.
        let share = permit(&self.own).await;
        Taken {
            _place: permit(&self.all).await,
            _share: share,
        }
    }

    /// Gives the account a place that was kept for it, if its share allows one more.
    pub(crate) fn give(&self, place: OwnedSemaphorePermit) -> Option<Taken> {
        let share = Arc::clone(&self.own).try_acquire_owned().ok()?;
        Some(Taken {
            _place: place,
            _share: share,
        })
    }
}

async fn permit(of: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let permit = Arc::clone(of).acquire_owned().await;
    permit.expect("nobody ever closes it")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn of(shares: &Shares, account: &str) -> Share {
        shares.of(&account.parse().expect("a valid name"))
    }

    fn take(share: &Share) -> Option<Taken> {
        share.take().now_or_never()
    }

    #[test]
    fn an_account_leaves_places_to_others() {
        let shares = Shares::new(3, 2);
        let (one, other) = (of(&shares, "a"), of(&shares, "b"));
        let (first, second) = (take(&one), take(&one));
        assert!(first.is_some() && second.is_some());
        assert!(take(&of(&shares, "a")).is_none(), "its share is taken");
        let third = take(&other).expect("a place for others");
        assert!(take(&other).is_none(), "all places are taken");
        drop(first);
        assert!(take(&other).is_some());
        drop((second, third));
    }

    #[test]
    fn shares_that_nobody_holds_are_forgotten() {
        let shares = Shares::new(3, 2);
        for account in 0..100 {
            drop(take(&of(&shares, &format!("a{account}"))));
        }
        let known = shares.shares.lock().expect("nobody panicked");
        assert_eq!(known.len(), 1);
    }
}

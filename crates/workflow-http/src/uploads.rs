//! The uploads under way: how many an account may have, and how slowly they may come.
//!
//! An upload takes a place before a byte of it is read, and keeps it to its end: each may hold a temporary file and a MiB of
//! memory. The places of one account are few of all, so an account whose uploads trickle keeps only its own waiting.

use std::time::Duration;

use accounts::AccountId;
use hyper_kit::ReadPace;
use hyper_kit::semaphore::{KeyedLimits, KeyedPermit, KeyedSemaphore, NoUnits};
use tokio::time;

/// Uploads under way: in all as many as memory (a MiB for each) and descriptors (a file for each) allow beside everything
/// else; of one account an eighth of that. More of an account may wait for a place than any client sends at once, and a
/// waiting one costs its connection.
const PLACES: KeyedLimits = KeyedLimits {
    total: 256,
    per_key: 32,
    waiters_per_key: 1024,
};

/// How long an upload waits for a place: clients give an answer no less time.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// When it pays to try again: a place that was not free for so long is not free at once.
const RETRY_AFTER_S: u64 = 5;

/// The pace of an upload: 15 s for a chunk, and 32 KiB/s (a quarter of a megabit) after a minute. What is waited for a sender
/// in all is bounded by a minute and what the size takes at that rate: 9 hours for 1 GiB, 1 min 32 s for 1 MiB.
pub(crate) const UPLOAD_PACE: ReadPace = ReadPace {
    idle: Duration::from_secs(15),
    grace: Duration::from_secs(60),
    min_bytes_per_second: 32 * 1024,
};

/// Places of uploads by account. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Uploads {
    places: KeyedSemaphore<AccountId>,
}

/// The place of one upload, free again when this is dropped.
pub(crate) type UploadPlace = KeyedPermit<AccountId>;

/// No place became free in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyUploads {
    /// The account's own uploads have all that it may have.
    #[error(
        "too many uploads of this account are under way; try again after the seconds in `Retry-After`"
    )]
    OfAccount,
    /// Those of all accounts have everything.
    #[error("too many uploads are under way; try again after the seconds in `Retry-After`")]
    OfAll,
}

impl TooManyUploads {
    /// The seconds of `Retry-After`.
    pub(crate) const RETRY_AFTER_S: u64 = RETRY_AFTER_S;
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            places: KeyedSemaphore::new(PLACES),
        }
    }
}

impl Uploads {
    /// Takes a place, waiting for one at most [`LONGEST_WAIT`].
    pub(crate) async fn begin(&self, account: &AccountId) -> Result<UploadPlace, TooManyUploads> {
        let taken = self.places.acquire(account.clone(), 1);
        match time::timeout(LONGEST_WAIT, taken).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(no_units)) => Err(no_units.into()),
            // Which bound it is decides what helps. A place that is free just now is taken after all.
            Err(_) => Ok(self.places.try_acquire(account.clone(), 1)?),
        }
    }
}

impl From<NoUnits> for TooManyUploads {
    fn from(no_units: NoUnits) -> Self {
        match no_units {
            NoUnits::Key => Self::OfAccount,
            // An upload is one place, which the bounds allow.
            NoUnits::Total | NoUnits::Never => Self::OfAll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> AccountId {
        name.parse().expect("an id")
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_waits_for_its_own_uploads_alone() {
        let uploads = Uploads::default();
        let mut held = Vec::new();
        for _ in 0..PLACES.per_key {
            held.push(uploads.begin(&account("a")).await.expect("a place"));
        }
        let refused = uploads.begin(&account("a")).await.err();
        assert_eq!(refused, Some(TooManyUploads::OfAccount));
        assert!(uploads.begin(&account("b")).await.is_ok());

        let waits = tokio::spawn({
            let uploads = uploads.clone();
            async move { uploads.begin(&account("a")).await.is_ok() }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert!(
            waits.await.expect("no panic"),
            "a place that becomes free is given"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_accounts_together_have_a_bound() {
        let uploads = Uploads::default();
        let mut held = Vec::new();
        for n in 0..PLACES.total {
            let name = format!("a{}", n / PLACES.per_key);
            held.push(uploads.begin(&account(&name)).await.expect("a place"));
        }
        let refused = uploads.begin(&account("b")).await.err();
        assert_eq!(refused, Some(TooManyUploads::OfAll));
        held.clear();
        assert_eq!(uploads.places.used(), 0);
    }
}

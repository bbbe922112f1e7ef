//! What every account store must answer, written once and run on each.

use crate::{AccountId, Accounts, KeyHash, Scopes, Standing, Tier};

/// An account for the suites to store: every scope, a small tier, a running subscription.
///
/// # Panics
/// If `name` is no account id.
#[must_use]
pub fn standing(name: &str) -> Standing {
    Standing {
        account: name
            .parse::<AccountId>()
            .expect("the suites use valid names"),
        scopes: Scopes::all(),
        tier: Tier {
            concurrent_jobs: 2,
            queued_jobs: 10,
            streams: 4,
            upload_bytes: 1 << 20,
        },
        subscribed: true,
    }
}

/// A stored account is found by its id, a stored key by its hash, and nothing else is.
///
/// # Panics
/// If the store breaks the contract.
pub async fn looks_up(accounts: &dyn Accounts, stored: &Standing, key: &str, by_key: &Standing) {
    let found = accounts
        .by_id(&stored.account)
        .await
        .expect("the store answers");
    assert_eq!(found.as_ref(), Some(stored));
    let found = accounts
        .by_key(&KeyHash::of(key))
        .await
        .expect("the store answers");
    assert_eq!(found.as_ref(), Some(by_key));
    let unknown = accounts
        .by_key(&KeyHash::of("no such key"))
        .await
        .expect("the store answers");
    assert_eq!(unknown, None);
    let nobody = "nobody".parse::<AccountId>().expect("a valid name");
    assert_eq!(
        accounts.by_id(&nobody).await.expect("the store answers"),
        None
    );
}

//! The rules of API keys.

use super::{AccountChange, AccountState, AdminError, Ports, account, at, change, id};
use crate::{AccountId, ApiKey, KeyHash, KeyId, MintedKey, Principal, Scopes, Tier};

pub(super) async fn rules(fresh: &impl Fn() -> Ports) {
    a_key_stands_for_its_account_with_its_scopes(&fresh()).await;
    a_key_counts_until_it_expires(&fresh()).await;
    a_revoked_key_does_not_count_any_more(&fresh()).await;
    a_suspended_account_has_no_key_that_counts(&fresh()).await;
    a_key_is_added_once_and_to_an_account(&fresh()).await;
    keys_are_listed_with_their_account_alone(&fresh()).await;
}

/// A key with all scopes, made of one number.
fn key(account: &AccountId, number: u8) -> (ApiKey, KeyHash) {
    let mut random = [number; MintedKey::RANDOM_BYTES];
    random[MintedKey::RANDOM_BYTES - 1] = 0;
    let minted = MintedKey::new(&random);
    let key = ApiKey {
        id: minted.id.clone(),
        account: account.clone(),
        name: account.into(),
        scopes: Scopes::all(),
        created_at: at(i64::from(number)),
        expires_at: None,
        revoked_at: None,
    };
    (key, minted.hash())
}

async fn add(store: &Ports, key: &ApiKey, hash: KeyHash) {
    let added = store.admin.add_key(key.clone(), hash).await;
    added.expect("the key is new and its account there");
}

async fn look(store: &Ports, hash: &KeyHash, seconds: i64) -> Option<Principal> {
    let found = store.accounts.by_key(hash, at(seconds)).await;
    found.expect("the store answers")
}

async fn a_key_stands_for_its_account_with_its_scopes(store: &Ports) {
    let acme = account(store, "acme").await;
    let (key, hash) = key(&acme, 1);
    let reader = ApiKey {
        scopes: "jobs:read assets:read".parse().expect("scopes"),
        ..key
    };
    add(store, &reader, hash).await;
    let expected = Principal {
        key: Some(reader.id),
        scopes: reader.scopes,
        ..Principal::full(acme, Tier::standard())
    };
    assert_eq!(look(store, &hash, 0).await, Some(expected));
    assert_eq!(look(store, &KeyHash::of("another"), 0).await, None);
}

async fn a_key_counts_until_it_expires(store: &Ports) {
    let acme = account(store, "acme").await;
    let (key, hash) = key(&acme, 1);
    let short = ApiKey {
        expires_at: Some(at(10)),
        ..key
    };
    add(store, &short, hash).await;
    assert!(look(store, &hash, 9).await.is_some());
    assert_eq!(look(store, &hash, 10).await, None);
}

async fn a_revoked_key_does_not_count_any_more(store: &Ports) {
    let acme = account(store, "acme").await;
    let ((first, first_hash), (other, other_hash)) = (key(&acme, 1), key(&acme, 2));
    add(store, &first, first_hash).await;
    add(store, &other, other_hash).await;
    let revoked = store.admin.revoke_key(&first.id, at(5)).await;
    let expected = ApiKey {
        revoked_at: Some(at(5)),
        ..first.clone()
    };
    assert_eq!(revoked.expect("the key is there"), expected);
    assert_eq!(look(store, &first_hash, 0).await, None);
    assert!(look(store, &other_hash, 6).await.is_some());
    let again = store.admin.revoke_key(&first.id, at(9)).await;
    assert_eq!(again.expect("the key is there"), expected, "a repeat");
    let nothing: KeyId = "99999999".parse().expect("a key id");
    let refused = store.admin.revoke_key(&nothing, at(9)).await;
    assert!(matches!(refused, Err(AdminError::NoKey)));
}

async fn a_suspended_account_has_no_key_that_counts(store: &Ports) {
    let acme = account(store, "acme").await;
    let (key, hash) = key(&acme, 1);
    add(store, &key, hash).await;
    change(
        store,
        &acme,
        &[AccountChange::State(AccountState::Suspended)],
    )
    .await;
    assert_eq!(look(store, &hash, 0).await, None);
    change(store, &acme, &[AccountChange::State(AccountState::Active)]).await;
    assert!(look(store, &hash, 0).await.is_some());
}

async fn a_key_is_added_once_and_to_an_account(store: &Ports) {
    let (acme, other) = (account(store, "acme").await, account(store, "other").await);
    let ((first, first_hash), (second, second_hash)) = (key(&acme, 1), key(&other, 2));
    add(store, &first, first_hash).await;
    let same_hash = store.admin.add_key(second.clone(), first_hash).await;
    assert!(matches!(same_hash, Err(AdminError::Taken)));
    let id = first.id.clone();
    let same_id = store.admin.add_key(ApiKey { id, ..second }, second_hash);
    assert!(matches!(same_id.await, Err(AdminError::Taken)));
    assert_eq!(look(store, &second_hash, 0).await, None);
    let found = look(store, &first_hash, 0)
        .await
        .expect("the first is there");
    assert_eq!(found.account, acme);

    let (orphan, orphan_hash) = key(&super::id("nobody"), 3);
    let refused = store.admin.add_key(orphan, orphan_hash).await;
    assert!(matches!(refused, Err(AdminError::NoAccount)));
}

async fn keys_are_listed_with_their_account_alone(store: &Ports) {
    let (acme, other) = (account(store, "acme").await, account(store, "other").await);
    let ((first, first_hash), (second, second_hash)) = (key(&acme, 1), key(&acme, 2));
    let (foreign, foreign_hash) = key(&other, 3);
    for (key, hash) in [
        (&second, second_hash),
        (&foreign, foreign_hash),
        (&first, first_hash),
    ] {
        add(store, key, hash).await;
    }
    let revoked = store.admin.revoke_key(&first.id, at(9)).await;
    let revoked = revoked.expect("the key is there");
    let keys = store.admin.keys(&acme).await.expect("the account is there");
    assert_eq!(keys, [revoked, second]);
    let refused = store.admin.keys(&id("nobody")).await;
    assert!(matches!(refused, Err(AdminError::NoAccount)));
}

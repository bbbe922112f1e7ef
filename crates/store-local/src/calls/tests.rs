//! The contract of calls on SQLite, what outlives the process, and files beside rows.

mod claims;
mod exports;
mod kept;
mod log;
mod model;
mod pace;
mod parked;
mod undone;

use std::path::Path;
use std::sync::{Arc, Mutex};

use ::accounts::{Account, AccountAdmin, AccountId, CreditLedger, Fingerprint};
use jiff::SignedDuration;
use router_core::contract::{self, Stores};
use router_core::{Answer, Bucket, CallRetention, ModelId, Outcome, SequentialAdmissions, Usage};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{Clock, Store, StoreOptions};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000).expect("in range") + SignedDuration::from_secs(seconds)
}

/// A store whose clock stands at this many seconds.
fn open(root: &Path, seconds: i64) -> Store {
    let options = StoreOptions {
        clock: Clock::new(move || at(seconds)),
        ..StoreOptions::default()
    };
    Store::open_with(root, options).expect("the store opens")
}

async fn fresh() -> (TempDir, Store) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = open(root.path(), 0);
    let account = Account::new(acme(), (&acme()).into(), at(0));
    store.accounts().create(account).await.expect("a free id");
    (root, store)
}

fn acme() -> AccountId {
    "acme".parse().expect("a valid id")
}

fn id(n: u128) -> GenerationId {
    GenerationId(Uuid::from_u128(n))
}

fn claim(n: u128) -> KeyClaim {
    KeyClaim {
        account: acme(),
        key: KeyDigest([1; 32]),
        fingerprint: Fingerprint([1; 32]),
        generation: id(n),
        expires_at: at(24 * 3600),
        lasts: Duration::from_secs(30),
    }
}

fn generation(n: u128) -> Generation {
    let model: ModelId = "bfl/flux-2".parse().expect("a valid id");
    Generation {
        id: id(n),
        account: acme(),
        model,
        hold_cents: 7,
        received_at: at(0),
        dispatched_at: at(0),
        api_key: None,
        labels: accounts::Labels::NONE,
        serving: None,
    }
}

/// The one owner of what a test dispatches, before a restart and after it.
const OWNER: OwnerId = OwnerId(Uuid::from_u128(1));

fn lease() -> Lease {
    Lease {
        owner: OWNER,
        lasts: Duration::from_secs(30),
    }
}

/// The key of [`claim`].
fn key() -> Option<KeyDigest> {
    Some(claim(0).key)
}

fn answered(body: &'static [u8]) -> Outcome {
    Outcome::Answered(Answer {
        content_type: "application/json".to_owned(),
        body: Bytes::from_static(body),
    })
}

fn ending(body: &'static [u8]) -> Ending {
    Ending::Kept {
        outcome: answered(body),
        charge_cents: 5,
        results: Vec::new(),
    }
}

/// Claims the key, dispatches and settles.
async fn complete(store: &Store, n: u128, body: &'static [u8]) {
    let calls = store.calls();
    let claimed = calls
        .claim(claim(n), at(0))
        .await
        .expect("the store answers");
    assert_eq!(claimed, Claimed::Fresh);
    calls
        .dispatch(generation(n), key(), lease())
        .await
        .expect("the store answers");
    let settled = calls
        .settle((id(n), OWNER), &acme(), ending(body), None, at(1))
        .await;
    assert_eq!(settled.expect("the store answers"), Settled::Now);
}

fn files(root: &Path) -> usize {
    let shelves = std::fs::read_dir(root.join("replays")).expect("the folder");
    shelves
        .map(|accounts| {
            std::fs::read_dir(accounts.expect("an entry").path())
                .expect("a accounts")
                .count()
        })
        .sum()
}

fn faces(store: &Store) -> Stores {
    let (calls, accounts) = (Arc::new(store.calls()), Arc::new(store.accounts()));
    Stores {
        calls: calls.clone(),
        quota: Arc::new(store.quota()),
        admissions: Arc::new(SequentialAdmissions {
            accounts: accounts.clone(),
            quota: store.quota(),
            calls: calls.clone(),
        }),
        retention: calls.clone(),
        usage: calls.clone(),
        queue: calls.clone(),
        kept: calls,
        accounts: accounts.clone(),
        admin: accounts,
    }
}

#[tokio::test]
async fn calls_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::calls(|| {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = open(root.path(), 0);
        roots.lock().expect("no panic").push(root);
        faces(&store)
    })
    .await;
}

#[tokio::test]
async fn what_a_key_answers_outlives_the_process_and_is_billed_once() {
    let (root, store) = fresh().await;
    complete(&store, 1, b"{\"a\": 1.0}").await;
    drop(store);
    let store = open(root.path(), 0);
    let again = store.calls().claim(claim(2), at(60)).await;
    let expected = Claimed::Replay(id(1), answered(b"{\"a\": 1.0}"));
    assert_eq!(again.expect("the store answers"), expected);
    let settled = store
        .calls()
        .settle((id(1), OWNER), &acme(), ending(b"{}"), None, at(61))
        .await;
    assert_eq!(settled.expect("the store answers"), Settled::Before);
    let credits = store.accounts().credits(&acme(), at(0)).await;
    assert_eq!(credits.expect("the store answers").balance_cents, -5);
}

#[tokio::test]
async fn a_claim_that_was_not_dispatched_is_void_at_the_next_start() {
    let (root, store) = fresh().await;
    let claimed = store.calls().claim(claim(1), at(0)).await;
    assert_eq!(claimed.expect("the store answers"), Claimed::Fresh);
    drop(store);
    let store = open(root.path(), 0);
    let claimed = store.calls().claim(claim(2), at(1)).await;
    assert_eq!(claimed.expect("the store answers"), Claimed::Fresh);
}

#[tokio::test]
async fn a_generation_that_is_taken_up_still_keeps_its_result_for_its_key() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    calls
        .claim(claim(1), at(0))
        .await
        .expect("the store answers");
    calls
        .dispatch(generation(1), key(), lease())
        .await
        .expect("the store answers");
    drop((calls, store));
    let store = open(root.path(), 0);
    let calls = store.calls();
    let running = calls
        .claim(claim(2), at(1))
        .await
        .expect("the store answers");
    assert_eq!(running, Claimed::PickUp(id(1)));
    let unfinished = calls.unfinished().await.expect("the store answers");
    assert_eq!(unfinished.len(), 1);
    // The process before is gone, so nothing keeps it from being taken over at once.
    let taken = calls.take_over(lease(), 10, at(1)).await;
    assert_eq!(taken.expect("the store answers"), unfinished);
    calls
        .settle((id(1), OWNER), &acme(), ending(b"{}"), None, at(2))
        .await
        .expect("the store answers");
    let again = calls
        .claim(claim(2), at(3))
        .await
        .expect("the store answers");
    assert_eq!(again, Claimed::Replay(id(1), answered(b"{}")));
}

#[tokio::test]
async fn only_results_with_a_key_have_a_file() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    calls
        .dispatch(generation(1), None, lease())
        .await
        .expect("the store answers");
    calls
        .settle((id(1), OWNER), &acme(), ending(b"{}"), None, at(1))
        .await
        .expect("the store answers");
    assert_eq!(files(root.path()), 0);
    complete(&store, 2, b"{}").await;
    store.calls().bring_in().await.expect("rows");
    assert_eq!(files(root.path()), 1);
}

/// A result too large to share a file.
static LARGE: [u8; replays::MOST_BYTES + 1] = [b' '; replays::MOST_BYTES + 1];

#[tokio::test]
async fn small_results_share_a_file_until_the_last_of_their_keys_expired() {
    let (root, store) = fresh().await;
    complete(&store, 1, b"{\"first\":1}").await;
    let calls = store.calls();
    let other = KeyClaim {
        key: KeyDigest([2; 32]),
        ..claim(2)
    };
    calls.claim(other.clone(), at(0)).await.expect("it is free");
    calls
        .dispatch(generation(2), Some(KeyDigest([2; 32])), lease())
        .await
        .expect("it is written");
    let account = acme();
    let settled = calls.settle((id(2), OWNER), &account, ending(b"[2]"), None, at(1));
    settled.await.expect("it is written");
    store.calls().bring_in().await.expect("rows");
    assert_eq!(files(root.path()), 1);
    drop((calls, store));
    let store = open(root.path(), 0);
    let calls = store.calls();
    let retry = |claim: KeyClaim, generation| KeyClaim {
        generation: id(generation),
        ..claim
    };
    let first = calls.claim(retry(claim(1), 3), at(2)).await;
    let first = first.expect("the store answers");
    assert_eq!(first, Claimed::Replay(id(1), answered(b"{\"first\":1}")));
    let second = calls.claim(retry(other, 3), at(2)).await;
    let second = second.expect("the store answers");
    assert_eq!(second, Claimed::Replay(id(2), answered(b"[2]")));
    let day = 24 * 3600;
    for (seconds, left) in [(day, 1), (day + 2 * 3600, 0)] {
        let gone = calls.expire(at(seconds), at(0), 10).await;
        gone.expect("the store answers");
        assert_eq!(files(root.path()), left);
    }
}

#[tokio::test]
async fn an_expired_key_takes_its_file_with_it() {
    let (root, store) = fresh().await;
    complete(&store, 1, &LARGE).await;
    let day = 24 * 3600;
    // By the clean-up, or by the next call with the key.
    let gone = store.calls().expire(at(day), at(0), 10).await;
    assert_eq!(
        (gone.expect("the store answers"), files(root.path())),
        (1, 0)
    );
    let kept = KeyClaim {
        expires_at: at(2 * day),
        ..claim(2)
    };
    store
        .calls()
        .claim(kept, at(day))
        .await
        .expect("the store answers");
    store
        .calls()
        .dispatch(generation(2), key(), lease())
        .await
        .expect("the store answers");
    store
        .calls()
        .settle((id(2), OWNER), &acme(), ending(&LARGE), None, at(day))
        .await
        .expect("the store answers");
    assert_eq!(files(root.path()), 1);
    let claimed = store.calls().claim(claim(3), at(2 * day)).await;
    assert_eq!(
        (claimed.expect("the store answers"), files(root.path())),
        (Claimed::Fresh, 0)
    );
}

#[tokio::test]
async fn a_file_that_no_row_names_is_found_and_removed_once_it_is_old() {
    let (root, store) = fresh().await;
    complete(&store, 1, b"{}").await;
    store.calls().bring_in().await.expect("rows");
    let lost = id(0x1234);
    let replays = store.calls().replays.clone();
    replays
        .put(lost, Bytes::from_static(b"lost"))
        .await
        .expect("a file");
    assert_eq!(files(root.path()), 2);
    let rounds = async |store: &Store| {
        for _ in 0..256 {
            let gone = store.calls().expire(at(10), at(0), 10).await;
            assert_eq!(gone.expect("the store answers"), 0);
        }
    };
    rounds(&store).await;
    assert_eq!(
        files(root.path()),
        2,
        "it may belong to a row that is being written"
    );
    drop((replays, store));
    let store = open(root.path(), 3600);
    rounds(&store).await;
    assert_eq!(files(root.path()), 1);
    let again = store.calls().claim(claim(2), at(20)).await;
    assert!(matches!(
        again.expect("the store answers"),
        Claimed::Replay(..)
    ));
}

#[tokio::test]
async fn a_result_whose_file_is_gone_is_not_replayable() {
    let (root, store) = fresh().await;
    complete(&store, 1, b"{}").await;
    store.calls().bring_in().await.expect("rows");
    std::fs::remove_dir_all(root.path().join("replays/hours")).expect("they go");
    let again = store.calls().claim(claim(2), at(1)).await;
    assert_eq!(
        again.expect("the store answers"),
        Claimed::NotReplayable(id(1))
    );
}

#[tokio::test]
async fn no_key_is_at_rest_in_the_clear() {
    let (root, store) = fresh().await;
    let key: ::accounts::IdempotencyKey = "a-very-particular-key".parse().expect("a key");
    let claimed = KeyClaim {
        key: KeyDigest(key.digest("router")),
        ..claim(1)
    };
    let (calls, digest) = (store.calls(), Some(claimed.key));
    let claimed = calls.claim(claimed, at(0)).await;
    assert_eq!(claimed.expect("the store answers"), Claimed::Fresh);
    let begun = calls.dispatch(generation(1), digest, lease()).await;
    assert_eq!(begun.expect("the store answers"), Dispatched::Begun);
    drop((calls, store));
    for entry in std::fs::read_dir(root.path()).expect("the directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let bytes = std::fs::read(&path).expect("a file");
            let found = bytes
                .windows(21)
                .any(|part| part == b"a-very-particular-key");
            assert!(!found, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_settled_without_a_bill() {
    let (_root, store) = fresh().await;
    let calls = store.calls();
    calls
        .dispatch(generation(1), None, lease())
        .await
        .expect("the store answers");
    let unknown = Ending::Kept {
        outcome: Outcome::Failed {
            bucket: Bucket::ProviderError,
            message: "the outcome at the partner is unknown".to_owned(),
        },
        charge_cents: 0,
        results: Vec::new(),
    };
    calls
        .settle((id(1), OWNER), &acme(), unknown, None, at(1))
        .await
        .expect("the store answers");
    let entries = store.accounts().entries(&acme(), None, 10).await;
    assert_eq!(entries.expect("the store answers"), []);
}

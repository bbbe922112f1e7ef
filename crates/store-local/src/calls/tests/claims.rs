//! Claims of keys: in memory until they are dispatched, and nothing is left of those that are given back.

use rusqlite::Connection;

use super::*;

fn keys(root: &TempDir) -> u64 {
    let rows = Connection::open(root.path().join("main.db")).expect("the rows open");
    let counted = rows.query_row("SELECT count(*) FROM call_keys", [], |row| {
        row.get::<_, i64>(0)
    });
    counted.expect("it is read").unsigned_abs()
}

#[tokio::test]
async fn a_key_is_in_the_log_from_its_dispatch_on_and_in_the_rows_soon() {
    let (root, store) = fresh().await;
    let (calls, keyed) = (store.calls(), store.calls().under_way.keyed.clone());
    let claimed = calls.claim(claim(1), at(0)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    let begun = calls.dispatch(generation(1), key(), lease()).await;
    assert_eq!(begun.expect("an answer"), Dispatched::Begun);
    let again = calls.claim(claim(2), at(1)).await;
    assert_eq!(again.expect("an answer"), Claimed::PickUp(id(1)));
    calls.bring_in().await.expect("rows");
    assert_eq!(keys(&root), 1);
    let again = calls.claim(claim(2), at(1)).await;
    assert_eq!(again.expect("an answer"), Claimed::PickUp(id(1)));
    let account = acme();
    let settled = calls.settle((id(1), OWNER), &account, ending(b"{}"), None, at(1));
    assert_eq!(settled.await.expect("an answer"), Settled::Now);
    let again = calls.claim(claim(2), at(1)).await;
    let expected = Claimed::Replay(id(1), answered(b"{}"));
    assert_eq!(again.expect("an answer"), expected);
    // The rows tell from now on.
    assert_eq!(keyed.len(), (0, 0));
}

#[tokio::test]
async fn what_a_key_answers_outlives_a_crash_before_it_is_in_any_row() {
    let (root, store) = fresh().await;
    complete(&store, 1, b"{\"a\": 1.0}").await;
    let running = KeyClaim {
        key: KeyDigest([2; 32]),
        ..claim(2)
    };
    let calls = store.calls();
    let claimed = calls.claim(running.clone(), at(0)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    let begun = calls.dispatch(generation(2), Some(running.key), lease());
    assert_eq!(begun.await.expect("an answer"), Dispatched::Begun);
    let crashed = super::log::crash(root.path());
    let copy = tempfile::tempdir().expect("a temporary directory");
    crate::back_up(root.path(), copy.path()).expect("a backup");
    for root in [&crashed, &copy] {
        for _ in 0..2 {
            let store = open(root.path(), 0);
            let again = store.calls().claim(claim(3), at(60)).await;
            let expected = Claimed::Replay(id(1), answered(b"{\"a\": 1.0}"));
            assert_eq!(again.expect("an answer"), expected);
            let retry = KeyClaim {
                generation: id(3),
                ..running.clone()
            };
            let again = store.calls().claim(retry, at(60)).await;
            assert_eq!(again.expect("an answer"), Claimed::PickUp(id(2)));
            let credits = store.accounts().credits(&acme(), at(0)).await;
            assert_eq!(credits.expect("an answer").balance_cents, -5);
        }
    }
}

#[tokio::test]
async fn a_key_is_free_for_another_request_as_soon_as_nothing_ran() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    // Once while the row of the one before is there, and once before it is.
    for n in [1, 2, 3] {
        let claimed = calls.claim(claim(n), at(0)).await;
        assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
        let begun = calls.dispatch(generation(n), key(), lease()).await;
        assert_eq!(begun.expect("an answer"), Dispatched::Begun);
        if n == 1 {
            calls.bring_in().await.expect("rows");
        }
        let ending = Ending::Released(Bucket::ServiceUnavailable);
        let account = acme();
        let settled = calls.settle((id(n), OWNER), &account, ending, None, at(1));
        assert_eq!(settled.await.expect("an answer"), Settled::Now);
    }
    calls.bring_in().await.expect("rows");
    assert_eq!(keys(&root), 0);
}

#[tokio::test]
async fn a_key_that_expired_gives_its_row_to_the_next_one() {
    let (root, store) = fresh().await;
    complete(&store, 1, b"1").await;
    let calls = store.calls();
    calls.bring_in().await.expect("rows");
    let late = 24 * 3600;
    let next = KeyClaim {
        expires_at: at(2 * late),
        ..claim(2)
    };
    let claimed = calls.claim(next, at(late)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    let begun = calls.dispatch(generation(2), key(), lease()).await;
    assert_eq!(begun.expect("an answer"), Dispatched::Begun);
    calls.bring_in().await.expect("rows");
    assert_eq!(keys(&root), 1);
    let again = calls.claim(claim(3), at(late + 1)).await;
    assert_eq!(again.expect("an answer"), Claimed::PickUp(id(2)));
}

#[tokio::test]
async fn what_is_given_back_or_expires_leaves_nothing_in_memory() {
    let (_root, store) = fresh().await;
    let (calls, keyed) = (store.calls(), store.calls().under_way.keyed.clone());
    let claimed = calls.claim(claim(1), at(0)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    assert_eq!(keyed.len(), (1, 1));
    let ending = Ending::Released(Bucket::ConcurrencyLimitExceeded);
    let settled = calls
        .settle((id(1), OWNER), &acme(), ending, None, at(1))
        .await;
    assert_eq!(settled.expect("an answer"), Settled::Before);
    assert_eq!(keyed.len(), (0, 0));
    // One that nobody gives back goes with its key, and not before another took it.
    for n in [2, 3] {
        let claimed = calls.claim(claim(n), at(31 * i64::try_from(n).expect("few")));
        assert_eq!(claimed.await.expect("an answer"), Claimed::Fresh);
        assert_eq!(keyed.len(), (1, 1));
    }
    let late = at(24 * 3600);
    assert_eq!(calls.expire(late, at(0), 10).await.expect("an answer"), 1);
    assert_eq!(keyed.len(), (0, 0));
    // What was dispatched is under way as long as it runs.
    let claimed = calls.claim(claim(4), at(0)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    let begun = calls.dispatch(generation(4), key(), lease()).await;
    assert_eq!(begun.expect("an answer"), Dispatched::Begun);
    assert_eq!(keyed.len(), (1, 1));
    assert_eq!(calls.expire(late, at(0), 10).await.expect("an answer"), 0);
    assert_eq!(keyed.len(), (1, 1));
}

#[tokio::test]
async fn a_claim_that_is_undone_leaves_the_key_free() {
    let (_root, store) = fresh().await;
    let (calls, keyed) = (store.calls(), store.calls().under_way.keyed.clone());
    let claiming = keyed.clone();
    let undone: Result<(), _> = calls
        .write(None, Durability::Lazy, move |rows| {
            let claimed = key_rows::claim(rows, &claiming, &claim(1), at(0))?;
            assert!(
                matches!(claimed, key_rows::Claim::Fresh { .. }),
                "{claimed:?}"
            );
            let claimed = key_rows::claim(rows, &claiming, &claim(2), at(0))?;
            assert!(matches!(claimed, key_rows::Claim::InFlight), "{claimed:?}");
            Err(rusqlite::Error::InvalidQuery)
        })
        .await;
    assert!(undone.is_err());
    assert_eq!(keyed.len(), (0, 0));
    let claimed = calls.claim(claim(3), at(1)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
}

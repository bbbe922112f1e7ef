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
async fn a_key_has_its_row_from_its_dispatch_on() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    let claimed = calls.claim(claim(1), at(0)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    assert_eq!(keys(&root), 0);
    let begun = calls.dispatch(generation(1), key(), lease()).await;
    assert_eq!(begun.expect("an answer"), Dispatched::Begun);
    assert_eq!(keys(&root), 1);
    let again = calls.claim(claim(2), at(1)).await;
    assert_eq!(again.expect("an answer"), Claimed::PickUp(id(1)));
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
    assert_eq!(keyed.len(), (1, 0));
    assert_eq!(calls.expire(late, at(0), 10).await.expect("an answer"), 0);
    assert_eq!(keyed.len(), (1, 0));
}

#[tokio::test]
async fn a_claim_that_is_undone_leaves_the_key_free() {
    let (_root, store) = fresh().await;
    let (calls, keyed) = (store.calls(), store.calls().under_way.keyed.clone());
    let claiming = keyed.clone();
    let undone: Result<(), _> = calls
        .write(None, Durability::Lazy, move |rows| {
            let claimed = rows::claim(rows, &claiming, &claim(1), at(0))?;
            assert!(matches!(claimed, rows::Claim::Fresh { .. }), "{claimed:?}");
            let claimed = rows::claim(rows, &claiming, &claim(2), at(0))?;
            assert!(matches!(claimed, rows::Claim::InFlight), "{claimed:?}");
            Err(rusqlite::Error::InvalidQuery)
        })
        .await;
    assert!(undone.is_err());
    assert_eq!(keyed.len(), (0, 0));
    let claimed = calls.claim(claim(3), at(1)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
}

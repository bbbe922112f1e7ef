//! Transactions and operations that are undone, or of which a part fails: the log has what they brought into no row.

use rusqlite::Connection;

use super::log::count;
use super::*;

async fn balance(store: &Store) -> i64 {
    let credits = store.accounts().credits(&acme(), at(0)).await;
    credits.expect("an answer").balance_cents
}

#[tokio::test]
async fn a_submission_that_is_refused_takes_no_end_of_another_call_with_it() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    let rows = Connection::open(root.path().join("main.db")).expect("the file");
    let broken =
        "CREATE TRIGGER broken BEFORE INSERT ON queued_calls BEGIN SELECT RAISE(ABORT, 'no'); END";
    rows.execute(broken, []).expect("a trigger");
    complete(&store, 1, b"{}").await;
    let call = router_core::QueuedCall {
        id: id(2),
        account: acme(),
        model: generation(2).model,
        query: String::new(),
        labels: accounts::Labels::NONE,
        api_key: None,
        key: claim(2).key,
        received_at: at(0),
        expires_at: at(48 * 3600),
        body: Bytes::from_static(b"{}"),
    };
    let bounds = router_core::QueueBounds {
        of_account: 10,
        of_all: 10,
    };
    // The key of the call before has expired, which its end in the log tells.
    let now = at(25 * 3600);
    let queue: &dyn router_core::CallQueue = &calls;
    let refused = queue.enqueue(call, claim(2).fingerprint, bounds, now);
    refused.await.expect_err("the rows refuse");
    calls.bring_in().await.expect("rows");
    assert_eq!(balance(&store).await, -5);
    assert_eq!(count(&rows, "generations"), 1);
}

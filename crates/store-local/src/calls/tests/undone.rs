//! Transactions and operations that are undone, or of which a part fails: the log has what they brought into no row.

use rusqlite::Connection;

use super::log::{apart, begin, count, end, known};
use super::*;
use crate::calls::event::{KeyColumns, Raw, ReplayBody};
use crate::database::{Occasion, Participant};

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

/// Notes that a generation with a key ends with these bytes.
pub(super) fn end_with_key(log: &CallLog, n: u128, body: &[u8]) {
    let (account, ending) = (acme(), ending(b"{}"));
    let ended = Ended::of((id(n), &account), &ending, Replay::Shared, None, at(1));
    let replay = ReplayBody {
        body: Raw(body),
        expires_at: at(3600).as_microsecond(),
    };
    let ended = log.end(id(n), &account, &Event::KeyedEnded(ended, replay));
    assert_eq!(ended.expect("it can be written"), Some(Settled::Now));
}

#[test]
fn an_end_is_not_lost_where_the_row_is_there_before_its_beginning() {
    let (_root, rows, log) = apart();
    begin(&log, 1);
    let key = claim(2);
    let key = KeyColumns {
        key: Raw(&key.key.0),
        fingerprint: Raw(&key.fingerprint.0),
        expires_at: key.expires_at.as_microsecond(),
    };
    let begun = log.begin(&generation(2), Some(key));
    begun.expect("there is room");
    log.flush(&rows, Flush::All).expect("rows");
    // The rows stay.
    log.rolled_back();
    assert_eq!(known(&rows), (2, 0));
    assert_eq!(end(&log, 1), Some(Settled::Now));
    end_with_key(&log, 2, b"{}");
    log.flush(&rows, Flush::All).expect("rows");
    log.committed(Durability::Now);
    assert_eq!(known(&rows), (2, 2));
    let kept = rows.query_row(
        "SELECT count(*) FROM generations WHERE replay_length = 2",
        [],
        |row| row.get::<_, i64>(0),
    );
    assert_eq!(kept.expect("a count"), 1);
}

#[test]
fn a_transaction_with_a_part_of_what_it_took_is_not_committed() {
    let (_root, rows, log) = apart();
    let broken = "CREATE TRIGGER broken BEFORE INSERT ON generations WHEN hex(NEW.id) LIKE '%2'
         BEGIN SELECT RAISE(ABORT, 'no'); END";
    rows.execute(broken, []).expect("a trigger");
    rows.execute("BEGIN", []).expect("a transaction");
    begin(&log, 1);
    log.flush(&rows, Flush::All).expect("rows");
    log.write(&rows, Occasion::Group).expect("it is whole");
    begin(&log, 2);
    log.flush(&rows, Flush::All).expect_err("the rows refuse");
    log.write(&rows, Occasion::Group)
        .expect_err("a part is there");
    log.flush(&rows, Flush::All).expect_err("and stays a part");
    rows.execute("ROLLBACK", []).expect("it is undone");
    log.rolled_back();
    rows.execute("DROP TRIGGER broken", []).expect("it goes");
    assert_eq!(known(&rows), (0, 0));
    assert_eq!(end(&log, 1), Some(Settled::Now));
    log.flush(&rows, Flush::All).expect("rows");
    log.committed(Durability::Now);
    assert_eq!(known(&rows), (2, 1));
    assert!(!log.is_ahead());
}

#[test]
fn a_doubt_about_an_end_goes_with_its_key() {
    let keyed = Keyed::default();
    keyed.doubt(id(1), at(10));
    keyed.expire(at(9), 1);
    assert_eq!(keyed.take_doubt(id(1)), Some(at(10)));
    keyed.doubt(id(1), at(10));
    keyed.expire(at(10), 1);
    assert_eq!(keyed.take_doubt(id(1)), None);
}

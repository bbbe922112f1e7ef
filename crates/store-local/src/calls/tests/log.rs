//! What goes through the log: it outlives the process before it is in any row, and comes into the rows once.

use std::time::Instant;

use ::accounts::LedgerEntry;
use router_core::{CallRecord, RequestId, Usage, UsageQuery};

use super::*;

fn record(n: u128) -> CallRecord {
    CallRecord {
        request: RequestId(Uuid::from_u128(n)),
        account: acme(),
        model: None,
        key: None,
        generation: Some(id(n)),
        bucket: None,
        replayed: false,
        received_at: at(0),
        answered_at: at(1),
        delivered: true,
    }
}

async fn dispatch(calls: &SqliteCalls, n: u128) {
    let dispatched = calls.dispatch(generation(n)).await;
    dispatched.expect("the store answers");
}

async fn settle(calls: &SqliteCalls, n: u128) -> Settled {
    let account = acme();
    let settled = calls.settle(id(n), &account, ending(b"{}"), None, at(1));
    settled.await.expect("the store answers")
}

async fn bills(store: &Store) -> Vec<LedgerEntry> {
    let entries = store.accounts().entries(&acme(), None, 100).await;
    entries.expect("the store answers")
}

/// What the disk has at this moment, as after a crash.
pub(super) fn crash(root: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary directory");
    for name in ["main.db", "main.db-wal"] {
        std::fs::copy(root.join(name), copy.path().join(name)).expect("a file");
    }
    for shelf in std::fs::read_dir(root.join("replays")).expect("the folder") {
        let shelf = shelf.expect("an entry").path();
        let place = copy
            .path()
            .join(shelf.strip_prefix(root).expect("it is below"));
        std::fs::create_dir_all(&place).expect("a folder");
        for file in std::fs::read_dir(&shelf).expect("a shelf") {
            let file = file.expect("an entry");
            std::fs::copy(file.path(), place.join(file.file_name())).expect("a file");
        }
    }
    copy
}

#[tokio::test]
async fn after_a_crash_everything_that_was_answered_is_in_the_rows() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    dispatch(&calls, 1).await;
    dispatch(&calls, 2).await;
    let handle = Handle(Bytes::from_static(b"task"));
    let second = Duration::from_secs(1);
    let accepted = calls.accepted(id(2), &handle, second, Some("task"), at(1));
    accepted.await.expect("the store answers");
    dispatch(&calls, 3).await;
    assert_eq!(settle(&calls, 1).await, Settled::Now);
    let crashed = crash(root.path());

    let store = open(crashed.path(), 0);
    let calls = store.calls();
    let unfinished = calls.unfinished().await.expect("the store answers");
    let running: Vec<_> = unfinished
        .iter()
        .map(|one| (one.generation.id, one.accepted.clone()))
        .collect();
    assert_eq!(running, [(id(2), Some((handle, second))), (id(3), None)]);
    let credits = store.accounts().credits(&acme()).await;
    assert_eq!(credits.expect("the store answers").balance_cents, -5);
    assert_eq!(bills(&store).await.len(), 1);
    assert_eq!(settle(&calls, 1).await, Settled::Before);
    assert_eq!(settle(&calls, 2).await, Settled::Now);
    assert_eq!(bills(&store).await.len(), 2);
}

#[tokio::test]
async fn the_rows_are_brought_up_to_date_by_themselves_piece_by_piece() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    let beside = SqliteUsage::open(root.path()).expect("nothing is taken");
    for n in 1..=300 {
        dispatch(&calls, n).await;
        settle(&calls, n).await;
        calls.record(record(n));
    }
    let query = UsageQuery::default();
    let told = loop {
        let page = beside.page(&query, None, 1_000).await;
        let page = page.expect("the rows are read");
        if page.len() == 300 {
            break page;
        }
        tokio::task::yield_now().await;
    };
    for row in told {
        let generation = row.generation.expect("it was dispatched");
        assert_eq!(generation.charge_cents, Some(5));
    }
    assert_eq!(bills(&store).await.len(), 100, "as many as asked for");
    let credits = store.accounts().credits(&acme()).await;
    assert_eq!(credits.expect("the store answers").balance_cents, -1_500);
}

/// A database without a store over it, and a log.
fn apart() -> (TempDir, Connection, CallLog) {
    let root = tempfile::tempdir().expect("a temporary directory");
    drop(open(root.path(), 0));
    let rows = Connection::open(root.path().join("main.db")).expect("the file");
    (root, rows, CallLog::default())
}

fn begin(log: &CallLog, n: u128) {
    let generation = generation(n);
    log.begin(id(n), &acme(), &Event::Begun(Begun::of(&generation)));
}

fn end(log: &CallLog, n: u128) {
    let (account, ending) = (acme(), ending(b"{}"));
    let ended = Ended::of((id(n), &account), &ending, Replay::NotKept, None, at(1));
    log.end(id(n), &Event::Ended(ended));
}

/// How many generations are in the rows, and how many of them have ended.
fn known(rows: &Connection) -> (i64, i64) {
    let counted = rows.query_row(
        "SELECT count(*), count(settled_at) FROM generations",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    );
    counted.expect("a count")
}

#[test]
fn what_has_not_ended_waits_for_its_end_where_many_calls_are() {
    let (_root, rows, log) = apart();
    (1..=700).for_each(|n| begin(&log, n));
    (101..=700).for_each(|n| end(&log, n));
    log.write(&rows).expect("a row");
    log.committed();
    log.fold(&rows, Fold::Due).expect("rows");
    log.committed();
    assert_eq!(known(&rows), (600, 600));
    assert!(log.is_ahead(), "a hundred wait");
    (1..=50).for_each(|n| end(&log, n));
    log.fold(&rows, Fold::All).expect("rows");
    log.committed();
    assert_eq!(known(&rows), (700, 650));
    assert!(!log.is_ahead());
    (51..=100).for_each(|n| end(&log, n));
    log.fold(&rows, Fold::All).expect("rows");
    log.committed();
    assert_eq!(known(&rows), (700, 700));
}

#[test]
fn a_transaction_that_is_undone_leaves_the_log_as_it_was() {
    let (_root, rows, log) = apart();
    begin(&log, 1);
    log.write(&rows).expect("a row");
    log.committed();
    let undone = |change: &dyn Fn()| {
        rows.execute("BEGIN", []).expect("a transaction");
        change();
        log.fold(&rows, Fold::All).expect("rows");
        rows.execute("ROLLBACK", []).expect("it is undone");
        log.rolled_back();
    };
    assert!(log.hand_in(record(1)));
    undone(&|| end(&log, 1));
    assert_eq!(log.whose(id(1)), Some(acme()), "it runs still");
    undone(&|| begin(&log, 2));
    assert_eq!(log.whose(id(2)), None);
    assert_eq!(known(&rows), (0, 0));
    end(&log, 1);
    log.fold(&rows, Fold::All).expect("rows");
    log.committed();
    assert_eq!(known(&rows), (1, 1));
    let calls: i64 = rows
        .query_row("SELECT count(*) FROM calls", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(calls, 1, "what was handed in is not lost");
}

#[test]
fn what_failed_is_not_tried_again_at_once_whatever_is_committed_meanwhile() {
    let (_root, rows, log) = apart();
    begin(&log, 1);
    log.write(&rows).expect("a row");
    log.committed();
    let failed = Instant::now();
    log.rolled_back();
    (2..2_000).for_each(|n| begin(&log, n));
    log.write(&rows).expect("a row");
    log.committed();
    let due = log.due().expect("something is there");
    assert!(due >= failed + crate::calls::log::RETRY_AFTER);
}

#[test]
fn so_many_records_wait_for_a_disk_that_takes_none_and_no_more() {
    let (_root, rows, log) = apart();
    for n in 0..crate::calls::log::MOST_RECORDS + 3 {
        log.hand_in(record(n as u128));
    }
    log.write(&rows).expect("a row");
    let entries: Vec<u8> = rows
        .query_row("SELECT entries FROM call_log", [], |row| row.get(0))
        .expect("a row");
    let written = event::read(&entries).map(|event| event.map(|_| ()));
    let written: Vec<()> = written.collect::<Result<_, _>>().expect("entries");
    assert_eq!(written.len(), crate::calls::log::MOST_RECORDS);
}

#[test]
fn a_log_that_cannot_be_read_is_an_error_and_stays() {
    let (_root, rows, _log) = apart();
    rows.execute("INSERT INTO call_log (entries) VALUES (x'ff00')", [])
        .expect("a row");
    CallLog::take_up(&rows).expect_err("it is no entry");
    let left: i64 = rows
        .query_row("SELECT count(*) FROM call_log", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(left, 1);
}

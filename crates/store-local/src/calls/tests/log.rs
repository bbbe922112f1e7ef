//! What goes through the log: it outlives the process before it is in any row, and comes into the rows once.

use ::accounts::LedgerEntry;
use futures_util::future::join_all;
use router_core::{CallRecord, RequestId, UsageQuery};

use super::*;
use crate::database::Participant;
use crate::directory::Directory;
use crate::health::Health;
use crate::reserve::Reserve;
use crate::webhooks::Hooks;

pub(super) fn record(n: u128) -> CallRecord {
    CallRecord {
        request: RequestId(Uuid::from_u128(n)),
        account: acme(),
        model: None,
        key: None,
        generation: Some(id(n)),
        api_key: None,
        labels: accounts::Labels::NONE,
        bucket: None,
        replayed: false,
        received_at: at(0),
        answered_at: at(1),
        delivered: true,
    }
}

async fn dispatch(calls: &SqliteCalls, n: u128) {
    let dispatched = calls.dispatch(generation(n), None, lease()).await;
    assert_eq!(dispatched.expect("the store answers"), Dispatched::Begun);
}

async fn settle(calls: &SqliteCalls, n: u128) -> Settled {
    let account = acme();
    let settled = calls.settle((id(n), OWNER), &account, ending(b"{}"), None, at(1));
    settled.await.expect("the store answers")
}

async fn bills(store: &Store) -> Vec<LedgerEntry> {
    let entries = store.accounts().entries(&acme(), None, 100).await;
    entries.expect("the store answers")
}

/// What the disk has at this moment, as after a crash.
pub(super) fn crash(root: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary directory");
    for name in ["main.db", "main.db-wal", "calls-0.log", "calls-1.log"] {
        std::fs::copy(root.join(name), copy.path().join(name)).expect("a file");
    }
    for accounts in std::fs::read_dir(root.join("replays")).expect("the folder") {
        let accounts = accounts.expect("an entry").path();
        let place = copy
            .path()
            .join(accounts.strip_prefix(root).expect("it is below"));
        std::fs::create_dir_all(&place).expect("a folder");
        for file in std::fs::read_dir(&accounts).expect("a accounts") {
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
    let accepted = calls.accepted((id(2), OWNER), &handle, second, Some("task"), at(1));
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
    let accepted = router_core::Acceptance {
        handle,
        poll_after: second,
        at: at(1),
    };
    assert_eq!(running, [(id(2), Some(accepted)), (id(3), None)]);
    let taken = calls.take_over(lease(), 10, at(1)).await;
    assert_eq!(taken.expect("the store answers"), unfinished);
    let credits = store.accounts().credits(&acme(), at(0)).await;
    assert_eq!(credits.expect("the store answers").balance_cents, -5);
    assert_eq!(bills(&store).await.len(), 1);
    assert_eq!(settle(&calls, 1).await, Settled::Before);
    assert_eq!(settle(&calls, 2).await, Settled::Now);
    assert_eq!(bills(&store).await.len(), 2);
}

#[tokio::test]
async fn the_rows_are_brought_up_to_date_by_themselves() {
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
    let credits = store.accounts().credits(&acme(), at(0)).await;
    assert_eq!(credits.expect("the store answers").balance_cents, -1_500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_that_begin_at_once_are_all_on_the_disk() {
    let (root, store) = fresh().await;
    let rounds = (0..8).map(|round| {
        let calls = store.calls();
        tokio::spawn(async move {
            for n in 0..50 {
                let n = round * 100 + n;
                dispatch(&calls, n).await;
                assert_eq!(settle(&calls, n).await, Settled::Now);
                assert_eq!(settle(&calls, n).await, Settled::Before);
            }
        })
    });
    for round in join_all(rounds).await {
        round.expect("no panic");
    }
    let crashed = crash(root.path());
    for root in [root.path(), crashed.path()] {
        let store = match root == crashed.path() {
            true => open(root, 0),
            false => store.clone(),
        };
        let calls = store.calls();
        let query = UsageQuery::default();
        let totals = calls.totals(&query, router_core::Breakdown::default());
        let totals = totals.await;
        totals.expect("the rows are read");
        let unfinished = store.calls().unfinished().await.expect("an answer");
        assert_eq!(unfinished, []);
        let credits = store.accounts().credits(&acme(), at(0)).await;
        let balance = credits.expect("an answer").balance_cents;
        assert_eq!(balance, -5 * 8 * 50);
    }
}

#[tokio::test]
async fn a_record_is_in_the_file_soon_and_by_itself() {
    let (root, store) = fresh().await;
    // The writing thread is kept from the rows, where it would go as well.
    let rows = Connection::open(root.path().join("main.db")).expect("the file");
    rows.execute_batch("BEGIN IMMEDIATE").expect("the database");
    store.calls().record(record(7));
    let request = Uuid::from_u128(7);
    while !std::fs::read(root.path().join("calls-0.log"))
        .expect("a file")
        .windows(16)
        .any(|bytes| bytes == request.as_bytes())
    {
        tokio::task::yield_now().await;
    }
    rows.execute_batch("ROLLBACK").expect("the database");
}

#[tokio::test]
async fn another_account_ends_nothing() {
    let (_root, store) = fresh().await;
    let calls = store.calls();
    dispatch(&calls, 1).await;
    let other = "other".parse().expect("a valid name");
    let settled = calls.settle((id(1), OWNER), &other, ending(b"{}"), None, at(1));
    assert_eq!(settled.await.expect("an answer"), Settled::Before);
    assert_eq!(settle(&calls, 1).await, Settled::Now);
}

#[tokio::test]
async fn a_backup_has_what_is_in_the_log() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    dispatch(&calls, 1).await;
    dispatch(&calls, 2).await;
    assert_eq!(settle(&calls, 1).await, Settled::Now);
    let copy = tempfile::tempdir().expect("a temporary directory");
    crate::back_up(root.path(), copy.path()).expect("a backup");
    dispatch(&calls, 3).await;
    for _ in 0..2 {
        // The second time there is a log beside it that knows nothing.
        let store = open(copy.path(), 0);
        let unfinished = store.calls().unfinished().await.expect("an answer");
        let ids: Vec<_> = unfinished.iter().map(|one| one.generation.id).collect();
        assert_eq!(ids, [id(2)]);
        assert_eq!(bills(&store).await.len(), 1);
    }
}

/// A database without a store over it, and a log.
pub(super) fn apart() -> (TempDir, Connection, CallLog) {
    let root = tempfile::tempdir().expect("a temporary directory");
    drop(open(root.path(), 0));
    let rows = Connection::open(root.path().join("main.db")).expect("the file");
    let log = log_of(root.path(), &rows);
    (root, rows, log)
}

/// The log of a directory whose database this is.
pub(super) fn log_of(root: &Path, rows: &Connection) -> CallLog {
    let log = unread(root);
    log.recover(rows, root).expect("rows");
    log
}

fn unread(root: &Path) -> CallLog {
    let directory = Arc::new(Directory::take(root).expect("nobody has it"));
    let reserve = Reserve::open(&directory, installation::ReserveOptions::NONE);
    let health = Health::default();
    let replays = Replays::new(directory, health.clone(), Clock::new(|| at(0)));
    let keyed = Keyed::default();
    let beside = (replays, keyed);
    CallLog::open(root, (health, reserve), Hooks::default(), beside).expect("a disk")
}

pub(super) fn begin(log: &CallLog, n: u128) {
    let begun = log.begin(&generation(n), None);
    begun.expect("there is room");
}

pub(super) fn end(log: &CallLog, n: u128) -> Option<Settled> {
    let (account, ending) = (acme(), ending(b"{}"));
    let ended = Ended::of((id(n), &account), &ending, Replay::NotKept, None, at(1));
    let ended = log.end(id(n), &account, &Event::Ended(ended));
    ended.expect("it can be written")
}

pub(super) fn flush(log: &CallLog, rows: &Connection, what: Flush) {
    log.flush(rows, what).expect("rows");
    log.committed(Durability::Now);
}

/// How many generations are in the rows, and how many of them have ended.
pub(super) fn known(rows: &Connection) -> (i64, i64) {
    let counted = rows.query_row(
        "SELECT count(*), count(settled_at) FROM generations",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    );
    counted.expect("a count")
}

pub(super) fn count(rows: &Connection, table: &str) -> i64 {
    let counted = rows.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
        row.get(0)
    });
    counted.expect("a count")
}

#[test]
fn what_has_not_ended_waits_for_its_end_where_few_calls_run() {
    let (root, rows, log) = apart();
    (1..=700).for_each(|n| {
        begin(&log, n);
    });
    (101..=700).for_each(|n| {
        end(&log, n);
    });
    flush(&log, &rows, Flush::Due);
    assert_eq!(known(&rows), (600, 600));
    assert!(log.is_ahead(), "a hundred wait");
    (1..=50).for_each(|n| {
        end(&log, n);
    });
    drop(log);
    // The next process finds them, and their ends.
    let log = log_of(root.path(), &rows);
    assert_eq!(known(&rows), (700, 650));
    assert!(!log.is_ahead());
    assert_eq!(end(&log, 51), None, "its row tells");

    (1_001..=1_700).for_each(|n| {
        begin(&log, n);
    });
    flush(&log, &rows, Flush::Due);
    assert_eq!(known(&rows), (1_400, 650), "so many do not wait");
    assert!(!log.is_ahead());
    (1_001..=1_700).for_each(|n| assert_eq!(end(&log, n), Some(Settled::Now)));
    flush(&log, &rows, Flush::All);
    assert_eq!(known(&rows), (1_400, 1_350));
}

#[test]
fn a_transaction_that_is_undone_leaves_the_log_as_it_was() {
    let (_root, rows, log) = apart();
    let undone = |change: &dyn Fn()| {
        rows.execute("BEGIN", []).expect("a transaction");
        for _ in 0..2 {
            change();
            log.flush(&rows, Flush::All).expect("rows");
        }
        rows.execute("ROLLBACK", []).expect("it is undone");
        log.rolled_back();
    };
    log.record(&record(1));
    undone(&|| {
        begin(&log, 1);
    });
    undone(&|| {
        end(&log, 1);
    });
    assert_eq!(end(&log, 1), None, "once is enough");
    assert_eq!(known(&rows), (0, 0));
    assert!(log.is_ahead());
    flush(&log, &rows, Flush::All);
    assert_eq!(known(&rows), (1, 1));
    assert_eq!(count(&rows, "calls"), 1);
    assert!(!log.is_ahead());
}

#[test]
fn rows_that_cannot_be_written_leave_the_log_as_it_was() {
    let (root, rows, log) = apart();
    begin(&log, 1);
    assert_eq!(end(&log, 1), Some(Settled::Now));
    let broken =
        "CREATE TRIGGER broken BEFORE INSERT ON generations BEGIN SELECT RAISE(ABORT, 'no'); END";
    rows.execute(broken, []).expect("a trigger");
    log.flush(&rows, Flush::All).expect_err("the rows refuse");
    log.rolled_back();
    assert!(log.is_ahead());
    rows.execute("DROP TRIGGER broken", []).expect("it goes");
    drop(log);
    log_of(root.path(), &rows);
    assert_eq!(known(&rows), (1, 1));
}

#[test]
fn files_are_used_in_turns_and_nothing_is_lost_between_them() {
    let (root, rows, log) = apart();
    // Each is some hundred bytes, and a file is left after half a megabyte.
    let mut n = 0;
    for round in 1..=30 {
        for _ in 0..500 {
            n += 1;
            begin(&log, n);
            assert_eq!(end(&log, n), Some(Settled::Now));
        }
        if round % 5 == 0 {
            rows.execute("BEGIN", []).expect("a transaction");
            log.flush(&rows, Flush::All).expect("rows");
            rows.execute("ROLLBACK", []).expect("it is undone");
            log.rolled_back();
        } else {
            flush(&log, &rows, Flush::Due);
        }
    }
    let of_files = ["calls-0.log", "calls-1.log"].map(|name| {
        let file = std::fs::read(root.path().join(name)).expect("a file");
        (file.len(), file[..8].try_into().map(u64::from_le_bytes))
    });
    let [(_, Ok(first)), (_, Ok(second))] = of_files else {
        panic!("files have heads");
    };
    assert!(first.abs_diff(second) == 1 && first > 3, "{of_files:?}");
    assert!(of_files.iter().all(|(length, _)| *length <= 2 << 20));
    drop(log);
    log_of(root.path(), &rows);
    let all = i64::try_from(n).expect("few");
    assert_eq!(known(&rows), (all, all));
}

#[test]
fn nothing_is_written_over_before_the_rows_are_on_the_disk() {
    let (root, rows, log) = apart();
    let epoch = |name: &str| {
        let file = std::fs::read(root.path().join(name)).expect("a file");
        u64::from_le_bytes(file[..8].try_into().expect("a head"))
    };
    let turns = |durability, calls: std::ops::Range<u128>| {
        for n in calls {
            begin(&log, n);
            assert_eq!(end(&log, n), Some(Settled::Now));
            if n % 1_000 == 0 {
                log.flush(&rows, Flush::All).expect("rows");
                log.committed(durability);
            }
        }
        ["calls-0.log", "calls-1.log"].map(epoch)
    };
    // The other file was free, and is the last that may be begun.
    let [first, second] = turns(Durability::Lazy, 1..20_000);
    assert_eq!(second, first + 1);
    assert_eq!(turns(Durability::Lazy, 20_000..40_000), [first, second]);
    assert!(
        turns(Durability::Now, 40_000..60_000)
            .iter()
            .all(|epoch| *epoch > second)
    );
}

#[test]
fn a_log_that_cannot_be_read_is_an_error_and_stays() {
    let (root, rows, log) = apart();
    drop(log);
    rows.execute("INSERT INTO call_log (entries) VALUES (x'ff00')", [])
        .expect("a row");
    let log = unread(root.path());
    let refused = log.recover(&rows, root.path());
    refused.expect_err("it is no entry");
    assert_eq!(count(&rows, "call_log"), 1);
}

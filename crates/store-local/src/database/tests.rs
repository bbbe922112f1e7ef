//! The writing thread: batches, savepoints, laziness, poison and migrations.

mod opening;
mod participants;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use installation::ReserveOptions;
use rusqlite::StatementStatus;
use tempfile::TempDir;
use tokio::task::unconstrained;

use super::*;
use crate::schema::SCHEMA;

fn directory() -> (TempDir, Arc<Directory>) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let directory = Directory::take(root.path()).expect("the directory is free");
    (root, Arc::new(directory))
}

fn open(directory: Arc<Directory>) -> Result<Database, OpenError> {
    let reserve = Reserve::open(&directory, ReserveOptions::NONE);
    let health = Health::default();
    let nobody = Participants::from([]);
    let opened = Database::open(directory, (health, reserve), SCHEMA, nobody, |_| Ok(()))?;
    Ok(opened.0)
}

/// A database with one table of numbers.
async fn database() -> (TempDir, Database) {
    let (root, directory) = directory();
    let database = open(directory).expect("a fresh database");
    let created = database.write(Durability::Now, |rows| {
        rows.execute_batch("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
    });
    created.await.expect("a table");
    (root, database)
}

fn put(rows: &Connection, number: i64) -> rusqlite::Result<()> {
    rows.execute("INSERT INTO numbers VALUES (?1)", [number])?;
    Ok(())
}

async fn numbers(database: &Database) -> Vec<i64> {
    let numbers = database.read(|rows| {
        let mut statement = rows.prepare("SELECT n FROM numbers ORDER BY n")?;
        statement.query_map([], |row| row.get(0))?.collect()
    });
    numbers.await.expect("the numbers")
}

/// Lets the writing thread stand still until the answer is dropped, so that what is sent meanwhile shares one commit.
async fn hold_writer(
    database: &Database,
) -> (std::sync::mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (begun, running) = tokio::sync::oneshot::channel();
    let database = database.clone();
    let holding = tokio::spawn(async move {
        let held = database.write(Durability::Lazy, move |_| {
            let _ = begun.send(());
            let _ = held.recv();
            Ok(())
        });
        held.await.expect("nothing was written");
    });
    running.await.expect("the writing thread runs");
    (release, holding)
}

#[tokio::test]
async fn a_quick_write_is_committed_by_whoever_asks_while_nobody_else_does() {
    let (_root, database) = database().await;
    let here = std::thread::current().id();
    let write = async |number| {
        let write = database.write(Durability::Lazy.sure().quick(), move |rows| {
            put(rows, number)?;
            Ok(std::thread::current().id())
        });
        write.await.expect("a row")
    };
    // The thread may still be busy with what is behind it.
    let mut number = 0;
    while write(number).await != here {
        number += 1;
        assert!(number < 1_000, "the thread is never at rest");
    }
    assert_eq!(numbers(&database).await.len() as i64, number + 1);

    let (release, holding) = hold_writer(&database).await;
    let mut behind = std::pin::pin!(write(-1));
    assert!((&mut behind).now_or_never().is_none(), "it waits its turn");
    drop(release);
    assert_ne!(behind.await, here);
    holding.await.expect("no panic");
}

#[tokio::test]
async fn a_write_is_seen_by_every_later_read() {
    let (_root, database) = database().await;
    for number in 0..20 {
        let durability = [Durability::Now, Durability::Lazy][usize::from(number % 2 == 0)];
        let written = database.write(durability, move |rows| put(rows, number));
        written.await.expect("a row");
        assert_eq!(numbers(&database).await.last(), Some(&number));
    }
}

#[tokio::test]
async fn a_failing_operation_takes_none_of_its_neighbours_with_it() {
    let (_root, database) = database().await;
    let undone = Arc::new(Mutex::new(Vec::new()));
    let (release, holding) = hold_writer(&database).await;
    let writes = (0..6).map(|number| {
        let (database, undone) = (database.clone(), Arc::clone(&undone));
        tokio::spawn(async move {
            let write = database.write(Durability::Now, move |rows| {
                for step in ["first", "second"] {
                    let undone = Arc::clone(&undone);
                    rows.on_rollback(move || undone.lock().expect("no panic").push((number, step)));
                }
                put(rows, number)?;
                match number {
                    2 => put(rows, 0),
                    4 => panic!("a defect"),
                    _ => Ok(()),
                }
            });
            write.await
        })
    });
    let writes: Vec<_> = writes.collect();
    tokio::task::yield_now().await;
    drop(release);
    holding.await.expect("no panic");
    let answers = join_all(writes).await;
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = answer.expect("no panic outside the writing thread");
        match number {
            2 => assert!(matches!(answer, Err(DatabaseError::Failed(_)))),
            4 => assert!(matches!(answer, Err(DatabaseError::Abandoned))),
            _ => answer.expect("a row"),
        }
    }
    assert_eq!(numbers(&database).await, [0, 1, 3, 5]);
    let undone = undone.lock().expect("no panic").clone();
    let latest_first = [(2, "second"), (2, "first"), (4, "second"), (4, "first")];
    assert_eq!(undone, latest_first);
}

#[tokio::test]
async fn an_operation_of_one_statement_fails_alone_and_a_defect_in_it_is_not_committed() {
    let (_root, database) = database().await;
    let (release, holding) = hold_writer(&database).await;
    let writes = [1, 1, 2].map(|number| {
        let database = database.clone();
        let write = async move {
            let write = database.write(Durability::Now.sure(), move |rows| put(rows, number));
            write.await
        };
        tokio::spawn(write)
    });
    tokio::task::yield_now().await;
    drop(release);
    holding.await.expect("no panic");
    let answers = join_all(writes).await;
    let answers: Vec<bool> = answers
        .into_iter()
        .map(|answer| answer.expect("no panic outside the writing thread").is_ok())
        .collect();
    assert_eq!(answers, [true, false, true]);

    let defect = database.write(Durability::Now.sure(), |rows| {
        put(rows, 3)?;
        panic!("a defect")
    });
    let defect: Result<(), _> = defect.await;
    assert!(matches!(defect, Err(DatabaseError::Abandoned)));
    let later = database.write(Durability::Now.sure(), |rows| put(rows, 4));
    later.await.expect("a row");
    assert_eq!(numbers(&database).await, [1, 2, 4]);
}

#[tokio::test]
async fn an_operation_without_a_savepoint_that_fails_half_way_takes_its_group_along() {
    let (_root, database) = database().await;
    let undone = Arc::new(Mutex::new(Vec::new()));
    let (release, holding) = hold_writer(&database).await;
    let writes = (0..3).map(|number| {
        let (database, undone) = (database.clone(), Arc::clone(&undone));
        tokio::spawn(async move {
            let write = database.write(Durability::Now.sure(), move |rows| {
                rows.on_rollback(move || undone.lock().expect("no panic").push(number));
                put(rows, number)?;
                if number == 1 { put(rows, 0) } else { Ok(()) }
            });
            write.await
        })
    });
    let writes: Vec<_> = writes.collect();
    tokio::task::yield_now().await;
    drop(release);
    holding.await.expect("no panic");
    for answer in join_all(writes).await {
        let answer = answer.expect("no panic outside the writing thread");
        assert!(
            matches!(answer, Err(DatabaseError::Failed(_))),
            "{answer:?}"
        );
    }
    assert!(numbers(&database).await.is_empty());
    // The third never began.
    assert_eq!(*undone.lock().expect("no panic"), [1, 0]);
    let again = database.write(Durability::Now.sure(), |rows| put(rows, 0));
    again.await.expect("a row");
}

#[tokio::test]
async fn effects_run_after_the_commit_in_order_and_before_the_answers() {
    let (_root, database) = database().await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let (release, holding) = hold_writer(&database).await;
    let writes = (0..5).map(|number| {
        let (database, log) = (database.clone(), Arc::clone(&log));
        tokio::spawn(async move {
            let effects = Arc::clone(&log);
            let write = database.write(Durability::Lazy, move |rows| {
                put(rows, number)?;
                rows.after_commit(move || effects.lock().expect("no panic").push(number));
                Ok(())
            });
            write.await.expect("a row");
            log.lock().expect("no panic").len()
        })
    });
    let writes: Vec<_> = writes.collect();
    tokio::task::yield_now().await;
    assert_eq!(log.lock().expect("no panic").len(), 0);
    drop(release);
    holding.await.expect("no panic");
    for seen in join_all(writes).await {
        assert_eq!(seen.expect("no panic"), 5, "all effects of the group");
    }
    assert_eq!(*log.lock().expect("no panic"), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn an_operation_runs_even_if_its_caller_went_away() {
    let (_root, database) = database().await;
    let (release, holding) = hold_writer(&database).await;
    let mut write = Box::pin(database.write(Durability::Now, |rows| put(rows, 7)));
    assert!(write.as_mut().now_or_never().is_none());
    drop(write);
    drop(release);
    holding.await.expect("no panic");
    // Behind it in the queue.
    let after = database.write(Durability::Lazy, |_| Ok(()));
    after.await.expect("an answer");
    assert_eq!(numbers(&database).await, [7]);
}

#[tokio::test]
async fn writes_beyond_the_queue_wait_in_order_and_another_account_is_not_behind_all_of_them() {
    let (_root, database) = database().await;
    let (release, holding) = hold_writer(&database).await;
    let (a, b): (AccountId, AccountId) = ("a".parse().expect("an id"), "b".parse().expect("an id"));
    let written = Arc::new(Mutex::new(Vec::new()));
    let write = |account: AccountId, number: i64| {
        let (database, written) = (database.clone(), Arc::clone(&written));
        async move {
            let how = Durability::Lazy;
            let write = database.write_of(Some(&account), how, move |rows| {
                written.lock().expect("no panic").push(number);
                put(rows, number)
            });
            write.await
        }
    };
    let mut waiting = Vec::new();
    for number in 0..3_000 {
        // One task asks for what many would: it has no budget for that.
        let mut write = Box::pin(unconstrained(write(a.clone(), number)).boxed());
        assert!(write.as_mut().now_or_never().is_none());
        waiting.push(write);
    }
    let mut other = Box::pin(unconstrained(write(b, 3_000)).boxed());
    assert!(other.as_mut().now_or_never().is_none());
    waiting.push(other);
    drop(release);
    holding.await.expect("no panic");
    for answer in join_all(waiting).await {
        answer.expect("it only had to wait");
    }
    let written = written.lock().expect("no panic").clone();
    let of_other = written.iter().position(|number| *number == 3_000);
    let before = of_other.expect("it was written");
    assert!(before < 1_024, "{before} were written before it");
    let of_flood: Vec<i64> = written.iter().copied().filter(|n| *n < 3_000).collect();
    assert!(of_flood.is_sorted() && of_flood.len() == 3_000);
    assert_eq!(numbers(&database).await.len(), 3_001);
}

#[tokio::test]
async fn a_full_disk_undoes_the_group_and_heals() {
    let (_root, database) = database().await;
    // SQLite's own limit answers exactly as a full disk does.
    let limit = |pages: i64| {
        let database = database.clone();
        async move {
            let set = database.write(Durability::Now, move |rows| {
                rows.query_row(&format!("PRAGMA max_page_count={pages}"), [], |_| Ok(()))
            });
            set.await.expect("a setting");
        }
    };
    limit(1).await;
    let undone = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&undone);
    let large = database.write(Durability::Now, move |rows| {
        rows.on_rollback(move || told.store(true, Ordering::Relaxed));
        rows.execute_batch("CREATE TABLE large AS SELECT zeroblob(1000000)")
    });
    let refused = large.await.expect_err("there is no room");
    assert!(matches!(refused, DatabaseError::Full(_)), "{refused:?}");
    assert!(undone.load(Ordering::Relaxed));
    limit(1 << 30).await;
    database
        .write(Durability::Now, |rows| put(rows, 1))
        .await
        .expect("room again");
    assert_eq!(numbers(&database).await, [1]);
}

#[tokio::test]
async fn the_log_is_written_back_and_stays_bounded() {
    let (root, database) = database().await;
    database
        .write(Durability::Now, |rows| {
            rows.execute_batch("CREATE TABLE large (b BLOB)")
        })
        .await
        .expect("a table");
    // Fifty times the length at which the log is written back.
    for _ in 0..200 {
        let write = database.write(Durability::Lazy, |rows| {
            rows.execute_batch("DELETE FROM large; INSERT INTO large VALUES (zeroblob(1000000))")
        });
        write.await.expect("a row");
    }
    let log = std::fs::metadata(root.path().join("main.db-wal")).expect("the log");
    assert!(log.len() < 16 << 20, "the log has {} bytes", log.len());
}

#[tokio::test]
async fn a_dropped_database_has_written_everything_back() {
    let (root, database) = database().await;
    database
        .write(Durability::Lazy, |rows| put(rows, 1))
        .await
        .expect("a row");
    drop(database);
    assert!(!root.path().join("main.db-wal").exists());
}

#[test]
fn a_statement_is_compiled_once_whatever_is_bound() {
    let (_root, directory) = directory();
    let path = directory.database();
    let writing = connection::open_writing(&path).expect("a connection");
    writing
        .execute_batch("CREATE TABLE t (n, m); CREATE INDEX t_by_n ON t (n) WHERE m = 1")
        .expect("a table");
    let reading = connection::open_reading(&path).expect("a connection");
    for connection in [&writing, &reading] {
        for n in [5, 1, 3] {
            let sql = "SELECT n FROM t WHERE m = ?1 LIMIT ?2";
            let mut statement = connection.prepare_cached(sql).expect("a statement");
            let rows = statement.query_map([n, n], |row| row.get::<_, i64>(0));
            assert_eq!(rows.expect("no rows").count(), 0);
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }
}

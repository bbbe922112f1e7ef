//! What writes with each transaction: when it is asked, and what it is told of the transaction's fate.

use std::time::{Duration, Instant};

use super::*;

/// Writes one number for each that waits, and records what it is asked and told.
#[derive(Default)]
struct Numbers {
    waiting: Mutex<Vec<i64>>,
    /// What the open transaction wrote.
    open: Mutex<Vec<i64>>,
    seen: Mutex<Vec<&'static str>>,
    fails: AtomicBool,
    due: Mutex<Option<Instant>>,
}

impl Numbers {
    fn wait(&self, number: i64) {
        lock(&self.waiting).push(number);
    }

    fn saw(&self, what: &'static str) {
        lock(&self.seen).push(what);
    }

    fn take_seen(&self) -> Vec<&'static str> {
        std::mem::take(&mut lock(&self.seen))
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().expect("no test panics with it")
}

impl Participant for Numbers {
    fn write(&self, rows: &Connection, occasion: Occasion) -> rusqlite::Result<()> {
        self.saw(match occasion {
            Occasion::Group => "group",
            Occasion::Due => "due",
            Occasion::CatchUp => "catch up",
            Occasion::End => "end",
        });
        if occasion == Occasion::Group && lock(&self.due).is_none() {
            return Ok(());
        }
        *lock(&self.due) = None;
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        let written = waiting.iter().try_for_each(|number| put(rows, *number));
        lock(&self.open).extend(waiting);
        written?;
        match self.fails.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(rusqlite::Error::InvalidQuery),
            false => Ok(()),
        }
    }

    fn committed(&self, durability: Durability) {
        lock(&self.open).clear();
        self.saw(match durability {
            Durability::Now => "committed",
            Durability::Lazy => "committed, not synced",
        });
    }

    fn rolled_back(&self) {
        let open = std::mem::take(&mut *lock(&self.open));
        lock(&self.waiting).extend(open);
        self.saw("rolled back");
    }

    fn due(&self) -> Option<Instant> {
        *lock(&self.due)
    }

    fn is_ahead(&self) -> bool {
        !lock(&self.waiting).is_empty()
    }
}

async fn with_numbers() -> (TempDir, Database, Arc<Numbers>) {
    let (root, directory) = directory();
    let reserve = Reserve::open(&directory, ReserveOptions::NONE);
    let numbers = Arc::new(Numbers::default());
    let participants = Participants::from([Arc::clone(&numbers) as Arc<dyn Participant>]);
    let frame = (Health::default(), reserve);
    let first =
        |rows: &Connection| rows.execute_batch("CREATE TABLE numbers (n INTEGER PRIMARY KEY)");
    let opened = Database::open(directory, frame, SCHEMA, participants, first);
    let (database, ()) = opened.expect("a fresh database");
    (root, database, numbers)
}

#[tokio::test]
async fn a_participant_writes_behind_each_group_and_hears_how_it_ended() {
    let (_root, database, one) = with_numbers().await;
    let written = database.write(Durability::Now, |rows| put(rows, 1));
    written.await.expect("it is written");
    assert_eq!(one.take_seen(), ["group", "committed"]);
    let written = database.write(Durability::Lazy, |rows| put(rows, 2));
    written.await.expect("it is written");
    assert_eq!(one.take_seen(), ["group", "committed, not synced"]);
    // Nothing changed, and nobody waits for the disk.
    let looked = database.write(Durability::Lazy, |_| Ok(()));
    looked.await.expect("an answer");
    assert_eq!(one.take_seen(), ["committed, not synced"]);
    let waited = database.write(Durability::Now, |_| Ok(()));
    waited.await.expect("an answer");
    assert_eq!(one.take_seen(), ["group", "committed"]);
}

#[tokio::test]
async fn a_participant_that_fails_undoes_the_group_and_has_its_own_back() {
    let (_root, database, one) = with_numbers().await;
    one.wait(7);
    *lock(&one.due) = Some(Instant::now() + Duration::from_secs(3600));
    one.fails.store(true, std::sync::atomic::Ordering::Relaxed);
    let refused = database.write(Durability::Now, |rows| put(rows, 1)).await;
    refused.expect_err("the participant failed");
    assert_eq!(one.take_seen(), ["group", "rolled back"]);
    assert_eq!(numbers(&database).await, [0; 0]);

    one.fails.store(false, std::sync::atomic::Ordering::Relaxed);
    database.catch_up().await;
    assert_eq!(numbers(&database).await, [7]);
    // Once for the caller, once with the transaction that it is.
    assert_eq!(one.take_seen(), ["catch up", "group", "committed"]);
    database.catch_up().await;
    assert_eq!(one.take_seen(), [""; 0], "nothing is ahead");
}

#[tokio::test]
async fn a_participant_that_is_due_has_a_transaction_without_a_group() {
    let (_root, database, one) = with_numbers().await;
    one.wait(7);
    *lock(&one.due) = Some(Instant::now());
    database.nudge();
    while numbers(&database).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.take_seen().first(), Some(&"due"));
}

#[tokio::test]
async fn the_end_brings_everything_into_the_rows() {
    let (root, database, one) = with_numbers().await;
    one.wait(7);
    drop(database);
    assert_eq!(
        one.take_seen(),
        ["catch up", "committed", "end", "committed"]
    );
    let rows = Connection::open(root.path().join("main.db")).expect("the file");
    let sum: i64 = rows
        .query_row("SELECT sum(n) FROM numbers", [], |row| row.get(0))
        .expect("a sum");
    assert_eq!(sum, 7);
}

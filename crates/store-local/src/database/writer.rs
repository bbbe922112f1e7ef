//! The thread that writes: it takes what is waiting, commits it, then tells everybody.
//!
//! It waits for nobody where few write, so a lone write is as fast as the disk. Where many do, a commit costs more than
//! all that it commits, so the thread lets a group gather before it takes it. What nobody waits for goes with the next
//! group. A group in which nobody needs the disk is committed without waiting for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::transaction::{Effects, Transaction};
use super::{DatabaseError, is_full};
use crate::blobs::Journal;
use crate::health::Health;
use crate::reserve::Reserve;

/// How many operations may wait: some seconds of work for a slow disk. Beyond it callers are told that it is busy.
const QUEUE: usize = 1024;

/// How many operations share a commit: enough to hide the disk, few enough to keep the first of them from waiting long.
const GROUP: usize = 64;

/// From how many operations of a group on the next one is given time to gather: so many at once are many writers.
const CROWD: usize = 4;

/// That time, for each of them: together at most about what a commit takes.
const GATHERING: Duration = Duration::from_micros(30);
const MOST_GATHERED: u32 = 16;

/// How long what nobody waits for is kept for a group to come.
const LINGER: Duration = Duration::from_millis(5);

/// The log is written back into the database when it has this many pages.
const CHECKPOINT_PAGES: i32 = 1000;

/// When an operation has to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Before it is answered.
    Now,
    /// With a later one: losing it only means doing it again.
    Lazy,
    /// The same, and nobody waits for it: it may be put off for a moment.
    Idle,
}

/// How an operation is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    durability: Durability,
    pub(super) need: Need,
    undo: Undo,
}

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It takes something in.
    Growth,
    /// It brings something to its end, and finds room even on a full disk.
    End,
}

/// What becomes of an operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    /// It is undone by itself, to a savepoint.
    Alone,
    /// It has changed nothing. If it has after all, because the disk failed between two of its statements, its whole group is
    /// undone.
    Nothing,
}

impl Durability {
    /// For what must be written even when the disk is full: the ends of what is under way, and deletions. The ballast is given
    /// up for it.
    pub(crate) fn end(self) -> Write {
        Write {
            need: Need::End,
            ..self.into()
        }
    }

    /// As [`Write::sure`].
    pub(crate) fn sure(self) -> Write {
        Write::from(self).sure()
    }
}

impl Write {
    /// For an operation that is one statement, or several of which only the first can fail while the disk does not. It needs no
    /// savepoint, which costs as much as a statement and makes the others keep copies of the pages that they change.
    pub(crate) fn sure(self) -> Self {
        Self {
            undo: Undo::Nothing,
            ..self
        }
    }
}

impl From<Durability> for Write {
    fn from(durability: Durability) -> Self {
        Self {
            durability,
            need: Need::Growth,
            undo: Undo::Alone,
        }
    }
}

pub(super) struct Writer {
    /// Taken away to let the thread end.
    queue: Option<SyncSender<Queued>>,
    thread: Option<JoinHandle<()>>,
}

struct Queued {
    how: Write,
    operation: Box<dyn Operation>,
}

/// An operation without its types.
trait Operation: Send {
    /// Runs it, once.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError>;

    /// Tells the caller, once the fate of the transaction is known.
    fn answer(self: Box<Self>, committed: Result<(), DatabaseError>);
}

struct Pending<T, F> {
    operation: Option<F>,
    outcome: Option<Result<T, DatabaseError>>,
    caller: oneshot::Sender<Result<T, DatabaseError>>,
}

/// What the thread owns.
struct Thread {
    connection: Connection,
    queue: Receiver<Queued>,
    health: Health,
    reserve: Reserve,
    /// Bytes of blobs that go with the rows that name them.
    journal: Journal,
    /// Whether a commit waits for the disk, as the connection is set now.
    durability: Durability,
    /// Pages in the log, as SQLite told after the latest commit.
    log_pages: Arc<AtomicI32>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        health: Health,
        reserve: Reserve,
        journal: Journal,
    ) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let told = Arc::clone(&log_pages);
        connection.wal_hook(Some(move |_: &mut _, pages| {
            told.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        let (sender, queue) = mpsc::sync_channel(QUEUE);
        let state = Thread {
            connection,
            queue,
            health,
            reserve,
            journal,
            durability: Durability::Now,
            log_pages,
        };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || state.run())
            .expect("the system has room for one more thread");
        Ok(Self {
            queue: Some(sender),
            thread: Some(thread),
        })
    }

    /// Puts an operation in the queue; its answer comes through the receiver, which fails if it was given up.
    pub(super) fn send<T, F>(
        &self,
        how: Write,
        operation: F,
    ) -> Result<oneshot::Receiver<Result<T, DatabaseError>>, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let operation = Box::new(Pending {
            operation: Some(operation),
            outcome: None,
            caller,
        });
        let queued = Queued { how, operation };
        let queue = self.queue.as_ref().ok_or(DatabaseError::Abandoned)?;
        match queue.try_send(queued) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(DatabaseError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(DatabaseError::Abandoned),
        }
    }

    /// Lets the thread finish what is queued and waits for it.
    pub(super) fn stop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            // The last handle may go with an effect, on the thread itself, which then ends by itself.
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the writing thread of the store panicked");
        }
    }
}

impl Thread {
    fn run(mut self) {
        let mut before = 0;
        while let Some(group) = self.next_group(before) {
            before = group.len();
            // What is dropped here fails at its caller, who then asks after the health.
            if self.health.check().is_ok() {
                self.commit(group);
                self.checkpoint();
            }
        }
        self.end_journal();
        if let Err(error) = self.write_back("TRUNCATE") {
            tracing::warn!(%error, "the log was not written back at the end; the next start does it");
        }
    }

    /// What is to be committed next; `None` once nobody can send any more. `before` is the size of the group before.
    fn next_group(&self, before: usize) -> Option<Vec<Queued>> {
        let first = self.queue.recv().ok()?;
        let mut is_idle = first.how.durability == Durability::Idle;
        let mut group = vec![first];
        let until = Instant::now() + LINGER;
        while is_idle && group.len() < GROUP {
            let left = until.saturating_duration_since(Instant::now());
            // At the end of the time, and of the program, it goes alone.
            let Ok(next) = self.queue.recv_timeout(left) else {
                break;
            };
            is_idle = next.how.durability == Durability::Idle;
            group.push(next);
        }
        if before >= CROWD {
            let crowd = u32::try_from(before).unwrap_or(MOST_GATHERED);
            // Away from the queue: there, every write that comes would wake this thread to add itself.
            thread::park_timeout(GATHERING * crowd.min(MOST_GATHERED));
        }
        let room = GROUP.saturating_sub(group.len());
        group.extend(self.queue.try_iter().take(room));
        Some(group)
    }

    fn commit(&mut self, mut group: Vec<Queued>) {
        let mut effects = Effects::default();
        let ends = group.iter().any(|queued| queued.how.need == Need::End);
        if ends {
            self.reserve.for_the_end();
        }
        let committed = self.transact(&mut group, &mut effects);
        if ends && matches!(committed, Err(DatabaseError::Full(_))) {
            // Those who end something try again.
            self.reserve.give_up();
        }
        match &committed {
            Ok(()) => effects.committed(),
            Err(_) => effects.rolled_back(),
        }
        for queued in group {
            queued.operation.answer(committed.clone());
        }
    }

    /// Runs the group in one transaction. After an error nothing of it is in the database.
    fn transact(
        &mut self,
        group: &mut [Queued],
        effects: &mut Effects,
    ) -> Result<(), DatabaseError> {
        let wanted = |queued: &Queued| queued.how.durability == Durability::Now;
        self.set_durability(if group.iter().any(wanted) {
            Durability::Now
        } else {
            Durability::Lazy
        })?;
        self.execute("BEGIN IMMEDIATE")?;
        let journaled = self.journal.write(&self.connection);
        let done = journaled
            .as_ref()
            .map_err(|error| DatabaseError::from(Arc::clone(error)))
            .and_then(|_| {
                group
                    .iter_mut()
                    .try_for_each(|queued| self.run_one(queued, effects))
            })
            .and_then(|()| self.finish());
        let rolled_back = match done.is_err() && !self.connection.is_autocommit() {
            true => self.execute("ROLLBACK"),
            false => Ok(()),
        };
        if let Ok(journaled) = journaled {
            match &done {
                Ok(()) => self.journal.committed(&journaled),
                Err(_) => self.journal.rolled_back(journaled),
            }
        }
        rolled_back.and(done)
    }

    /// Leaves nothing in the journal for the next start to look through, if the disk lets it.
    fn end_journal(&mut self) {
        if self.health.check().is_err() {
            return;
        }
        self.journal.sync_all();
        if self.health.check().is_ok()
            && let Err(error) = self.transact(&mut [], &mut Effects::default())
        {
            tracing::warn!(%error, "the next start looks through the journal of small blobs");
        }
    }

    /// Runs one operation so that its failure undoes nothing else; an error says that the whole transaction is undone.
    fn run_one(&self, queued: &mut Queued, effects: &mut Effects) -> Result<(), DatabaseError> {
        let is_guarded = queued.how.undo == Undo::Alone;
        let before = self.connection.total_changes();
        if is_guarded {
            self.execute("SAVEPOINT operation")?;
        }
        let mut transaction = Transaction::new(&self.connection);
        let ran = catch_unwind(AssertUnwindSafe(|| queued.operation.run(&mut transaction)));
        let failure = match ran {
            Ok(Ok(())) => {
                effects.append(transaction.effects);
                if is_guarded {
                    self.execute("RELEASE operation")?;
                }
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(_) => DatabaseError::Abandoned,
        };
        let is_undone_alone = is_guarded || self.connection.total_changes() == before;
        transaction.effects.rolled_back();
        // A full disk and the like make SQLite undo everything by itself.
        if self.connection.is_autocommit() || !is_undone_alone {
            return Err(failure);
        }
        if is_guarded {
            self.execute("ROLLBACK TO operation")?;
            self.execute("RELEASE operation")?;
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), DatabaseError> {
        let committed = commit(&self.connection);
        if let Err(error) = &committed
            && !is_full(error)
        {
            self.health.poison(error);
        }
        Ok(committed?)
    }

    fn set_durability(&mut self, durability: Durability) -> Result<(), DatabaseError> {
        if durability != self.durability {
            // Takes effect while it is prepared, so a cached statement would do nothing.
            self.connection.execute_batch(match durability {
                Durability::Now => "PRAGMA synchronous=FULL",
                Durability::Lazy | Durability::Idle => "PRAGMA synchronous=NORMAL",
            })?;
            self.durability = durability;
        }
        Ok(())
    }

    /// Writes the log back once it is long; a reader in the way only puts it off.
    fn checkpoint(&self) {
        if self.log_pages.load(Ordering::Relaxed) < CHECKPOINT_PAGES {
            return;
        }
        fail::fail_point!("database-checkpoint");
        if let Err(error) = self.write_back("PASSIVE")
            && !is_full(&error)
        {
            self.health.poison(&error);
        }
    }

    fn write_back(&self, mode: &str) -> rusqlite::Result<()> {
        let pragma = format!("PRAGMA wal_checkpoint({mode})");
        self.connection.query_row(&pragma, [], |_| Ok(()))
    }

    fn execute(&self, sql: &str) -> Result<(), DatabaseError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

fn commit(connection: &Connection) -> rusqlite::Result<()> {
    fail::fail_point!("database-commit", |kind| Err(crate::faults::sqlite(kind)));
    connection.prepare_cached("COMMIT")?.execute([])?;
    fail::fail_point!("database-committed");
    Ok(())
}

impl<T, F> Operation for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError> {
        let operation = self.operation.take().expect("an operation runs once");
        let outcome = operation(transaction).map_err(DatabaseError::from);
        let ran = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
        self.outcome = Some(outcome);
        ran
    }

    fn answer(self: Box<Self>, committed: Result<(), DatabaseError>) {
        let answer = match (self.outcome, committed) {
            (Some(Err(own)), _) => Err(own),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(shared)) => Err(shared),
            (None, Ok(())) => Err(DatabaseError::Abandoned),
        };
        // A caller that stopped waiting does not want to know.
        let _ = self.caller.send(answer);
    }
}

//! The connection that writes: a group of operations is one transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::operation::{Durability, Need, Operation, Undo, Write};
use super::transaction::{Effects, Transaction};
use super::{DatabaseError, continuity, is_full};
use crate::blobs::Journal;
use crate::calls::{CallLog, Flush, Replays};
use crate::directory::Directory;
use crate::health::Health;
use crate::reserve::Reserve;

/// The log is written back into the database when it has this many pages.
const CHECKPOINT_PAGES: i32 = 1000;

/// What commits. Whoever has it is the only one that writes.
pub(super) struct Committer {
    connection: Connection,
    health: Health,
    reserve: Reserve,
    /// Bytes of blobs that go with the rows that name them.
    journal: Journal,
    /// What happened to calls and is brought into their rows many at a time.
    log: CallLog,
    /// Results that rows name.
    replays: Replays,
    /// Whether a commit waits for the disk, as the connection is set now.
    durability: Durability,
    /// What such a wait takes, as the latest of them tell.
    wait: Duration,
    /// Pages in the log, as SQLite told after the latest commit.
    log_pages: Arc<AtomicI32>,
    /// The number of the log, where it has none yet.
    numbering: Numbering,
    /// Tells the next process the number. After the connection, which is closed before the directory is given up.
    directory: Arc<Directory>,
}

/// Whether the log has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Done,
    /// The next transaction may be the first of a log.
    Due,
    /// The open transaction gives it this one.
    Open(i32),
}

/// An operation of a group.
pub(super) struct Asked<'a> {
    pub(super) how: Write,
    pub(super) operation: &'a mut dyn Operation,
}

impl Committer {
    pub(super) fn new(
        mut connection: Connection,
        health: Health,
        reserve: Reserve,
        journal: Journal,
        (log, replays): (CallLog, Replays),
        directory: Arc<Directory>,
    ) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let told = Arc::clone(&log_pages);
        connection.wal_hook(Some(move |_: &mut _, pages| {
            told.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            connection,
            health,
            reserve,
            journal,
            log,
            replays,
            durability: Durability::Now,
            wait: Duration::ZERO,
            log_pages,
            numbering: Numbering::Done,
            directory,
        })
    }

    /// What a commit that has to be on the disk waits for it.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// Commits a group and runs its effects; every operation is to be answered with this.
    pub(super) fn commit(&mut self, group: &mut [Asked<'_>]) -> Result<(), DatabaseError> {
        self.health.check()?;
        let mut effects = Effects::default();
        let ends = group.iter().any(|asked| asked.how.need == Need::End);
        if ends {
            self.reserve.for_the_end();
        }
        let committed = self.transact(group, &mut effects, None);
        if ends && matches!(committed, Err(DatabaseError::Full(_))) {
            // Those who end something try again.
            self.reserve.give_up();
        }
        match &committed {
            Ok(()) => effects.committed(),
            Err(_) => effects.rolled_back(),
        }
        committed
    }

    /// When there is something to be done between two groups, if there is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.log.due().filter(|_| self.health.check().is_ok())
    }

    /// Does what is to be done between two groups.
    pub(super) fn do_chores(&mut self) {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.flush(Flush::Due);
        }
        if self.is_log_long() && self.health.check().is_ok() {
            self.checkpoint();
        }
    }

    /// Leaves nothing for the next start to bring in or look through, if the disk lets it.
    pub(super) fn end(&mut self) {
        if self.health.check().is_ok() && self.log.is_ahead() {
            self.flush(Flush::All);
        }
        self.end_journal();
        // Into a database that is damaged nothing is written, whatever it is.
        if self.health.check().is_err() {
            return;
        }
        self.numbering = Numbering::Due;
        if let Err(error) = self.write_back("TRUNCATE") {
            tracing::warn!(%error, "the log was not written back at the end; the next start does it");
        }
    }

    /// Brings the log of calls into its rows.
    fn flush(&mut self, what: Flush) {
        let flushed = self.transact(&mut [], &mut Effects::default(), Some(what));
        if let Err(error) = flushed {
            if matches!(error, DatabaseError::Full(_)) {
                self.reserve.give_up();
            }
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the log of calls is brought into its rows later");
        }
    }

    /// Runs the group in one transaction, and brings the log of calls into its rows where that is asked for. After an error
    /// nothing of it is in the database.
    fn transact(
        &mut self,
        group: &mut [Asked<'_>],
        effects: &mut Effects,
        flush: Option<Flush>,
    ) -> Result<(), DatabaseError> {
        let wanted = |asked: &Asked<'_>| asked.how.durability == Durability::Now;
        self.set_durability(if flush.is_some() || group.iter().any(wanted) {
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
                    .try_for_each(|asked| self.run_one(asked, effects))
            })
            .and_then(|()| match flush {
                Some(what) => Ok(self.log.flush(&self.connection, what)?),
                None => Ok(()),
            })
            .and_then(|()| self.number_log())
            .and_then(|()| self.finish());
        self.end_numbering(done.is_ok());
        match &done {
            Ok(()) => self.log.committed(self.durability),
            Err(_) => self.log.rolled_back(),
        }
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
            && let Err(error) = self.transact(&mut [], &mut Effects::default(), None)
        {
            tracing::warn!(%error, "the next start looks through the journal of small blobs");
        }
    }

    /// Runs one operation so that its failure undoes nothing else; an error says that the whole transaction is undone.
    fn run_one(&self, asked: &mut Asked<'_>, effects: &mut Effects) -> Result<(), DatabaseError> {
        let is_guarded = asked.how.undo == Undo::Alone;
        let before = self.connection.total_changes();
        if is_guarded {
            self.execute("SAVEPOINT operation")?;
        }
        let mut transaction = Transaction::new(&self.connection);
        let ran = catch_unwind(AssertUnwindSafe(|| asked.operation.run(&mut transaction)));
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

    /// Gives the log its number if this transaction may be its first.
    fn number_log(&mut self) -> Result<(), DatabaseError> {
        if self.numbering == Numbering::Due {
            self.numbering = Numbering::Open(continuity::number_log(&self.connection)?);
        }
        Ok(())
    }

    fn end_numbering(&mut self, committed: bool) {
        if let Numbering::Open(number) = self.numbering {
            self.numbering = match committed {
                true => Numbering::Done,
                false => Numbering::Due,
            };
            if committed {
                self.directory.note_number(number);
            }
        }
    }

    fn finish(&mut self) -> Result<(), DatabaseError> {
        let begun = Instant::now();
        self.replays.sync()?;
        let committed = commit(&self.connection);
        if self.durability == Durability::Now {
            self.wait = (self.wait * 7 + begun.elapsed()) / 8;
        }
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
                Durability::Lazy => "PRAGMA synchronous=NORMAL",
            })?;
            self.durability = durability;
        }
        Ok(())
    }

    /// Whether the log is to be written back, between two groups.
    pub(super) fn is_log_long(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES
    }

    /// Writes the log back; a reader in the way only puts it off.
    fn checkpoint(&mut self) {
        fail::fail_point!("database-checkpoint");
        self.numbering = Numbering::Due;
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

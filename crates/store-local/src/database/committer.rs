//! The connection that writes: a group of operations is one transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::operation::{Durability, Need, Operation, Undo, Write};
use super::participant::{Occasion, Participants};
use super::transaction::{Effects, Transaction};
use super::{DatabaseError, continuity, is_full};
use crate::directory::Directory;
use crate::health::Health;
use crate::reserve::Reserve;

/// The log is written back into the database when it has this many pages.
const CHECKPOINT_PAGES: i32 = 1000;

/// What commits. Its holder is the only writer.
pub(super) struct Committer {
    connection: Connection,
    health: Health,
    reserve: Reserve,
    /// What writes with each group.
    participants: Participants,
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
        participants: Participants,
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
            participants,
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
        let committed = self.transact(group, &mut effects, Occasion::Group);
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
        let due = self.participants.iter().filter_map(|one| one.due()).min();
        due.filter(|_| self.health.check().is_ok())
    }

    /// Does what is to be done between two groups.
    pub(super) fn do_chores(&mut self) {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.write_without_group(Occasion::Due);
        }
        if self.is_log_long() && self.health.check().is_ok() {
            self.checkpoint();
        }
    }

    /// Leaves nothing for the next start to bring in or look through, if the disk lets it.
    pub(super) fn end(&mut self) {
        // Two transactions: what fails to leave nothing behind must not undo what others have acknowledged.
        if self.participants.iter().any(|one| one.is_ahead()) {
            self.write_without_group(Occasion::CatchUp);
        }
        self.write_without_group(Occasion::End);
        // Into a database that is damaged nothing is written, whatever it is.
        if self.health.check().is_err() {
            return;
        }
        self.numbering = Numbering::Due;
        if let Err(error) = self.write_back("TRUNCATE") {
            tracing::warn!(%error, "the log was not written back at the end; the next start does it");
        }
    }

    /// Has the participants write, without any operation. A failure puts that off until they are due again, or until the next
    /// start.
    fn write_without_group(&mut self, occasion: Occasion) {
        if self.health.check().is_err() {
            return;
        }
        if let Err(error) = self.transact(&mut [], &mut Effects::default(), occasion) {
            if matches!(error, DatabaseError::Full(_)) {
                self.reserve.give_up();
            }
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "records that wait outside the rows are written to them later"
            );
        }
    }

    /// Runs the group in one transaction, and has the participants write. After an error nothing of it is in the database.
    fn transact(
        &mut self,
        group: &mut [Asked<'_>],
        effects: &mut Effects,
        occasion: Occasion,
    ) -> Result<(), DatabaseError> {
        let wanted = |asked: &Asked<'_>| asked.how.durability == Durability::Now;
        let is_wanted = occasion != Occasion::Group || group.iter().any(wanted);
        self.set_durability(match is_wanted {
            true => Durability::Now,
            false => Durability::Lazy,
        })?;
        self.execute("BEGIN IMMEDIATE")?;
        let before = self.connection.total_changes();
        let done = group
            .iter_mut()
            .try_for_each(|asked| self.run_one(asked, effects))
            .and_then(|()| {
                if is_wanted || self.connection.total_changes() != before {
                    self.number_log().and_then(|()| self.finish(occasion))
                } else {
                    // What waits beside the rows goes with the next transaction that changes a row.
                    self.execute("COMMIT")
                }
            });
        self.end_numbering(done.is_ok());
        let rolled_back = match done.is_err() && !self.connection.is_autocommit() {
            true => self.execute("ROLLBACK"),
            false => Ok(()),
        };
        for participant in self.participants.iter() {
            match &done {
                Ok(()) => participant.committed(self.durability),
                Err(_) => participant.rolled_back(),
            }
        }
        rolled_back.and(done)
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

    /// Has the participants write what belongs to the transaction, and commits it.
    fn finish(&mut self, occasion: Occasion) -> Result<(), DatabaseError> {
        let begun = Instant::now();
        for participant in self.participants.iter() {
            participant.write(&self.connection, occasion)?;
        }
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
        crate::faults::fault_point!("database-checkpoint");
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
    crate::faults::fault_point!("database-commit", |kind| Err(crate::faults::sqlite(kind)));
    connection.prepare_cached("COMMIT")?.execute([])?;
    crate::faults::fault_point!("database-committed");
    Ok(())
}

//! The SQLite frame: one thread writes, a few connections read, both through closures over a connection.
//!
//! Exactly one connection ever writes or checkpoints. Readers see what was committed when they begin.

#[cfg(feature = "router")]
mod bulk;
mod committer;
mod connection;
mod continuity;
mod damage;
mod migrations;
mod operation;
mod pace;
mod participant;
mod places;
mod readers;
mod transaction;
mod writer;

use std::sync::Arc;

use accounts::AccountId;
use rusqlite::{Connection, ErrorCode};
use tokio::task;

use crate::directory::Directory;
use crate::health::{Health, Poisoned};
use crate::open_error::OpenError;
use crate::reserve::{NoRoom, Reserve};
use committer::Committer;
use damage::Wanted;
use operation::Need;
use writer::{WriteAttempt, Writer};

#[cfg(feature = "router")]
pub(crate) use bulk::{Insert, Values};
pub(crate) use connection::keep_log_on_close;
pub(crate) use continuity::{expect_whole, number_copy};
pub use migrations::MigrationError;
pub(crate) use migrations::Schema;
pub(crate) use operation::{Durability, Write};
#[cfg(feature = "router")]
pub(crate) use pace::{CROWD, IN_PLACE, gathering};
pub(crate) use participant::{Occasion, Participant, Participants};
pub(crate) use readers::Readers;
pub(crate) use transaction::Transaction;

/// The rows cannot be read or written now.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Too many writes are waiting; try again soon.
    #[error("too many writes are waiting for the disk; try again in a moment")]
    Busy,
    /// No room is left on the disk; it heals by itself when there is room again.
    #[error("the disk is full; free some space")]
    Full(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The disk failed before; nothing is written any more.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// The operation was given up because of a defect of the program.
    #[error("the write was given up")]
    Abandoned,
    /// SQLite failed.
    #[error("the database failed")]
    Failed(#[source] Arc<rusqlite::Error>),
}

/// The database of a data directory. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Database(Arc<Inner>);

struct Inner {
    readers: Readers,
    writer: Writer,
    health: Health,
    reserve: Reserve,
    participants: Participants,
    /// After the connections, so that they are closed before the directory is given up.
    directory: Arc<Directory>,
}

impl Database {
    /// Opens the database, creating it and bringing it to `schema` as needed, and runs `first` in a transaction before anything
    /// else. From then on the participants write with each transaction.
    pub(crate) fn open<T>(
        directory: Arc<Directory>,
        (health, reserve): (Health, Reserve),
        schema: Schema,
        participants: Participants,
        first: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<(Self, T), OpenError> {
        let failed = |error: rusqlite::Error| OpenError::Database(error.into());
        let path = directory.database();
        let mut connection = connection::open_writing(&path).map_err(failed)?;
        let sound = damage::check_small(&connection, &path, &health).map_err(failed)?;
        migrations::run(&mut connection, schema)?;
        let transaction = connection.transaction().map_err(failed)?;
        let number = continuity::number_log(&transaction).map_err(failed)?;
        let done = first(&transaction).map_err(failed)?;
        if sound {
            transaction.commit().map_err(failed)?;
            directory.note_number(number);
            connection::keep_log_on_close(&connection, false).map_err(failed)?;
        } else {
            // Damage spreads with every write; what can still be read stays readable.
            transaction.rollback().map_err(failed)?;
        }
        let readers = Readers::open(&path).map_err(failed)?;
        let committer = Committer::new(
            connection,
            health.clone(),
            reserve.clone(),
            Arc::clone(&participants),
            Arc::clone(&directory),
        );
        let writer = Writer::start(committer.map_err(failed)?);
        let database = Self(Arc::new(Inner {
            readers,
            writer,
            health,
            reserve,
            participants,
            directory,
        }));
        Ok((database, done))
    }

    /// As [`Database::write_of`], for what belongs to no account.
    pub(crate) async fn write<T, F>(
        &self,
        how: impl Into<Write>,
        operation: F,
    ) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.write_of(None, how, operation).await
    }

    /// Runs `operation` in the next transaction of the writing thread and answers once it is committed. An error undoes this
    /// operation alone (but see [`Write::sure`]). Once it has a place in the queue, for which it waits among those of its
    /// account, it runs to its end even if the caller stops waiting. Refused while the disk is so full that nothing may grow,
    /// unless it ends something.
    pub(crate) async fn write_of<T, F>(
        &self,
        account: Option<&AccountId>,
        how: impl Into<Write>,
        operation: F,
    ) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let how = how.into();
        if how.need == Need::Growth {
            self.0.reserve.for_growth()?;
        }
        self.0.health.check()?;
        let answer = match self.0.writer.write_at_once(how, operation) {
            WriteAttempt::Now(answer) => return answer,
            WriteAttempt::Later(task) => self.0.writer.write(account, how, task).await?,
        };
        answer.await.unwrap_or_else(|_| {
            self.0.health.check()?;
            Err(DatabaseError::Abandoned)
        })
    }

    /// Runs `query` on a reading connection, within one snapshot. It is to be short: a long one keeps the log from shrinking.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.0.readers.read(query).await
    }

    /// Looks through the whole database for damage, until the caller stops waiting. If there is any, nothing is written from then
    /// on.
    pub(crate) async fn check(&self) -> Result<Vec<String>, DatabaseError> {
        let wanted = Wanted::default();
        let (directory, is_over) = (Arc::clone(&self.0.directory), wanted.is_over());
        let checking = task::spawn_blocking(move || damage::check_whole(&directory, is_over));
        let found = checking.await.map_err(|_| DatabaseError::Abandoned)??;
        drop(wanted);
        damage::report(&found, &self.0.health);
        Ok(found)
    }

    /// Brings what the participants have acknowledged into the rows, for a caller that reads those next. Where nothing can be
    /// written, they are read as they are.
    pub(crate) async fn catch_up(&self) {
        if !self.0.participants.iter().any(|one| one.is_ahead()) {
            return;
        }
        let participants = Arc::clone(&self.0.participants);
        let how = Durability::Now.end().sure();
        let written = self.write(how, move |rows| {
            let mut ahead = participants.iter().filter(|one| one.is_ahead());
            ahead.try_for_each(|one| one.write(rows, Occasion::CatchUp))
        });
        if let Err(error) = written.await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "the newest acknowledged write is not among the rows that are read"
            );
        }
    }

    /// Writes the logs back, so that the file of the rows alone has everything. Writes may follow.
    pub(crate) async fn write_back(&self) {
        let database = self.clone();
        let written = task::spawn_blocking(move || database.0.writer.write_back());
        if written.await.is_err() {
            tracing::warn!("the log was not written back at the end; the next start does it");
        }
    }

    /// Has the writing thread look when a participant is due.
    #[cfg(feature = "router")]
    pub(crate) fn nudge(&self) {
        self.0.writer.nudge();
    }

    /// The connections that read, for a caller that does nothing else.
    #[cfg(feature = "router")]
    pub(crate) fn readers(&self) -> &Readers {
        &self.0.readers
    }
}

impl From<NoRoom> for DatabaseError {
    fn from(no_room: NoRoom) -> Self {
        Self::Full(Arc::new(no_room))
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Arc::new(error).into()
    }
}

impl From<Arc<rusqlite::Error>> for DatabaseError {
    fn from(error: Arc<rusqlite::Error>) -> Self {
        if is_full(&error) {
            Self::Full(error)
        } else {
            Self::Failed(error)
        }
    }
}

/// Whether an error says that there is no room: it passes, and nothing that was acknowledged is in doubt.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull
            // Room for the index of the write-ahead log could not be had.
            || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writing connection is the last: closing it writes the log back and removes it.
        self.readers.close();
        self.writer.stop();
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Database")
    }
}

#[cfg(test)]
mod tests;

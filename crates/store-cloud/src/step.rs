//! A transaction of one step of calls or jobs: what begins and ends it travels with its statements, so that a step costs a journey
//! for what it reads and one for what it writes.
//!
//! Its statements ask for few rows of tables that grow fast, each by its key. The first plan of a statement is kept, and is one that
//! stays right: through an index, row by row. What the planner guesses of a table that was empty a moment ago, and what it would
//! plan anew for each batch, is not worth its time. An index that is read as it is, not as a bitmap, also forgets entries of rows
//! that are gone.
//!
//! So steps have connections of their own, whose sessions are set that way. What may read many jobs is none of a step; tables of
//! accounts are read whole where every account counts.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::Object;
use tokio_postgres::{Row, Statement};

use crate::statements::Values;
use crate::{Database, DatabaseError};

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// Losing it means doing it again, or nothing has followed from it.
    Lazily,
    #[cfg_attr(
        not(any(feature = "router", feature = "workflow")),
        expect(dead_code, reason = "steps of calls and jobs")
    )]
    Durably,
}

#[cfg(feature = "router")]
impl Commits {
    /// As PostgreSQL calls it.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Lazily => "off",
            Self::Durably => "on",
        }
    }
}

const BEGIN: &str = "BEGIN";

const BEGIN_LAZILY: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// A connection with a transaction that is begun and ended by hand. Dropped in the middle, it closes the connection, which undoes
/// the transaction.
///
/// What is sent together has to be prepared before, and is sent in the order of the futures that are joined. None of it is sent
/// behind a statement that cannot be sent.
pub(crate) struct Step {
    /// There until this is dropped.
    connection: Option<Object>,
    is_open: AtomicBool,
}

impl Step {
    pub(crate) async fn on(database: &Database) -> Result<Self, DatabaseError> {
        Ok(Self {
            connection: Some(database.connection_by_index().await?),
            is_open: AtomicBool::new(false),
        })
    }

    pub(crate) async fn begin(&self, commits: Commits) -> Result<(), DatabaseError> {
        self.is_open.store(true, Ordering::Relaxed);
        let begin = match commits {
            Commits::Durably => BEGIN,
            Commits::Lazily => BEGIN_LAZILY,
        };
        Ok(self.batch_execute(begin).await?)
    }

    /// Has the commit wait for the disk after all.
    pub(crate) async fn durably(&self) -> Result<(), DatabaseError> {
        let wait = "SET LOCAL synchronous_commit = on";
        Ok(self.batch_execute(wait).await?)
    }

    /// Keeps what was done. Where a statement failed, that one tells it, and nothing is kept.
    pub(crate) async fn commit(&self) -> Result<(), DatabaseError> {
        self.end("COMMIT").await
    }

    /// Undoes what was done.
    pub(crate) async fn undo(&self) -> Result<(), DatabaseError> {
        self.end("ROLLBACK").await
    }

    async fn end(&self, how: &str) -> Result<(), DatabaseError> {
        self.batch_execute(how).await?;
        self.is_open.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The rows of a statement that is prepared.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let rows: &deadpool_postgres::ClientWrapper = self;
        Ok(rows.query(statement, values).await?)
    }

    /// Carries out a statement that is prepared.
    pub(crate) async fn execute(
        &self,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<u64, DatabaseError> {
        let rows: &deadpool_postgres::ClientWrapper = self;
        Ok(rows.execute(statement, values).await?)
    }
}

impl Deref for Step {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.connection.as_ref().expect("it goes with the step")
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            drop(self.connection.take().map(Object::take));
        }
    }
}

//! What is asked of the writing connection, and how it is to be written.

use super::DatabaseError;
use super::transaction::Transaction;

/// When an operation has to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Before it is answered.
    Now,
    /// With a later one: losing it only means doing it again.
    Lazy,
}

/// How an operation is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(super) durability: Durability,
    pub(super) need: Need,
    pub(super) undo: Undo,
    /// Whether it may block the caller's thread.
    pub(super) is_quick: bool,
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
pub(super) enum Undo {
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
    #[cfg_attr(
        not(any(feature = "router", feature = "workflow")),
        expect(dead_code, reason = "of families alone")
    )]
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

    /// For an operation that takes microseconds: the caller may run it in the place of the writing thread.
    #[cfg_attr(
        not(any(feature = "router", feature = "workflow")),
        expect(dead_code, reason = "of families alone")
    )]
    pub(crate) fn quick(self) -> Self {
        Self {
            is_quick: true,
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
            is_quick: false,
        }
    }
}

/// An operation without its types.
pub(super) trait Operation: Send {
    /// Runs it, once.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError>;
}

/// An operation, and what came of it.
pub(super) struct Task<T, F> {
    operation: Option<F>,
    outcome: Option<Result<T, DatabaseError>>,
}

impl<T, F> Task<T, F> {
    pub(super) fn new(operation: F) -> Self {
        Self {
            operation: Some(operation),
            outcome: None,
        }
    }

    /// What its caller is told, once the fate of the transaction is known.
    pub(super) fn answer(self, committed: Result<(), DatabaseError>) -> Result<T, DatabaseError> {
        match (self.outcome, committed) {
            (Some(Err(own)), _) => Err(own),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(shared)) => Err(shared),
            (None, Ok(())) => Err(DatabaseError::Abandoned),
        }
    }
}

impl<T, F> Operation for Task<T, F>
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
}

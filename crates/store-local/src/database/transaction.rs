//! What an operation of the writing thread works on.

use std::ops::Deref;

use rusqlite::Connection;

/// Runs on the writing thread once the fate of an operation is known.
pub(super) type Effect = Box<dyn FnOnce() + Send>;

/// One operation's part of a transaction. Other operations may share the transaction; each can be undone alone.
pub(crate) struct Transaction<'a> {
    connection: &'a Connection,
    pub(super) effects: Effects,
}

/// What an operation wants done later.
#[derive(Default)]
pub(super) struct Effects {
    after_commit: Vec<Effect>,
    on_rollback: Vec<Effect>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            effects: Effects::default(),
        }
    }

    /// Runs `effect` once this is committed, before anybody is told: effects run one after the other, in the order of the
    /// operations.
    pub(crate) fn after_commit(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.after_commit.push(Box::new(effect));
    }

    /// Runs `undo` if this is not committed after all, the latest first.
    #[cfg(any(test, feature = "workflow", feature = "router"))]
    pub(crate) fn on_rollback(&mut self, undo: impl FnOnce() + Send + 'static) {
        self.effects.on_rollback.push(Box::new(undo));
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Effects {
    /// Adds those of a later operation.
    pub(super) fn append(&mut self, later: Self) {
        self.after_commit.extend(later.after_commit);
        self.on_rollback.extend(later.on_rollback);
    }

    pub(super) fn committed(self) {
        for effect in self.after_commit {
            effect();
        }
    }

    pub(super) fn rolled_back(self) {
        for undo in self.on_rollback.into_iter().rev() {
            undo();
        }
    }
}

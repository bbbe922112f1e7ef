//! What writes its own rows and files together with the groups of the database.

use std::sync::Arc;
use std::time::Instant;

use rusqlite::Connection;

use super::Durability;

/// Part of a data directory that takes part in each transaction of the thread that writes.
///
/// **Contract.** `write` runs behind the operations of a transaction, in the order in which the participants were given to
/// [`Database::open`](super::Database::open). It is not called for a transaction that changed no row and that nobody waits for.
/// What it wrote into files is on the disk when it returns, because rows of the same transaction may name it. It may run more than
/// once in a transaction. Exactly one of `committed` and `rolled_back` follows each transaction that began, also where `write`
/// failed or did not run.
pub(crate) trait Participant: Send + Sync {
    /// Writes into the open transaction, and makes durable what its rows name. An error undoes the transaction.
    fn write(&self, rows: &Connection, occasion: Occasion) -> rusqlite::Result<()>;

    /// The transaction is over, and whole; it is on the disk now, or with a later one.
    fn committed(&self, durability: Durability);

    /// The transaction has left nothing behind.
    fn rolled_back(&self);

    /// When a transaction of [`Occasion::Due`] is wanted, if one is. The thread that writes asks this after each group and
    /// begins one then.
    fn due(&self) -> Option<Instant>;

    /// Whether readers of the rows would miss something that was acknowledged.
    fn is_ahead(&self) -> bool;
}

/// Why a transaction is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Operations wait for it: a participant writes what must be durable with them, and no more.
    Group,
    /// A participant was due.
    Due,
    /// Somebody reads the rows next: they are to have everything that was acknowledged.
    CatchUp,
    /// It is the last one, as far as anybody knows: nothing is to be left for the next start.
    End,
}

/// The participants of a database, in their order. Clones are the same ones.
pub(crate) type Participants = Arc<[Arc<dyn Participant>]>;

//! What keeps a record from being deleted.

use uuid::Uuid;

/// A reason to keep a record. A refused delete never says which one applies (Family B, asset states).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The job reads it and has not ended.
    Input(Uuid),
    /// The job made it and is still retained.
    Output(Uuid),
    /// The operator wants it kept.
    Operator,
}

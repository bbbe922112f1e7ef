//! What keeps a record from being deleted.

use uuid::Uuid;

use crate::Asset;

/// A reason to keep a record. A refused delete never says which one applies (Family B, asset states).
/// Lists of holds have the order of these kinds. The last one comes last because there may be many of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// The operator wants it kept.
    Operator,
    /// The job made it and is still retained.
    Output(Uuid),
    /// The job reads it and has not ended.
    Input(Uuid),
}

/// A record and what keeps it, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAsset {
    /// The record, expired or not.
    pub asset: Asset,
    /// What keeps it, in order.
    pub holds: Vec<Hold>,
}

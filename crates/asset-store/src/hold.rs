//! What keeps a record from being deleted.

use uuid::Uuid;

use crate::Asset;

/// A reason to keep a record. A refused delete never says which one applies (Family B, asset states).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// The job reads it and has not ended.
    Input(Uuid),
    /// The job made it and is still retained.
    Output(Uuid),
    /// The operator wants it kept.
    Operator,
}

/// A record and what keeps it, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAsset {
    /// The record, expired or not.
    pub asset: Asset,
    /// What keeps it, in order.
    pub holds: Vec<Hold>,
}

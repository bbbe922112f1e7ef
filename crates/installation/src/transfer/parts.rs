//! What an installation consists of, whichever store has it: the one description that every move reads and writes by.
//!
//! A column is here if a client or an operator could miss it. What follows from other columns (queues, labels for searching, counts)
//! each store makes again, and what belongs to processes that have ended (leases, permits, holds of credits) is left behind: a
//! router that takes a generation over holds its credits again.

mod all;
mod columns;

pub use all::PARTS;

/// A kind of rows.
#[derive(Debug)]
pub struct Part {
    /// What it is called: in most stores the name of its table.
    pub name: &'static str,
    /// What a row has. The first ones are its key, by which rows are read in order.
    pub columns: &'static [Column],
    /// How many columns the key has.
    pub key: usize,
    /// Most rows that are read at once.
    pub page: usize,
}

/// A column of a part.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    /// What it holds, if not nothing.
    pub kind: Kind,
    /// Whether both stores have to hold the same. Some stores make a few columns again from others.
    pub is_compared: bool,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of 64 bits; times are microseconds since 1970.
    Int,
    /// A number that needs 16 bits.
    Small,
    /// 0 or 1.
    Flag,
    /// A fraction.
    Real,
    /// A text without U+0000.
    Text,
    /// Any bytes, also those of a text that may have U+0000.
    Bytes,
    /// A UUID.
    Id,
}

/// How many bytes a piece of a long result or body has, but for its last one.
pub const PIECE_BYTES: usize = 256 << 10;

/// Most bytes of rows that are read at once, beyond a single row.
pub const PAGE_BYTES: usize = 4 << 20;

/// The part of a name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn part(name: &str) -> &'static Part {
    let found = PARTS.iter().find(|part| part.name == name);
    found.unwrap_or_else(|| panic!("there is no part {name}"))
}

impl Part {
    /// The columns of the key.
    #[must_use]
    pub fn key_columns(&self) -> &'static [Column] {
        &self.columns[..self.key]
    }

    /// The place of a column.
    ///
    /// # Panics
    /// If it has no such column.
    #[must_use]
    pub fn place(&self, column: &str) -> usize {
        let place = self.columns.iter().position(|it| it.name == column);
        place.unwrap_or_else(|| panic!("{} has no {column}", self.name))
    }
}

//! The records of assets in rows, the same for every process.

pub(crate) mod rows;

//! Why a data directory cannot be opened.

use installation::transfer::Unsettled;

use crate::database::{DatabaseError, MigrationError};
use crate::directory::DirectoryError;
use crate::wrong_rows::WrongRows;

/// The directory cannot be opened. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory is taken or cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The rows are gone, or belong to other files.
    #[error(transparent)]
    Rows(#[from] WrongRows),
    /// The installation is on its way to another place, or from there.
    #[error(transparent)]
    Moving(#[from] Unsettled),
    /// The database belongs to another version of the program.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The database cannot be opened.
    #[error(
        "the database in the data directory cannot be opened; if it is damaged, restore the directory from a backup"
    )]
    Database(#[source] DatabaseError),
    /// The folder of the blobs cannot be read or written.
    #[error(
        "the blobs in the data directory cannot be opened; check that this user may read and write them"
    )]
    Blobs(#[source] std::io::Error),
}

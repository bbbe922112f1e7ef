//! What is wrong where rows and files of a directory do not belong together.

use std::io;
use std::path::PathBuf;

/// The file beside the rows that has the id of the installation.
pub(crate) const FILE: &str = "installation";

/// The rows and the files of a directory do not belong together.
#[derive(Debug, thiserror::Error)]
pub enum WrongRows {
    /// There are files of an installation and no rows.
    #[error(
        "{} holds the files of an installation, but main.db is missing or empty; restore main.db from a backup, or begin a new installation there with --fresh, which makes the files that are there unused",
        .0.display()
    )]
    Missing(PathBuf),
    /// The rows are those of another installation.
    #[error(
        "main.db in {} and the other files there belong to different installations; restore the main.db that was there, or, if this is the right one, delete the file {FILE} there",
        .0.display()
    )]
    Exchanged(PathBuf),
    /// The log of the rows is not what it was when the process before ended.
    #[error(
        "main.db-wal in {} is damaged: {found} of {expected} pages of rows are left that are not in main.db yet; put back the file that was there, or, if it is lost, delete main.db-shm there to go on with the rows that are left",
        path.display()
    )]
    LogDamaged {
        /// The directory.
        path: PathBuf,
        /// How many frames are whole,
        found: u32,
        /// and how many there were.
        expected: u32,
    },
    /// The log of the rows continues another file than the one beside it.
    #[error(
        "main.db-wal in {} belongs to another main.db, as after restoring only one of the two; put back the one that was there, or, if main.db is right without it, move main.db-wal and main.db-shm away",
        .0.display()
    )]
    LogOfAnother(PathBuf),
    /// The files of the rows cannot be read.
    #[error("the rows in {} cannot be read; check that this user may read and write main.db and the other files there", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file with the id cannot be read or written.
    #[error("the file {FILE} in {} cannot be read or written; check that this user may do both", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

//! One directory, one installation: rows in SQLite, blobs in files.
//!
//! Implements the ports of the domain crates and decides nothing for them. One process has the directory at a time. Rows go
//! through one writing thread that commits in groups; a blob is durable no later than any row that names it, and the only way
//! to a blob is through a row. The features `workflow`, `router` and `v1` add the ports of those families; every build opens
//! every directory. Start at [`LocalStore`], which programs choose, and [`Store`], an open directory.
//!
#![doc = include_str!("../README.md")]

// The frame: a directory, its rows and the files of its log. It knows no family.
mod clock;
mod columns;
mod database;
mod directory;
mod faults;
mod health;
#[cfg_attr(
    not(feature = "router"),
    expect(
        dead_code,
        reason = "only the router writes a log; others keep what is in it"
    )
)]
mod log_files;
mod open_error;
mod reserve;
mod wrong_rows;

// What every installation has.
mod accounts;
mod backup;
mod blobs;
mod call_log_rows;
mod installation;
mod installation_id;
mod link_keys;
mod records;
mod schema;
mod store;
mod transfer;
mod webhooks;

// The families.
#[cfg(feature = "router")]
mod calls;
#[cfg(feature = "workflow")]
mod deployments;
#[cfg(feature = "workflow")]
mod jobs;
#[cfg(feature = "router")]
mod published;
#[cfg(feature = "workflow")]
mod queue;
#[cfg(feature = "v1")]
mod user_files;

pub use self::installation::LocalStore;
pub use accounts::SqliteAccounts;
pub use backup::{BackupError, InspectError, back_up, inspect};
pub use blobs::FileBlobs;
#[cfg(feature = "router")]
pub use calls::{SqliteCalls, SqliteUsage};
pub use clock::Clock;
pub use database::{DatabaseError, MigrationError};
#[cfg(feature = "workflow")]
pub use deployments::SqliteDeployments;
pub use directory::DirectoryError;
pub use health::Poisoned;
#[cfg(feature = "workflow")]
pub use jobs::SqliteJobs;
pub use open_error::OpenError;
#[cfg(feature = "router")]
pub use published::SqlitePublishedModels;
pub use records::SqliteRecords;
pub use reserve::NoRoom;
pub use store::{Store, StoreOptions};
#[cfg(feature = "v1")]
pub use user_files::SqliteUserFiles;
pub use webhooks::SqliteWebhooks;
pub use wrong_rows::WrongRows;

/// What the fuzzer calls of what is private otherwise.
#[cfg(all(fuzzing, feature = "router"))]
pub mod fuzzing {
    /// Reads files of a log: see `log_files::fuzzing`.
    pub fn log_frames(bytes: &[u8]) {
        crate::log_files::fuzzing::frames(bytes);
    }

    /// Brings entries of the log of calls into rows: see `calls::log::fuzzing`.
    pub fn log_entries(bytes: &[u8]) {
        crate::calls::fuzz_entries(bytes);
    }

    /// Reads results out of a segment, whose folder is this caller's: see `calls::replays::segments::fuzzing`.
    pub fn segment(bytes: &[u8], folder: &std::path::Path) {
        crate::calls::fuzz_segment(bytes, folder);
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with tests that read seeds from files, and that may stop"
)]
#[path = "../../../tests/fuzz/entries/changed.rs"]
mod fuzzed;

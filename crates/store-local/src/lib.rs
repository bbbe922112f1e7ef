//! One directory, one installation: rows in SQLite, blobs in files.
//!
//! Implements the ports of the domain crates and decides nothing for them. One process has the directory at a time. Rows go
//! through one writing thread that commits in groups; a blob is durable no later than any row that names it, and the only way
//! to a blob is through a row. Start at [`LocalStore`], which programs choose, and [`Store`], an open directory.

mod accounts;
mod backup;
mod blobs;
mod calls;
mod clock;
mod columns;
mod database;
mod directory;
mod faults;
mod health;
mod installation;
mod installation_id;
mod jobs;
mod link_keys;
mod queue;
mod records;
mod reserve;
mod store;
mod user_files;

pub use self::installation::LocalStore;
pub use accounts::SqliteAccounts;
pub use backup::{BackupError, InspectError, back_up, inspect};
pub use blobs::FileBlobs;
pub use calls::{SqliteCalls, SqliteUsage};
pub use clock::Clock;
pub use database::{DatabaseError, MigrationError};
pub use directory::DirectoryError;
pub use health::Poisoned;
pub use installation_id::WrongRows;
pub use jobs::SqliteJobs;
pub use records::SqliteRecords;
pub use reserve::NoRoom;
pub use store::{OpenError, Store, StoreOptions};
pub use user_files::SqliteUserFiles;

//! Opening a data directory, and what is in it.

use std::path::Path;
use std::sync::Arc;

use accounts::Tier;
use asset_store::LinkKeys;
use installation::ReserveOptions;
use router_core::MemoryQuota;
use v1_compat::UserFilesBounds;

use crate::accounts::SqliteAccounts;
use crate::blobs::{FileBlobs, Journal, journal};
use crate::calls::{CallLog, Replays, SqliteCalls};
use crate::clock::Clock;
use crate::database::{Database, DatabaseError, Durability, MigrationError, expect_whole};
use crate::directory::{Directory, DirectoryError};
use crate::health::{Health, Poisoned};
use crate::installation_id::{self, WrongRows};
use crate::jobs::SqliteJobs;
use crate::records::SqliteRecords;
use crate::reserve::{NoRoom, Reserve};
use crate::user_files::SqliteUserFiles;
use crate::{accounts as account_rows, calls, jobs, link_keys};

/// An open data directory. Clones are the same one; it stays taken until the last of them and of the ports made from them
/// is gone.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    blobs: FileBlobs,
    jobs: SqliteJobs,
    accounts: SqliteAccounts,
    calls: SqliteCalls,
    quota: MemoryQuota,
    health: Health,
    reserve: Reserve,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Tells the ages of blobs, and when the directory was opened.
    pub clock: Clock,
    /// What an account gets where its limits say nothing else.
    pub tier: Tier,
    /// What is kept back of the disk.
    pub reserve: ReserveOptions,
    /// Whether a new installation may begin where the files of another one lie and its rows are gone.
    pub fresh: bool,
}

/// The directory cannot be opened. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory is taken or cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The rows are gone, or belong to other files.
    #[error(transparent)]
    Rows(#[from] WrongRows),
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

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            tier: Tier::standard(),
            reserve: ReserveOptions::NONE,
            fresh: false,
        }
    }
}

impl Store {
    /// Opens a data directory with the system's clock and no reserve, creating it where it is missing.
    ///
    /// # Errors
    /// If another process has it, it cannot be used, or a newer version of the program wrote it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, StoreOptions::default())
    }

    /// Opens a data directory.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(path: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let directory = Arc::new(Directory::take(path)?);
        // First: whatever SQLite opens, it makes the index of the log anew.
        expect_whole(&directory)?;
        installation_id::expect_rows(&directory, options.fresh)?;
        directory.create_database()?;
        let health = Health::default();
        // First of all: on a full disk it makes the room that opening takes.
        let reserve = Reserve::open(&directory, options.reserve);
        let journal = Journal::new(Arc::clone(&directory), health.clone());
        let log = CallLog::open(directory.path(), health.clone(), reserve.clone());
        let log = log.map_err(|source| DirectoryError::Io {
            path: path.to_owned(),
            source,
        })?;
        let replays = Replays::new(
            Arc::clone(&directory),
            health.clone(),
            options.clock.clone(),
        );
        let now = options.clock.now();
        let first = |rows: &rusqlite::Connection| {
            link_keys::ensure(rows)?;
            // Before anybody reads what it brings into the rows.
            log.recover(rows, directory.path())?;
            let accounts = account_rows::load(rows, options.tier)?;
            let under_way = calls::recover(rows)?;
            Ok((
                jobs::recover(rows, now)?,
                accounts,
                under_way,
                journal::load(rows)?,
                installation_id::of_rows(rows)?,
            ))
        };
        let opened = Database::open(
            Arc::clone(&directory),
            health.clone(),
            reserve.clone(),
            journal.clone(),
            (log.clone(), replays.clone()),
            first,
        )?;
        let (database, (live_jobs, accounts, under_way, (newest, journaled), id)) = opened;
        let calls = SqliteCalls::new(database.clone(), replays, accounts.clone(), under_way, log);
        let accounts = SqliteAccounts::new(database.clone(), accounts);
        let jobs = SqliteJobs::new(database.clone(), live_jobs);
        let blobs = FileBlobs::open(
            Arc::clone(&directory),
            health.clone(),
            reserve.clone(),
            journal.clone(),
            options.clock,
        )
        .map_err(OpenError::Blobs)?;
        blobs.restore(&journaled).map_err(OpenError::Blobs)?;
        journal.resume(newest, &journaled);
        directory.sync().map_err(|source| DirectoryError::Io {
            path: path.to_owned(),
            source,
        })?;
        // Last, so that a first start that was cut off leaves no directory that seems to have lost its rows.
        installation_id::record(&directory, id)?;
        Ok(Self {
            database,
            blobs,
            jobs,
            accounts,
            calls,
            quota: MemoryQuota::new(),
            health,
            reserve,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn blobs(&self) -> FileBlobs {
        self.blobs.clone()
    }

    /// The records over them.
    #[must_use]
    pub fn records(&self) -> SqliteRecords {
        SqliteRecords::new(self.database.clone())
    }

    /// The jobs, and their queue.
    #[must_use]
    pub fn jobs(&self) -> SqliteJobs {
        self.jobs.clone()
    }

    /// The accounts, their keys and credits.
    #[must_use]
    pub fn accounts(&self) -> SqliteAccounts {
        self.accounts.clone()
    }

    /// The keys, generations and calls of the model router, and their usage.
    #[must_use]
    pub fn calls(&self) -> SqliteCalls {
        self.calls.clone()
    }

    /// What accounts have in flight and asked for lately. In memory: one process has the directory, and after a start nothing is
    /// in flight but what its routers recover.
    #[must_use]
    pub fn quota(&self) -> MemoryQuota {
        self.quota.clone()
    }

    /// Settings and saved files, within these bounds for each account.
    #[must_use]
    pub fn user_files(&self, bounds: UserFilesBounds) -> SqliteUserFiles {
        SqliteUserFiles::new(self.database.clone(), bounds)
    }

    /// The keys that sign links, made when the directory was.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn link_keys(&self) -> Result<LinkKeys, DatabaseError> {
        self.database.read(link_keys::read).await
    }

    /// A secret of this installation, made when the directory was, that others follow from.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn installation_secret(&self) -> Result<[u8; 32], DatabaseError> {
        self.database.read(link_keys::installation_secret).await
    }

    /// Makes a new key that signs links, for whoever reads the keys from now on. The one before goes on to be recognised;
    /// those before it do not.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn rotate_link_keys(&self) -> Result<(), DatabaseError> {
        let rotated = self
            .database
            .write(Durability::Now, |rows| link_keys::rotate(rows));
        rotated.await
    }

    /// Whether the store still writes.
    ///
    /// # Errors
    /// If the disk failed and only a restart can help.
    pub fn healthy(&self) -> Result<(), Poisoned> {
        self.health.check()
    }

    /// Room on the disk, where it tells.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.reserve.free_bytes()
    }

    /// Whether uploads are taken, as far as the disk has room.
    ///
    /// # Errors
    /// If too little is free.
    pub fn room(&self) -> Result<(), NoRoom> {
        self.reserve.for_uploads()
    }

    /// Writes the logs of the rows back, so that `main.db` alone has everything that was committed: the last thing that a server
    /// does with it. Handles that outlive the server keep the database from being closed, which would do the same.
    pub async fn write_back(&self) {
        self.database.write_back().await;
    }

    /// Looks through the database for damage, and stops when the caller stops waiting; answers what was found, nothing when it
    /// is sound. If it is damaged, that is logged and nothing is written any more.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn look_through(&self) -> Result<Vec<String>, DatabaseError> {
        self.database.check().await
    }
}

#[cfg(test)]
mod tests;

//! Opening a data directory, and what is in it.

use std::path::Path;
use std::sync::Arc;

use accounts::Tier;
use asset_store::LinkKeys;
use installation::ReserveOptions;
#[cfg(feature = "router")]
use router_core::MemoryQuota;
use uuid::Uuid;
#[cfg(feature = "v1")]
use v1_compat::UserFilesBounds;

use crate::accounts::{SharedAccounts, SqliteAccounts};
use crate::blobs::{FileBlobs, Journal, journal};
#[cfg(feature = "router")]
use crate::calls::{self, SqliteCalls};
use crate::clock::Clock;
use crate::database::{Database, DatabaseError, Durability, Participant, expect_whole};
#[cfg(feature = "workflow")]
use crate::deployments::SqliteDeployments;
use crate::directory::{Directory, DirectoryError};
use crate::health::{Health, Poisoned};
#[cfg(feature = "workflow")]
use crate::jobs::{self, SharedLiveJobs, SqliteJobs};
use crate::open_error::OpenError;
#[cfg(feature = "router")]
use crate::published::SqlitePublishedModels;
use crate::records::SqliteRecords;
use crate::reserve::{NoRoom, Reserve};
use crate::schema::SCHEMA;
#[cfg(feature = "v1")]
use crate::user_files::SqliteUserFiles;
use crate::webhooks::{Hooks, SqliteWebhooks};
use crate::{accounts as account_rows, installation_id, link_keys, transfer};

/// An open data directory. Clones are the same one; it stays taken until the last of them and of the ports made from them
/// is gone.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    blobs: FileBlobs,
    #[cfg(feature = "workflow")]
    jobs: SqliteJobs,
    accounts: SqliteAccounts,
    webhooks: SqliteWebhooks,
    #[cfg(feature = "router")]
    calls: SqliteCalls,
    #[cfg(feature = "router")]
    quota: MemoryQuota,
    health: Health,
    reserve: Reserve,
}

/// What the first transaction finds in the rows.
struct Recovered {
    #[cfg(feature = "router")]
    under_way: calls::Recovered,
    accounts: SharedAccounts,
    #[cfg(feature = "workflow")]
    live_jobs: SharedLiveJobs,
    /// The number of the newest blob in the journal, and all of them.
    journal: (i64, Vec<journal::Entry>),
    id: Uuid,
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
        transfer::expect_settled(&directory)?;
        Self::open_in(&directory, options)
    }

    /// Opens a directory that this process has, whatever is noted of a move.
    pub(crate) fn open_in(
        directory: &Arc<Directory>,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let path = directory.path().to_owned();
        // First: whatever SQLite opens, it makes the index of the log anew.
        expect_whole(directory)?;
        installation_id::expect_rows(directory, options.fresh)?;
        directory.create_database()?;
        let health = Health::default();
        // First of all: on a full disk it makes the room that opening takes.
        let reserve = Reserve::open(directory, options.reserve);
        let journal = Journal::new(Arc::clone(directory), health.clone());
        // In the order in which they write: the bytes of blobs first, then what else rows name.
        let hooks = Hooks::default();
        #[cfg_attr(not(feature = "router"), expect(unused_mut))]
        let mut participants: Vec<Arc<dyn Participant>> =
            vec![Arc::new(journal.clone()), Arc::new(hooks.clone())];
        #[cfg(feature = "router")]
        let opening = {
            let shared = (&health, &reserve, &hooks);
            let opened = calls::Opening::files(directory, shared, options.clock.clone());
            let opening = opened.map_err(|source| DirectoryError::Io {
                path: path.clone(),
                source,
            })?;
            participants.extend(opening.participants());
            opening
        };
        #[cfg(feature = "workflow")]
        let now = options.clock.now();
        let first = |rows: &rusqlite::Connection| {
            link_keys::ensure(rows)?;
            // What is brought into the rows next may be wanted.
            hooks.load(rows)?;
            Ok(Recovered {
                #[cfg(feature = "router")]
                under_way: opening.recover(rows)?,
                accounts: account_rows::load(rows, options.tier)?,
                #[cfg(feature = "workflow")]
                live_jobs: jobs::recover(rows, &hooks, now)?,
                journal: journal::load(rows)?,
                id: installation_id::of_rows(rows)?,
            })
        };
        let (database, recovered) = Database::open(
            Arc::clone(directory),
            (health.clone(), reserve.clone()),
            SCHEMA,
            participants.into(),
            first,
        )?;
        let (newest, journaled) = recovered.journal;
        let blobs = FileBlobs::open(
            Arc::clone(directory),
            health.clone(),
            reserve.clone(),
            journal.clone(),
            options.clock,
        )
        .map_err(OpenError::Blobs)?;
        blobs.restore(&journaled).map_err(OpenError::Blobs)?;
        journal.resume(newest, &journaled);
        directory
            .sync()
            .map_err(|source| DirectoryError::Io { path, source })?;
        // Last, so that a first start that was cut off leaves no directory that seems to have lost its rows.
        installation_id::record(directory, recovered.id)?;
        #[cfg(feature = "router")]
        let calls = opening.ports(
            database.clone(),
            recovered.accounts.clone(),
            recovered.under_way,
        );
        Ok(Self {
            blobs,
            #[cfg(feature = "workflow")]
            jobs: SqliteJobs::new(database.clone(), recovered.live_jobs),
            #[cfg(feature = "router")]
            quota: calls.quota(),
            #[cfg(feature = "router")]
            calls,
            webhooks: SqliteWebhooks::new(
                database.clone(),
                recovered.accounts.clone(),
                hooks.clone(),
            ),
            accounts: SqliteAccounts::new(database.clone(), recovered.accounts, hooks),
            database,
            health,
            reserve,
        })
    }

    /// The rows.
    pub(crate) fn database(&self) -> &Database {
        &self.database
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
    #[cfg(feature = "workflow")]
    #[must_use]
    pub fn jobs(&self) -> SqliteJobs {
        self.jobs.clone()
    }

    /// The deployments.
    #[cfg(feature = "workflow")]
    #[must_use]
    pub fn deployments(&self) -> SqliteDeployments {
        SqliteDeployments::new(self.database.clone())
    }

    /// The published models.
    #[cfg(feature = "router")]
    #[must_use]
    pub fn published(&self) -> SqlitePublishedModels {
        SqlitePublishedModels::new(self.database.clone())
    }

    /// The accounts, their keys and credits.
    #[must_use]
    pub fn accounts(&self) -> SqliteAccounts {
        self.accounts.clone()
    }

    /// Webhooks, and what is delivered to them.
    #[must_use]
    pub fn webhooks(&self) -> SqliteWebhooks {
        self.webhooks.clone()
    }

    /// The keys, generations and calls of the model router, and their usage.
    #[cfg(feature = "router")]
    #[must_use]
    pub fn calls(&self) -> SqliteCalls {
        self.calls.clone()
    }

    /// What accounts have in flight and asked for lately. In memory: one process has the directory, and after a start nothing is
    /// in flight but what its routers recover.
    #[cfg(feature = "router")]
    #[must_use]
    pub fn quota(&self) -> MemoryQuota {
        self.quota.clone()
    }

    /// Settings and saved files, within these bounds for each account.
    #[cfg(feature = "v1")]
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

    /// Makes a new key that signs links, for readers of the keys from now on. The one before goes on to be recognised;
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

//! The ports over a database and a bucket, bundled.

use std::sync::Arc;

use accounts::Tier;
use async_trait::async_trait;
#[cfg(feature = "router")]
use installation::CallRows;
#[cfg(feature = "workflow")]
use installation::JobRows;
use installation::{
    AssetRows, Closing, Health, Installation, InstallationError, StoreLoad, Unhealthy,
};
#[cfg(feature = "v1")]
use v1_compat::UserFilesBounds;

use super::statistics::Statistics;
#[cfg(feature = "v1")]
use crate::PgUserFiles;
use crate::statements::query_opt;
use crate::{
    BucketBlobs, Database, DatabaseError, DatabaseOpenError, PgAccounts, PgKeys, PgRecords,
    PgTurns, PgWebhooks,
};
#[cfg(feature = "router")]
use crate::{PgCalls, PgPublishedModels, PgQuota};
#[cfg(feature = "workflow")]
use crate::{PgChanges, PgDeployments, PgJobs};

/// The health of an installation that others care for. A database or a bucket that does not answer now may answer the next
/// request, so nothing here asks for a restart. A clock that is wrong may be set right.
#[derive(Debug)]
struct Remote {
    database: Database,
    #[cfg(feature = "workflow")]
    changes: PgChanges,
    statistics: Statistics,
}

/// What a process has to write before it ends: rows are at rest as they are, but for the records of its last calls.
struct LastWrites {
    #[cfg(feature = "router")]
    calls: Arc<PgCalls>,
}

/// The installation as one replica sees it.
#[cfg_attr(
    not(feature = "router"),
    expect(clippy::unused_async, reason = "the queue of calls is read first")
)]
pub(super) async fn installation(
    database: Database,
    keys: PgKeys,
    blobs: BucketBlobs,
    tier: Tier,
) -> Result<Installation, DatabaseError> {
    let accounts = Arc::new(PgAccounts::new(database.clone(), tier));
    let records = Arc::new(PgRecords::new(database.clone()));
    #[cfg(feature = "workflow")]
    let changes = PgChanges::start(database.clone());
    let remote = Arc::new(Remote {
        database: database.clone(),
        #[cfg(feature = "workflow")]
        changes: changes.clone(),
        statistics: Statistics::start(database.clone()),
    });
    #[cfg(feature = "workflow")]
    let jobs = Arc::new(PgJobs::start(database.clone(), changes.clone()));
    #[cfg(feature = "router")]
    let calls = Arc::new(PgCalls::open(&database).await?);
    let webhooks = Arc::new(PgWebhooks::new(database.clone()));
    Ok(Installation {
        accounts: accounts.clone(),
        account_admin: accounts.clone(),
        sessions: accounts,
        assets: AssetRows {
            blobs: Arc::new(blobs.clone()),
            records: records.clone(),
            file_names: records.clone(),
            released: records.clone(),
            sweeps: records.clone(),
            scrub: records,
            direct: Some(Arc::new(blobs)),
        },
        keys: Arc::new(keys),
        health: remote,
        closing: Arc::new(LastWrites {
            #[cfg(feature = "router")]
            calls: calls.clone(),
        }),
        turns: Arc::new(PgTurns::new(database.clone())),
        webhooks: webhooks.clone(),
        outbox: webhooks,
        #[cfg(feature = "workflow")]
        jobs: JobRows {
            store: jobs.clone(),
            queue: jobs,
            changes: Arc::new(changes),
            deployments: Arc::new(PgDeployments::new(database.clone())),
        },
        #[cfg(feature = "router")]
        calls: CallRows {
            usage: Arc::new(calls.usage()),
            calls: calls.clone(),
            quota: Arc::new(PgQuota::new(&database)),
            admissions: calls.clone(),
            retention: calls.clone(),
            queue: calls.clone(),
            kept: calls,
            published: Arc::new(PgPublishedModels::new(database.clone())),
        },
        #[cfg(feature = "v1")]
        user_files: Arc::new(PgUserFiles::new(database, UserFilesBounds::DEFAULT)),
    })
}

#[async_trait]
impl Health for Remote {
    fn writable(&self) -> Result<(), Unhealthy> {
        match self.database.clocks_apart() {
            Some(seconds) => Err(Unhealthy(DatabaseOpenError::ClocksApart { seconds }.into())),
            None => Ok(()),
        }
    }

    fn room(&self) -> Result<(), Unhealthy> {
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn load(&self) -> Option<StoreLoad> {
        let (used, idle, waiting) = self.database.connections();
        #[cfg(feature = "workflow")]
        let behind = self.changes.behind();
        #[cfg(not(feature = "workflow"))]
        let behind = None;
        Some(StoreLoad {
            used,
            idle,
            waiting,
            behind,
            database: self.statistics.latest(),
        })
    }

    async fn check(&self) -> Result<Vec<String>, InstallationError> {
        // PostgreSQL finds damage when it reads a page, and answers an error in place of its rows.
        let asked = async {
            let connection = self.database.connection().await?;
            query_opt(&connection, "SELECT 1 FROM installation", &[]).await
        };
        match asked.await {
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(InstallationError(error.into())),
        }
    }
}

#[async_trait]
impl Closing for LastWrites {
    async fn write_back(&self) {
        #[cfg(feature = "router")]
        self.calls.write_records().await;
    }
}

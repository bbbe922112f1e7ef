//! Jobs and their queue in rows, for any number of replicas.
//!
//! Submissions, claims and saves that arrive together are one transaction each, and looks that are the same are one. Rows are locked in one order: of jobs by their
//! ids, or of accounts that jobs enter; then what accounts have stored, counters of names, and the turns of accounts.

mod claim;
pub(crate) mod documents;
mod expire;
mod facts;
mod insert;
mod lists;
mod looks;
mod outputs;
mod places;
mod queue;
mod records;
mod reports;
pub(crate) mod rows;
mod save;
mod sets;
mod side_tables;
mod together;

use std::sync::Arc;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::Timestamp;
use workflow_core::{
    Claim, ClaimRequest, Demand, InsertJob, InsertJobOutcome, Job, JobBody, JobId, JobLog,
    JobQuery, JobStore, SaveJob, SaveOutcome, StoreError,
};

use crate::changes::PgChanges;
use crate::{Database, DatabaseError};
use places::Places;
use rows::Row;
pub(crate) use save::may_be_lost;
use sets::Sets;
use together::Together;

/// Jobs and their queue in a PostgreSQL database: the handle of a replica. Clones share its batches.
#[derive(Clone)]
pub struct PgJobs {
    shared: Arc<Shared>,
    inserts: Together<(InsertJob, Timestamp), InsertJobOutcome>,
    claims: Together<(ClaimRequest, Timestamp), Option<Claim>>,
    saves: Together<SaveJob, SaveOutcome>,
    demands: Together<Timestamp, Demand>,
    positions: Together<(AccountId, JobId), Option<u64>>,
    rows: Together<JobId, Result<Option<Row>, DatabaseError>>,
}

/// What every operation needs.
#[derive(Debug)]
struct Shared {
    database: Database,
    changes: PgChanges,
    sets: Sets,
    places: Places,
}

/// What of a submission may be large.
fn bytes_of((new, _): &(InsertJob, Timestamp)) -> usize {
    new.body.workflow.len() + new.body.extra_pnginfo.len() + new.body.origin.len()
}

/// What of a save may be large: what its run wrote and showed. Its reports tell that once more.
fn bytes_of_save(save: &SaveJob) -> usize {
    let bytes_of = |log: &JobLog| log.text.len() + log.report.size_bytes();
    2 * save.log.as_ref().map_or(0, bytes_of)
}

impl PgJobs {
    /// The jobs of a database, by the replica that `changes` is the handle of: that one hears of its own changes by itself.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn start(database: Database, changes: PgChanges) -> Self {
        let shared = Arc::new(Shared {
            database,
            changes,
            sets: Sets::default(),
            places: Places::default(),
        });
        Self {
            inserts: Together::weighed(&shared, 128, bytes_of, |store, items| {
                async move { insert::insert(&store, items).await }.boxed()
            }),
            claims: Together::start(&shared, 64, |store, items| {
                async move { claim::claim(&store, items).await }.boxed()
            }),
            saves: Together::weighed(&shared, 128, bytes_of_save, |store, items| {
                async move { save::save(&store, items).await }.boxed()
            }),
            demands: Together::start(&shared, 1_024, |store, items| {
                async move { queue::demands(&store, items).await }.boxed()
            }),
            positions: Together::start(&shared, 128, |store, items| {
                async move { queue::positions(&store, items).await }.boxed()
            }),
            rows: Together::start(&shared, 64, |store, ids| {
                async move { rows::load_each(&store, &ids).await }.boxed()
            }),
            shared,
        }
    }

    /// A job that its account may see, with what is in its row besides.
    async fn find(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Row>, DatabaseError> {
        let found = self.rows.ask(id).await??;
        let is_visible = |row: &Row| row.job.account == *account && !row.job.is_expired(now);
        Ok(found.filter(is_visible))
    }

    async fn find_claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(Fingerprint, Arc<Job>)>, DatabaseError> {
        let connection = self.shared.database.connection().await?;
        let asked = std::iter::once((account, digest));
        let claimed = side_tables::claimed_keys(&connection, asked, now).await?;
        drop(connection);
        let Some(key) = claimed.into_values().next() else {
            return Ok(None);
        };
        let found = self.find(account, key.job, now).await?;
        Ok(found.map(|row| (key.fingerprint, Arc::new(row.job))))
    }

    async fn find_body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, DatabaseError> {
        let Some(row) = self.find(account, id, now).await? else {
            return Ok(None);
        };
        let connection = self.shared.database.connection().await?;
        let mut bodies = side_tables::bodies(&connection, &self.shared.sets, &[&row]).await?;
        Ok(bodies.remove(&id).map(Arc::new))
    }

    async fn find_log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, DatabaseError> {
        if self.find(account, id, now).await?.is_none() {
            return Ok(None);
        }
        let connection = self.shared.database.connection().await?;
        side_tables::log(&connection, id).await
    }
}

#[async_trait]
impl JobStore for PgJobs {
    async fn insert(&self, new: InsertJob, now: Timestamp) -> Result<InsertJobOutcome, StoreError> {
        self.inserts.write((new, now)).await
    }

    async fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(Fingerprint, Arc<Job>)>, StoreError> {
        let claimed = self.find_claimed(account, digest, now).await;
        claimed.map_err(unavailable)
    }

    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError> {
        let found = self.find(account, id, now).await.map_err(unavailable)?;
        Ok(found.map(|row| Arc::new(row.job)))
    }

    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError> {
        self.saves.write(save).await
    }

    async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<Vec<Arc<Job>>, StoreError> {
        let connection = self.shared.database.connection().await;
        let connection = connection.map_err(unavailable)?;
        let listed = lists::list(&connection, query, now).await;
        listed.map_err(unavailable)
    }

    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, StoreError> {
        let body = self.find_body(account, id, now).await;
        body.map_err(unavailable)
    }

    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, StoreError> {
        self.find_log(account, id, now).await.map_err(unavailable)
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let expired = expire::expire(&self.shared, now, limit).await;
        expired.map_err(unavailable)
    }
}

/// The error of the ports.
pub(crate) fn unavailable(error: DatabaseError) -> StoreError {
    match error.is_full() {
        true => StoreError::Full(Box::new(error)),
        false => StoreError::Unavailable(Box::new(error)),
    }
}

impl std::fmt::Debug for PgJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgJobs")
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! The records of assets in rows, the same for every process. Records that arrive together are made together.

mod insert;
mod removal;
pub(crate) mod rows;
mod scrub;
mod sweeps;

use accounts::AccountId;
use asset_store::{
    Asset, AssetId, AssetQuery, AssetRecords, BlobHash, FileNames, Hold, InsertAsset,
    InsertOutcome, KeptAsset, RecordsError, Removal,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::Timestamp;

use crate::batch::Batches;
use crate::statements::execute;
use crate::{Database, DatabaseError};

/// Most records of one batch.
const TOGETHER: usize = 64;

/// Records in a PostgreSQL database. Clones share them.
#[derive(Clone)]
pub struct PgRecords {
    database: Database,
    inserting: Batches<(InsertAsset, Timestamp), InsertOutcome>,
}

impl PgRecords {
    /// The records of this database.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let store = database.clone();
        let inserting = Batches::in_turn(&database.turnstile().apart(), TOGETHER, move |inserts| {
            insert::insert_all(store.clone(), inserts).boxed()
        });
        Self {
            database,
            inserting,
        }
    }

    async fn hold_row(&self, id: AssetId, hold: Hold, held: bool) -> Result<bool, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        if rows::keep(&rows, &[id]).await?.is_empty() {
            return Ok(false);
        }
        match held {
            true => rows::add_holds(&rows, &[(id, hold)]).await?,
            false => {
                let (kind, job) = rows::hold_columns(hold);
                let sql = "DELETE FROM asset_holds WHERE asset = $1 AND kind = $2 AND job_id = $3";
                execute(&rows, sql, &[&id.0, &kind, &job]).await?;
            }
        }
        rows.commit().await?;
        Ok(true)
    }
}

#[async_trait]
impl AssetRecords for PgRecords {
    async fn insert(
        &self,
        insert: InsertAsset,
        now: Timestamp,
    ) -> Result<InsertOutcome, RecordsError> {
        let inserted = self.inserting.write((insert, now)).await;
        inserted.map_err(unavailable)
    }

    async fn stored_bytes(&self, account: &AccountId) -> Result<u64, RecordsError> {
        let stored = async {
            let connection = self.database.connection().await?;
            rows::stored_bytes(&connection, account).await
        };
        stored.await.map_err(unavailable)
    }

    async fn get(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        let found = async {
            let connection = self.database.connection().await?;
            rows::get(&connection, account, id, now).await
        };
        found.await.map_err(unavailable)
    }

    async fn find(
        &self,
        account: &AccountId,
        query: &AssetQuery,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        let found = async {
            let connection = self.database.connection().await?;
            rows::find(&connection, account, query, now).await
        };
        found.await.map_err(unavailable)
    }

    async fn hold(&self, id: AssetId, hold: Hold, held: bool) -> Result<bool, RecordsError> {
        self.hold_row(id, hold, held).await.map_err(unavailable)
    }

    async fn kept(&self, id: AssetId, limit: usize) -> Result<Option<KeptAsset>, RecordsError> {
        let kept = async {
            let connection = self.database.connection().await?;
            rows::kept(&connection, id, limit).await
        };
        kept.await.map_err(unavailable)
    }

    async fn remove(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Removal, RecordsError> {
        let removed = removal::remove(&self.database, account, id, now).await;
        removed.map_err(unavailable)
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, RecordsError> {
        let expired = removal::expire(&self.database, now, limit).await;
        expired.map_err(unavailable)
    }

    async fn unreferenced(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        let free = async {
            let connection = self.database.connection().await?;
            rows::unreferenced(&connection, hashes).await
        };
        free.await.map_err(unavailable)
    }
}

#[async_trait]
impl FileNames for PgRecords {
    async fn named(
        &self,
        account: &AccountId,
        made_by_jobs: bool,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Asset>, RecordsError> {
        let named = async {
            let connection = self.database.connection().await?;
            rows::named(&connection, account, made_by_jobs, limit, now).await
        };
        named.await.map_err(unavailable)
    }
}

fn unavailable(error: DatabaseError) -> RecordsError {
    RecordsError(Box::new(error))
}

impl std::fmt::Debug for PgRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgRecords")
    }
}

#[cfg(test)]
mod tests;

//! The records of assets, over the rows.

pub(crate) mod rows;
mod scrub;
mod sweeps;

use accounts::AccountId;
use asset_store::{
    Asset, AssetId, AssetQuery, AssetRecords, BlobHash, FileNames, Hold, InsertAsset,
    InsertOutcome, KeptAsset, RecordsError, Removal,
};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::database::{Database, DatabaseError, Durability};

/// Records in the database of a data directory. Clones share it.
#[derive(Clone, Debug)]
pub struct SqliteRecords {
    database: Database,
}

impl SqliteRecords {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl AssetRecords for SqliteRecords {
    async fn insert(
        &self,
        insert: InsertAsset,
        now: Timestamp,
    ) -> Result<InsertOutcome, RecordsError> {
        let account = insert.asset.account.clone();
        self.database
            .write_of(Some(&account), Durability::Now, move |rows| {
                rows::insert(rows, insert, now)
            })
            .await
            .map_err(unavailable)
    }

    async fn stored_bytes(&self, account: &AccountId) -> Result<u64, RecordsError> {
        let account = account.clone();
        self.database
            .read(move |rows| rows::stored_bytes(rows, &account))
            .await
            .map_err(unavailable)
    }

    async fn get(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        let account = account.clone();
        self.database
            .read(move |rows| rows::get(rows, &account, id, now))
            .await
            .map_err(unavailable)
    }

    async fn find(
        &self,
        account: &AccountId,
        query: &AssetQuery,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        let (account, query) = (account.clone(), query.clone());
        self.database
            .read(move |rows| rows::find(rows, &account, &query, now))
            .await
            .map_err(unavailable)
    }

    async fn hold(&self, id: AssetId, hold: Hold, held: bool) -> Result<bool, RecordsError> {
        self.database
            .write(Durability::Now, move |rows| {
                rows::hold(rows, id, hold, held)
            })
            .await
            .map_err(unavailable)
    }

    async fn kept(&self, id: AssetId, limit: usize) -> Result<Option<KeptAsset>, RecordsError> {
        self.database
            .read(move |rows| rows::kept(rows, id, limit))
            .await
            .map_err(unavailable)
    }

    async fn remove(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Removal, RecordsError> {
        let account = account.clone();
        self.database
            .write(Durability::Now.end(), move |rows| {
                rows::remove(rows, &account, id, now)
            })
            .await
            .map_err(unavailable)
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, RecordsError> {
        self.database
            .write(Durability::Now.end(), move |rows| {
                rows::expire(rows, now, limit)
            })
            .await
            .map_err(unavailable)
    }

    async fn unreferenced(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        let hashes = hashes.to_vec();
        self.database
            .read(move |rows| rows::unreferenced(rows, hashes))
            .await
            .map_err(unavailable)
    }
}

#[async_trait]
impl FileNames for SqliteRecords {
    async fn named(
        &self,
        account: &AccountId,
        made_by_jobs: bool,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Asset>, RecordsError> {
        let account = account.clone();
        self.database
            .read(move |rows| rows::named(rows, &account, made_by_jobs, limit, now))
            .await
            .map_err(unavailable)
    }
}

fn unavailable(error: DatabaseError) -> RecordsError {
    RecordsError(Box::new(error))
}

#[cfg(test)]
mod tests;

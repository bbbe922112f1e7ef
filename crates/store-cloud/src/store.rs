//! A database and a bucket as the store of an installation: what programs choose.

mod inspect;
mod ports;
mod statistics;

use std::path::Path;
#[cfg(feature = "router")]
use std::sync::Arc;

use async_trait::async_trait;
use installation::{
    BoxError, Contents, CopyError, Installation, InstallationStore, OpenError, OpenOptions,
};
use jiff::Timestamp;
#[cfg(feature = "router")]
use router_core::Usage;
use secrecy::{ExposeSecret, SecretString};

#[cfg(feature = "router")]
use crate::PgUsage;
use crate::database::place_of;
use crate::statements::query_opt;
use crate::{
    BlobOptions, Bucket, BucketBlobs, BucketOptions, Database, DatabaseError, DatabaseOptions,
    PgKeys, transfer,
};

/// One database and one bucket, to be opened by any number of processes, or inspected.
#[derive(Clone, Debug)]
pub struct CloudStore {
    /// It may hold a password.
    address: SecretString,
    database: DatabaseOptions,
    bucket: BucketOptions,
    blobs: BlobOptions,
}

/// Why no backup is made here.
#[derive(Debug, thiserror::Error)]
#[error(
    "this installation is in PostgreSQL and a bucket, which have backups of their own: copy the database with pg_dump or continuous archiving, and let the bucket keep deleted objects for longer than a copy of the database is old (versioning with a lifecycle rule)"
)]
struct NoBackup;

impl CloudStore {
    /// The installation of the database at `address` and of this bucket, which need not exist yet; the bucket itself must.
    #[must_use]
    pub fn at(address: &str, database: DatabaseOptions, bucket: BucketOptions) -> Self {
        Self {
            address: address.into(),
            database,
            bucket,
            blobs: BlobOptions::default(),
        }
    }

    /// The installation that the addresses of a database and of a bucket name, with at most so many connections in this process.
    /// Passwords and keys come from the environment, or from files that it names.
    ///
    /// # Errors
    /// If an address has another form, or a file cannot be read.
    pub fn of(
        (address, bucket): (&SecretString, &str),
        connections: u32,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BoxError> {
        let database = DatabaseOptions {
            connections: connections as usize,
            ..DatabaseOptions::from_environment(&environment)?
        };
        let bucket = BucketOptions::from_url(bucket, &environment)?;
        Ok(Self::at(address.expose_secret(), database, bucket))
    }

    /// Where uploads wait, and how much of it they may take.
    #[must_use]
    pub fn with_blobs(mut self, blobs: BlobOptions) -> Self {
        self.blobs = blobs;
        self
    }

    pub(crate) fn database_options(&self) -> &DatabaseOptions {
        &self.database
    }

    pub(crate) fn blob_options(&self) -> &BlobOptions {
        &self.blobs
    }

    /// The database with this version's schema.
    async fn open_database(&self) -> Result<Database, OpenError> {
        self.open_database_with(self.database.clone()).await
    }

    /// The same with other options.
    pub(crate) async fn open_database_with(
        &self,
        options: DatabaseOptions,
    ) -> Result<Database, OpenError> {
        let opened = Database::open(self.address.expose_secret(), options).await;
        opened.map_err(failed)
    }

    /// The bucket, which answered.
    pub(crate) async fn open_bucket(&self) -> Result<Bucket, OpenError> {
        let bucket = Bucket::new(&self.bucket).map_err(failed)?;
        bucket.check().await.map_err(failed)?;
        Ok(bucket)
    }

    /// Database, secrets and blobs, each of which answered and all of one installation.
    async fn open_parts(&self, fresh: bool) -> Result<(Database, PgKeys, BucketBlobs), OpenError> {
        let database = self.open_database().await?;
        transfer::expect_settled(&database, &self.location()).await?;
        let bucket = self.open_bucket().await?;
        let keys = PgKeys::open(database.clone()).await.map_err(failed)?;
        let id = keys.installation_id().await.map_err(failed)?;
        bucket.claim(id, fresh).await.map_err(failed)?;
        let blobs = BucketBlobs::new(bucket, database.clone(), &self.blobs, Timestamp::now);
        Ok((database, keys, blobs))
    }

    async fn is_there(&self) -> Result<bool, OpenError> {
        const TABLE: &str = "SELECT 1 WHERE to_regclass('installation') IS NOT NULL";
        let address = self.address.expose_secret();
        let database = Database::connect(address, self.database.clone()).await;
        let database = database.map_err(failed)?;
        let looked = async {
            let connection = database.connection().await?;
            Ok::<_, DatabaseError>(match query_opt(&connection, TABLE, &[]).await? {
                Some(_) => query_opt(&connection, "SELECT 1 FROM installation", &[]).await?,
                None => None,
            })
        };
        Ok(looked.await.map_err(failed)?.is_some())
    }
}

#[async_trait]
impl InstallationStore for CloudStore {
    async fn open(&self, options: OpenOptions) -> Result<Installation, OpenError> {
        let (database, keys, blobs) = self.open_parts(options.fresh).await?;
        ports::installation(database, keys, blobs, options.tier)
            .await
            .map_err(failed)
    }

    async fn exists(&self) -> bool {
        self.is_there().await.unwrap_or_else(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "it is unknown whether there is an installation");
            false
        })
    }

    #[cfg(feature = "router")]
    async fn usage(&self) -> Result<Arc<dyn Usage>, OpenError> {
        Ok(Arc::new(PgUsage::new(&self.open_database().await?)))
    }

    async fn back_up(&self, _: &Path) -> Result<Contents, CopyError> {
        Err(CopyError(NoBackup.into()))
    }

    async fn inspect(&self) -> Result<(Contents, Vec<String>), CopyError> {
        let parts = self.open_parts(false).await;
        let (database, _, blobs) = parts.map_err(|error| CopyError(error.into()))?;
        let looked = inspect::inspect(&database, &blobs).await;
        looked.map_err(|error| CopyError(error.into()))
    }

    fn location(&self) -> String {
        let database = place_of(self.address.expose_secret());
        let bucket = &self.bucket;
        format!("{database} and s3://{}/{}", bucket.bucket, bucket.prefix)
    }
}

pub(crate) fn failed(error: impl Into<installation::BoxError>) -> OpenError {
    OpenError::Failed(error.into())
}

#[cfg(test)]
mod tests;

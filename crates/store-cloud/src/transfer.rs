//! An installation that moves into a database and a bucket, or out of them.
//!
//! The table `transfer` tells which: processes refuse the database until a move into it is finished, and from the moment on when a
//! move out of it begins. One process moves at a time, by an advisory lock.

mod documents;
mod finish;
mod mappings;
mod rows;

use std::sync::Arc;

use asset_store::BlobStore;
use async_trait::async_trait;
use installation::transfer::{
    Direction, Note, Part, Progress, Row, TransferSource, TransferStore, TransferTarget, Value,
};
use installation::{BoxError, InstallationStore as _, OpenError};
use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::columns::unreadable;
use crate::database::SERVING;
use crate::statements::{execute, query, query_opt};
use crate::store::failed;
use crate::{Bucket, BucketBlobs, CloudStore, Database, DatabaseError, DatabaseOptions};

/// The number of the advisory lock that one moving process has.
const LOCK: i64 = 0x6561_7365_6c03;

/// What connections of a moving process are called, unlike those of servers.
const APPLICATION: &str = "easel migrate";

/// What makes a database usable again whose installation was to move.
const UNDO: &str = "run `DELETE FROM transfer` in that database";

/// Why a place cannot be moved to or from now. The texts say what to do.
#[derive(Debug, thiserror::Error)]
enum NotNow {
    #[error("another process is moving {0}; wait for it to end")]
    Moving(String),
    #[error("there is no installation in {0}; name the database and the bucket that servers use")]
    Missing(String),
    #[error("{0} holds an installation already; name an empty database and bucket")]
    Taken(String),
    #[error("{0} connections of servers use the database; stop every process over it first")]
    Served(i64),
}

/// A database and a bucket that are read or filled as a whole.
struct CloudPlace {
    database: Database,
    bucket: Bucket,
    blobs: BucketBlobs,
    /// Has the lock.
    _client: Client,
    /// Drives it.
    connection: AbortHandle,
}

impl Drop for CloudPlace {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Refuses a database whose installation is somewhere else, or not all here.
pub(crate) async fn expect_settled(database: &Database, here: &str) -> Result<(), OpenError> {
    match read_note(database).await.map_err(failed)? {
        Some(note) => note.allows_opening(here, UNDO).map_err(failed),
        None => Ok(()),
    }
}

#[async_trait]
impl TransferStore for CloudStore {
    async fn source(&self) -> Result<Arc<dyn TransferSource>, OpenError> {
        let place = self.place().await?;
        let Some(id) = installation_id(&place.database).await.map_err(failed)? else {
            return Err(failed(NotNow::Missing(self.location())));
        };
        let note = read_note(&place.database).await.map_err(failed)?;
        if note.is_some_and(|note| note.direction == Direction::In) {
            expect_settled(&place.database, &self.location()).await?;
        }
        expect_unserved(&place.database).await?;
        place.bucket.claim(id, false).await.map_err(failed)?;
        Ok(Arc::new(place))
    }

    async fn target(&self, fresh: &Note) -> Result<Arc<dyn TransferTarget>, OpenError> {
        let place = self.place().await?;
        if read_note(&place.database).await.map_err(failed)?.is_none() {
            if installation_id(&place.database)
                .await
                .map_err(failed)?
                .is_some()
            {
                return Err(failed(NotNow::Taken(self.location())));
            }
            write_note(&place.database, fresh).await.map_err(failed)?;
        }
        Ok(Arc::new(place))
    }
}

impl CloudStore {
    /// Database and bucket, each of which answered; nobody else moves them.
    async fn place(&self) -> Result<CloudPlace, OpenError> {
        let options = DatabaseOptions {
            application: APPLICATION,
            ..self.database_options().clone()
        };
        let database = self.open_database_with(options).await?;
        let connected = database.listener().await.map_err(failed)?;
        let (client, connection) = connected;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection with the lock of the move ended");
            }
        });
        let connection = connection.abort_handle();
        let locked = client
            .query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK])
            .await;
        let is_locked: bool = locked
            .and_then(|row| row.try_get(0))
            .map_err(DatabaseError::from)
            .map_err(failed)?;
        if !is_locked {
            return Err(OpenError::InUse(NotNow::Moving(self.location()).into()));
        }
        let bucket = self.open_bucket().await?;
        let blobs = BucketBlobs::new(
            bucket.clone(),
            database.clone(),
            self.blob_options(),
            Timestamp::now,
        );
        Ok(CloudPlace {
            database,
            bucket,
            blobs,
            _client: client,
            connection,
        })
    }
}

#[async_trait]
impl TransferSource for CloudPlace {
    async fn note(&self) -> Result<Option<Note>, BoxError> {
        Ok(read_note(&self.database).await?)
    }

    async fn set_note(&self, note: &Note) -> Result<(), BoxError> {
        let before = read_note(&self.database).await?;
        write_note(&self.database, note).await?;
        // A process that started before the note was there is among those that are connected now.
        if note.direction == Direction::Out
            && let Err(served) = expect_unserved(&self.database).await
        {
            match before {
                Some(before) => write_note(&self.database, &before).await?,
                None => forget_note(&self.database).await?,
            }
            return Err(served.into());
        }
        Ok(())
    }

    async fn count(&self, part: &'static Part) -> Result<u64, BoxError> {
        Ok(rows::count(&self.database, part).await?)
    }

    async fn read(
        &self,
        part: &'static Part,
        after: Option<&[Value]>,
    ) -> Result<Vec<Row>, BoxError> {
        Ok(rows::read(&self.database, part, after).await?)
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(self.blobs.clone())
    }

    fn undo(&self) -> &'static str {
        UNDO
    }
}

#[async_trait]
impl TransferTarget for CloudPlace {
    async fn progress(&self, part: &'static Part) -> Result<Progress, BoxError> {
        let connection = self.database.connection().await?;
        let sql = "SELECT progress FROM transfer_progress WHERE part = $1";
        match query_opt(&connection, sql, &[&part.name]).await? {
            None => Ok(Progress::default()),
            Some(row) => Progress::from_bytes(row.try_get(0)?)
                .ok_or_else(|| "the progress cannot be read".into()),
        }
    }

    async fn write(
        &self,
        part: &'static Part,
        new: Vec<Row>,
        progress: &Progress,
    ) -> Result<(), BoxError> {
        if let ("installation", Some([Value::Bytes(id), ..])) =
            (part.name, new.first().map(|row| &row[..]))
        {
            // Before the rows say that the bucket is theirs.
            self.bucket.claim(Uuid::from_slice(id)?, false).await?;
        }
        let mut connection = self.database.connection().await?;
        let transaction = connection
            .transaction()
            .await
            .map_err(DatabaseError::from)?;
        rows::write(&transaction, part, new).await?;
        let sql = "INSERT INTO transfer_progress (part, progress) VALUES ($1, $2)
            ON CONFLICT (part) DO UPDATE SET progress = excluded.progress";
        execute(&transaction, sql, &[&part.name, &progress.to_bytes()]).await?;
        transaction.commit().await?;
        if progress.is_complete && part.name == "blobs" {
            // All rows are there, and are read in the order of their keys next.
            connection.batch_execute("ANALYZE").await?;
        }
        Ok(())
    }

    async fn finish(&self, note: &Note) -> Result<(), BoxError> {
        finish::finish(&self.database, note).await?;
        Ok(())
    }
}

async fn installation_id(database: &Database) -> Result<Option<Uuid>, DatabaseError> {
    let connection = database.connection().await?;
    let row = query_opt(&connection, "SELECT id FROM installation", &[]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Refuses a database that servers are connected to.
async fn expect_unserved(database: &Database) -> Result<(), OpenError> {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND split_part(application_name, ' - ', 1) = ANY($1)";
    let counted = async {
        let connection = database.connection().await?;
        let found = query(&connection, sql, &[&SERVING]).await?;
        Ok::<i64, DatabaseError>(found.first().map_or(Ok(0), |row| row.try_get(0))?)
    };
    match counted.await.map_err(failed)? {
        0 => Ok(()),
        count => Err(OpenError::InUse(NotNow::Served(count).into())),
    }
}

async fn read_note(database: &Database) -> Result<Option<Note>, DatabaseError> {
    let connection = database.connection().await?;
    let row = query_opt(&connection, "SELECT note FROM transfer", &[]).await?;
    let note = row.map(|row| {
        let text: &str = row.try_get(0)?;
        text.parse().map_err(unreadable)
    });
    note.transpose()
}

async fn write_note(database: &Database, note: &Note) -> Result<(), DatabaseError> {
    let connection = database.connection().await?;
    execute(&connection, NOTE, &[&note.to_string()]).await?;
    Ok(())
}

async fn forget_note(database: &Database) -> Result<(), DatabaseError> {
    let connection = database.connection().await?;
    execute(&connection, "DELETE FROM transfer", &[]).await?;
    Ok(())
}

/// Keeps the note in place of the one before.
const NOTE: &str =
    "INSERT INTO transfer (note) VALUES ($1) ON CONFLICT (one) DO UPDATE SET note = excluded.note";

#[cfg(test)]
mod tests;

//! Published models, in rows.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use router_core::CallsError;
use router_core::published::{Published, PublishedChange, PublishedModels, PublishedVersion};
use tokio_postgres::{IsolationLevel, Row};

use crate::calls::unavailable;
use crate::columns::{from_micros, parse, unreadable, unsigned};
use crate::statements::{execute, query, query_opt, whole};
use crate::{Database, DatabaseError};

/// Published models in a PostgreSQL database. Clones share it.
#[derive(Clone, Debug)]
pub struct PgPublishedModels {
    database: Database,
}

impl PgPublishedModels {
    /// The published models of this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    async fn newest(&self) -> Result<u64, DatabaseError> {
        let connection = self.database.connection().await?;
        revision(&connection).await
    }

    /// Both statements see one state of the rows.
    async fn all(&self) -> Result<Published, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await?;
        let sql =
            "SELECT model, version, text, calls, published_at, withdrawn_at FROM published_models";
        let versions = query(&rows, sql, &[]).await?;
        let versions: Vec<PublishedVersion> =
            versions.iter().map(read).collect::<Result<_, _>>()?;
        let revision = revision(&rows).await?;
        rows.commit().await?;
        Ok(Published::new(revision, versions))
    }

    async fn write(&self, change: &PublishedChange) -> Result<bool, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        // Changes are rare and one at a time; readers go on.
        rows.batch_execute("LOCK TABLE published_models IN EXCLUSIVE MODE")
            .await?;
        if revision(&rows).await? != change.after {
            return Ok(false);
        }
        for (model, version) in &change.forget {
            let sql = "DELETE FROM published_models WHERE model = $1 AND version = $2";
            execute(&rows, sql, &[&model.as_str(), &i64::from(*version)]).await?;
        }
        for version in &change.write {
            let calls: Vec<&str> = version.calls.iter().map(|id| id.as_str()).collect();
            let sql = "INSERT INTO published_models
                    (model, version, text, calls, changed, published_at, withdrawn_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7)
                ON CONFLICT (model, version) DO UPDATE SET text = excluded.text, calls = excluded.calls,
                    changed = excluded.changed, published_at = excluded.published_at,
                    withdrawn_at = excluded.withdrawn_at";
            execute(
                &rows,
                sql,
                &[
                    &version.model.as_str(),
                    &i64::from(version.version),
                    &&*version.text,
                    &calls.join(" "),
                    &whole(change.after + 1),
                    &version.published_at.as_microsecond(),
                    &version.withdrawn_at.map(|at| at.as_microsecond()),
                ],
            )
            .await?;
        }
        rows.commit().await?;
        Ok(true)
    }
}

#[async_trait]
impl PublishedModels for PgPublishedModels {
    async fn revision(&self) -> Result<u64, CallsError> {
        self.newest().await.map_err(unavailable)
    }

    async fn load(&self) -> Result<Published, CallsError> {
        self.all().await.map_err(unavailable)
    }

    async fn save(&self, change: &PublishedChange) -> Result<bool, CallsError> {
        self.write(change).await.map_err(unavailable)
    }
}

async fn revision(rows: &impl GenericClient) -> Result<u64, DatabaseError> {
    let sql = "SELECT coalesce(max(changed), 0) FROM published_models";
    let found = query_opt(rows, sql, &[]).await?;
    match found {
        Some(row) => unsigned(row.try_get(0)?),
        None => Ok(0),
    }
}

fn read(row: &Row) -> Result<PublishedVersion, DatabaseError> {
    let version: i64 = row.try_get(1)?;
    let calls: &str = row.try_get(3)?;
    let withdrawn_at: Option<i64> = row.try_get(5)?;
    Ok(PublishedVersion {
        model: parse(row.try_get(0)?)?,
        version: u32::try_from(version).map_err(unreadable)?,
        text: row.try_get::<_, &str>(2)?.into(),
        calls: calls
            .split_whitespace()
            .map(parse)
            .collect::<Result<_, _>>()?,
        published_at: from_micros(row.try_get(4)?)?,
        withdrawn_at: withdrawn_at.map(from_micros).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn published_models_in_rows_keep_the_contract() {
        if !testing::has_postgres() {
            return;
        }
        let url = testing::fresh_database().await;
        let one = PgPublishedModels::new(testing::open(&url).await);
        let other = PgPublishedModels::new(testing::open(&url).await);
        router_core::contract::published(&one, &other).await;
    }
}

//! Deployments of workers, in rows.

use std::sync::Arc;

use async_trait::async_trait;
use workflow_core::StoreError;
use workflow_core::deployment::{
    DeploymentEvent, DeploymentName, Deployments, MOST_EVENTS, NewEvent, StoredDeployment,
};

use crate::columns::{from_micros, parse, unsigned};
use crate::jobs::unavailable;
use crate::statements::{execute, query, query_opt, whole};
use crate::{Database, DatabaseError};

/// Deployments in a PostgreSQL database. Clones share it.
#[derive(Clone, Debug)]
pub struct PgDeployments {
    database: Database,
}

impl PgDeployments {
    /// The deployments of this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    async fn all(&self) -> Result<Vec<StoredDeployment>, DatabaseError> {
        let connection = self.database.connection().await?;
        let sql = "SELECT name, version, text FROM deployments ORDER BY name";
        let found = query(&connection, sql, &[]).await?;
        let read = found.iter().map(|row| {
            Ok(StoredDeployment {
                name: parse(row.try_get(0)?)?,
                version: unsigned(row.try_get(1)?)?,
                text: Arc::from(row.try_get::<_, &str>(2)?),
            })
        });
        read.collect()
    }

    /// The row is locked from its change on, so numbers of events are given one at a time.
    async fn write(
        &self,
        deployment: &StoredDeployment,
        events: &[NewEvent],
    ) -> Result<bool, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let (name, text) = (deployment.name.as_str(), &*deployment.text);
        let changed = match deployment.version {
            0 => {
                let sql = "INSERT INTO deployments (name, version, text) VALUES ($1, 1, $2)
                    ON CONFLICT DO NOTHING";
                execute(&rows, sql, &[&name, &text]).await?
            }
            version => {
                let sql = "UPDATE deployments SET version = version + 1, text = $2
                    WHERE name = $1 AND version = $3";
                execute(&rows, sql, &[&name, &text, &whole(version)]).await?
            }
        };
        if changed == 0 {
            return Ok(false);
        }
        if !events.is_empty() {
            let at: Vec<i64> = events
                .iter()
                .map(|event| event.at.as_microsecond())
                .collect();
            let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
            let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
            let add = "INSERT INTO deployment_events (deployment, number, at, kind, text)
                SELECT $1, place + (SELECT coalesce(max(number), 0) FROM deployment_events WHERE deployment = $1),
                    at, kind, text
                FROM unnest($2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY AS new (at, kind, text, place)";
            execute(&rows, add, &[&name, &at, &kinds, &texts]).await?;
            let forget = "DELETE FROM deployment_events WHERE deployment = $1 AND number <=
                (SELECT max(number) FROM deployment_events WHERE deployment = $1) - $2";
            execute(&rows, forget, &[&name, &whole(MOST_EVENTS)]).await?;
        }
        rows.commit().await?;
        Ok(true)
    }

    async fn newest(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, DatabaseError> {
        let connection = self.database.connection().await?;
        let sql = "SELECT number, at, kind, text FROM deployment_events
            WHERE deployment = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
        let before = before.map_or(i64::MAX, whole);
        let found = query(&connection, sql, &[&name.as_str(), &before, &whole(limit)]).await?;
        let read = found.iter().map(|row| {
            Ok(DeploymentEvent {
                number: unsigned(row.try_get(0)?)?,
                event: NewEvent {
                    at: from_micros(row.try_get(1)?)?,
                    kind: row.try_get(2)?,
                    text: row.try_get(3)?,
                },
            })
        });
        read.collect()
    }
}

#[async_trait]
impl Deployments for PgDeployments {
    async fn list(&self) -> Result<Vec<StoredDeployment>, StoreError> {
        self.all().await.map_err(unavailable)
    }

    async fn save(
        &self,
        deployment: &StoredDeployment,
        events: &[NewEvent],
    ) -> Result<bool, StoreError> {
        self.write(deployment, events).await.map_err(unavailable)
    }

    async fn remove(&self, name: &DeploymentName, version: u64) -> Result<bool, StoreError> {
        let removed = async {
            let connection = self.database.connection().await?;
            let sql = "DELETE FROM deployments WHERE name = $1 AND version = $2";
            execute(&connection, sql, &[&name.as_str(), &whole(version)]).await
        };
        removed.await.map(|rows| rows == 1).map_err(unavailable)
    }

    async fn events(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, StoreError> {
        let newest = self.newest(name, before, limit).await;
        newest.map_err(unavailable)
    }

    async fn keep_definitions(&self, name: &DeploymentName, text: &str) -> Result<(), StoreError> {
        let kept = async {
            let connection = self.database.connection().await?;
            let sql = "UPDATE deployments SET definitions = $2 WHERE name = $1";
            execute(&connection, sql, &[&name.as_str(), &text]).await
        };
        kept.await.map(|_| ()).map_err(unavailable)
    }

    async fn definitions(&self, name: &DeploymentName) -> Result<Option<String>, StoreError> {
        let found = async {
            let connection = self.database.connection().await?;
            let sql = "SELECT definitions FROM deployments WHERE name = $1";
            query_opt(&connection, sql, &[&name.as_str()]).await
        };
        let row = found.await.map_err(unavailable)?;
        Ok(row.and_then(|row| row.get(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn deployments_in_rows_keep_the_contract() {
        if !testing::has_postgres() {
            return;
        }
        let url = testing::fresh_database().await;
        let one = PgDeployments::new(testing::open(&url).await);
        let other = PgDeployments::new(testing::open(&url).await);
        workflow_core::contract::deployments(&one, &other).await;
    }
}

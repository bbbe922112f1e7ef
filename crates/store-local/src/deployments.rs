//! Deployments of workers, in rows.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use workflow_core::StoreError;
use workflow_core::deployment::{
    DeploymentEvent, DeploymentName, Deployments, MOST_EVENTS, NewEvent, StoredDeployment,
};

use crate::columns::{Micros, parse};
use crate::database::{Database, Durability};
use crate::jobs::unavailable;

/// Deployments in the database of a data directory. Clones share it.
#[derive(Clone, Debug)]
pub struct SqliteDeployments {
    database: Database,
}

impl SqliteDeployments {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl Deployments for SqliteDeployments {
    async fn list(&self) -> Result<Vec<StoredDeployment>, StoreError> {
        let listed = self.database.read(|rows| {
            let mut all =
                rows.prepare_cached("SELECT name, version, text FROM deployments ORDER BY name")?;
            all.query_map([], read)?.collect()
        });
        listed.await.map_err(unavailable)
    }

    async fn save(
        &self,
        deployment: &StoredDeployment,
        events: &[NewEvent],
    ) -> Result<bool, StoreError> {
        let (deployment, events) = (deployment.clone(), events.to_vec());
        // What an operator changes, or a worker did, is written on a full disk too.
        let saved = self.database.write(Durability::Now.end(), move |rows| {
            let is_saved = save(rows, &deployment)?;
            if is_saved {
                add_events(rows, &deployment.name, &events)?;
            }
            Ok(is_saved)
        });
        saved.await.map_err(unavailable)
    }

    async fn remove(&self, name: &DeploymentName, version: u64) -> Result<bool, StoreError> {
        let (name, version) = (name.clone(), whole(version));
        let removed = self.database.write(Durability::Now.end(), move |rows| {
            let version = params![name.as_str(), version];
            let is_it = rows
                .prepare_cached("SELECT 1 FROM deployments WHERE name = ?1 AND version = ?2")?
                .exists(version)?;
            if is_it {
                for sql in [
                    "DELETE FROM deployment_events WHERE deployment = ?1",
                    "DELETE FROM deployments WHERE name = ?1",
                ] {
                    rows.prepare_cached(sql)?.execute([name.as_str()])?;
                }
            }
            Ok(is_it)
        });
        removed.await.map_err(unavailable)
    }

    async fn events(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, StoreError> {
        let name = name.clone();
        let before = before.map_or(i64::MAX, whole);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let events = self.database.read(move |rows| {
            let mut newest = rows.prepare_cached(
                "SELECT number, at, kind, text FROM deployment_events
                 WHERE deployment = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
            )?;
            newest
                .query_map(params![name.as_str(), before, limit], read_event)?
                .collect()
        });
        events.await.map_err(unavailable)
    }

    async fn keep_definitions(&self, name: &DeploymentName, text: &str) -> Result<(), StoreError> {
        let (name, text) = (name.clone(), text.to_owned());
        let kept = self.database.write(Durability::Now, move |rows| {
            rows.prepare_cached("UPDATE deployments SET definitions = ?2 WHERE name = ?1")?
                .execute([name.as_str(), &text])?;
            Ok(())
        });
        kept.await.map_err(unavailable)
    }

    async fn definitions(&self, name: &DeploymentName) -> Result<Option<String>, StoreError> {
        let name = name.clone();
        let found = self.database.read(move |rows| {
            rows.prepare_cached("SELECT definitions FROM deployments WHERE name = ?1")?
                .query_row([name.as_str()], |row| row.get(0))
                .optional()
        });
        found.await.map(Option::flatten).map_err(unavailable)
    }
}

/// Writes a row over the version that was loaded; false if it is another one by now.
fn save(rows: &Connection, deployment: &StoredDeployment) -> rusqlite::Result<bool> {
    let changed = match deployment.version {
        0 => rows
            .prepare_cached(
                "INSERT INTO deployments (name, version, text) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute([deployment.name.as_str(), &deployment.text])?,
        version => rows
            .prepare_cached(
                "UPDATE deployments SET version = version + 1, text = ?2 WHERE name = ?1 AND version = ?3",
            )?
            .execute(params![deployment.name.as_str(), &*deployment.text, whole(version)])?,
    };
    Ok(changed == 1)
}

fn add_events(
    rows: &Connection,
    name: &DeploymentName,
    events: &[NewEvent],
) -> rusqlite::Result<()> {
    let last: i64 = rows
        .prepare_cached(
            "SELECT coalesce(max(number), 0) FROM deployment_events WHERE deployment = ?1",
        )?
        .query_row([name.as_str()], |row| row.get(0))?;
    let mut number = last;
    for event in events {
        number += 1;
        rows.prepare_cached(
            "INSERT INTO deployment_events (deployment, number, at, kind, text) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            name.as_str(),
            number,
            Micros(event.at),
            event.kind,
            event.text
        ])?;
    }
    if !events.is_empty() {
        rows.prepare_cached(
            "DELETE FROM deployment_events WHERE deployment = ?1 AND number <= ?2",
        )?
        .execute(params![name.as_str(), number - whole(MOST_EVENTS)])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredDeployment> {
    let name: String = row.get(0)?;
    let text: String = row.get(2)?;
    Ok(StoredDeployment {
        name: parse(&name)?,
        version: row.get::<_, i64>(1)?.cast_unsigned(),
        text: Arc::from(text),
    })
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<DeploymentEvent> {
    let Micros(at) = row.get(1)?;
    Ok(DeploymentEvent {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        event: NewEvent {
            at,
            kind: row.get(2)?,
            text: row.get(3)?,
        },
    })
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::Store;

    #[tokio::test]
    async fn deployments_in_rows_keep_the_contract() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(root.path()).expect("it is new");
        let (one, other) = (store.deployments(), store.deployments());
        workflow_core::contract::deployments(&one, &other).await;
    }
}

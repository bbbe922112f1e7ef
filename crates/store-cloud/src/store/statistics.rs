//! What the database says of itself, read once in a while for metrics, and its clock, for what goes by the time.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use installation::DatabaseLoad;

use crate::columns::unsigned;
use crate::statements::query;
use crate::{Database, DatabaseError};

/// How often. The views are cheap, and what they show changes slowly.
const INTERVAL: Duration = Duration::from_secs(30);

/// Tables whose rows change all the time: they stay small only as long as the vacuum keeps up.
const HOT: &[&str] = &[
    "call_keys",
    "call_permits",
    "call_windows",
    "credit_holds",
    "credits",
    "generations_running",
    "job_accounts",
    "job_changes",
    "job_queue",
    "job_runs",
    "job_turns",
    "jobs",
    "queued_calls",
    "stored_bytes",
];

/// The newest of it. Clones share it; the task that reads ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Statistics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    database: Database,
    latest: Mutex<Option<DatabaseLoad>>,
}

impl Statistics {
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(super) fn start(database: Database) -> Self {
        let shared = Arc::new(Shared {
            database,
            latest: Mutex::default(),
        });
        tokio::spawn(follow(Arc::downgrade(&shared)));
        Self(shared)
    }

    pub(super) fn latest(&self) -> Option<DatabaseLoad> {
        let latest = self.0.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads until nobody is left; it keeps no connection open meanwhile.
async fn follow(shared: Weak<Shared>) {
    while let Some(shared) = Weak::upgrade(&shared) {
        let database = &shared.database;
        let load = database
            .watched()
            .watch(read(database))
            .await
            .inspect_err(|error| {
                tracing::debug!(%error, "the statistics of the database could not be read");
            });
        if let Err(error) = database.watched().watch(database.compare_clocks()).await {
            tracing::debug!(%error, "the database did not tell its time");
        }
        *shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = load.ok();
        drop(shared);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Reads views that every user may read.
async fn read(database: &Database) -> Result<DatabaseLoad, DatabaseError> {
    const LOG: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    const DEAD: &str = "SELECT relname::text, n_dead_tup FROM pg_stat_user_tables
        WHERE schemaname = current_schema() AND relname = ANY($1)";
    let connection = database.connection().await?;
    let log = query(&connection, LOG, &[]).await?;
    let log = log.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
    let found = query(&connection, DEAD, &[&HOT]).await?;
    let mut dead_rows = Vec::with_capacity(HOT.len());
    for row in &found {
        let (name, dead): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        let table = HOT.iter().find(|table| **table == name);
        if let Some(table) = table {
            dead_rows.push((*table, unsigned(dead)?));
        }
    }
    dead_rows.sort_unstable();
    Ok(DatabaseLoad {
        log_bytes: unsigned(log)?,
        dead_rows: dead_rows.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn every_hot_table_tells_its_dead_rows_and_the_log_grows() {
        if !testing::has_postgres() {
            return;
        }
        let database = testing::database().await;
        let before = read(&database).await.expect("an answer");
        let tables: Vec<&str> = before.dead_rows.iter().map(|(table, _)| *table).collect();
        assert_eq!(tables, HOT);
        let connection = database.connection().await.expect("it answers");
        let written =
            "INSERT INTO call_quotas (account) SELECT n::text FROM generate_series(1, 1000) AS n";
        connection
            .batch_execute(written)
            .await
            .expect("it is written");
        let after = read(&database).await.expect("an answer");
        assert!(after.log_bytes > before.log_bytes, "{before:?} {after:?}");
    }
}

//! Brings the schema of a database up to this version, one process at a time.
//!
//! Migrations go forward only. Each adds what the version before does not mind, so that both may run during a rolling restart.

use deadpool_postgres::Transaction;

use crate::{Database, DatabaseOpenError};

/// Aggregates with their files; the number of a file is its place, from 1.
pub(crate) type Schema = &'static [(&'static str, &'static [&'static str])];

/// The number of the advisory lock that one migrating process has.
const LOCK: i64 = 0x6561_7365_6c00;

/// Runs what is missing, in one transaction.
pub(crate) async fn run(database: &Database, schema: Schema) -> Result<(), DatabaseOpenError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    rows.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    rows.batch_execute(
        "CREATE TABLE IF NOT EXISTS migrations (aggregate text PRIMARY KEY, version integer NOT NULL)",
    )
    .await?;
    for (aggregate, files) in schema {
        one(&rows, aggregate, files).await?;
    }
    rows.commit().await?;
    Ok(())
}

async fn one(
    rows: &Transaction<'_>,
    aggregate: &str,
    files: &[&str],
) -> Result<(), DatabaseOpenError> {
    let row = rows
        .query_opt(
            "SELECT version FROM migrations WHERE aggregate = $1",
            &[&aggregate],
        )
        .await?;
    let found: i32 = row.map_or(0, |row| row.get(0));
    let done = usize::try_from(found).unwrap_or_default();
    if done > files.len() {
        return Err(DatabaseOpenError::Newer {
            aggregate: aggregate.to_owned(),
            found,
            known: files.len(),
        });
    }
    if done == files.len() {
        return Ok(());
    }
    for sql in &files[done..] {
        rows.batch_execute(sql).await?;
    }
    let version = i32::try_from(files.len()).expect("few files");
    rows.execute(
        "INSERT INTO migrations VALUES ($1, $2) ON CONFLICT (aggregate) DO UPDATE SET version = $2",
        &[&aggregate, &version],
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_schema_of_a_newer_program_is_refused() {
        if !crate::testing::has_postgres() {
            return;
        }
        let database = testing::database().await;
        let connection = database.connection().await.expect("it answers");
        connection
            .batch_execute("UPDATE migrations SET version = 1000 WHERE aggregate = 'jobs'")
            .await
            .expect("the table is there");
        let refused = run(&database, crate::schema::SCHEMA).await;
        let refused = refused.expect_err("it is newer").to_string();
        assert!(refused.ends_with("start the newer program"), "{refused}");
    }

    #[tokio::test]
    async fn two_processes_migrate_one_database_once() {
        if !crate::testing::has_postgres() {
            return;
        }
        let url = testing::empty_database().await;
        let open = || Database::open(&url, crate::DatabaseOptions::default());
        let (one, two) = tokio::join!(open(), open());
        one.expect("it opens");
        two.expect("it opens");
    }
}

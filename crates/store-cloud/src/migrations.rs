//! Brings the schema of a database up to this version, one process at a time.
//!
//! Migrations go forward only. Each adds what the version before does not mind, so that both may run during a rolling restart.
//!
//! Tables are changed while processes of the version before use them. While a change waits for a table, every later transaction on
//! this table waits behind it. A change and a transaction that wait for each other are a deadlock, and PostgreSQL ends one of them. So
//! a change waits only for a short time. Then it is rolled back as a whole, and tried again.

use std::time::Duration;

use deadpool_postgres::{Object, Transaction};
use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;

use crate::{Database, DatabaseError, DatabaseOpenError};

/// Aggregates with their files; the number of a file is its place, from 1.
pub(crate) type Schema = &'static [(&'static str, &'static [&'static str])];

/// The number of the advisory lock that one migrating process has.
const LOCK: i64 = 0x6561_7365_6c00;

/// For how long changes are tried.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause before they are tried again, in which others have their turn.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a change waits for a table: less than the second after which PostgreSQL looks for deadlocks.
const GIVE_WAY: &str = "SET LOCAL lock_timeout = '500ms'";

/// Runs what is missing, in one transaction. If others are in its way, it is tried again.
pub(crate) async fn run(database: &Database, schema: Schema) -> Result<(), DatabaseOpenError> {
    run_within(database, schema, PATIENCE).await
}

async fn run_within(
    database: &Database,
    schema: Schema,
    patience: Duration,
) -> Result<(), DatabaseOpenError> {
    let mut connection = database.connection().await?;
    // Of the session and not of the transaction, so that it also holds in the pauses: other processes that start would fill them. It
    // is waited for without a bound, since another process may be at it for long.
    connection
        .execute("SELECT pg_advisory_lock($1)", &[&LOCK])
        .await?;
    let done = attempts(&mut connection, schema, patience).await;
    let freed = connection
        .execute("SELECT pg_advisory_unlock($1)", &[&LOCK])
        .await;
    done?;
    freed?;
    Ok(())
}

async fn attempts(
    connection: &mut Object,
    schema: Schema,
    patience: Duration,
) -> Result<(), DatabaseOpenError> {
    let began = Instant::now();
    loop {
        let error = match attempt(connection, schema).await {
            Err(DatabaseOpenError::Database(error)) if is_in_the_way(&error) => error,
            done => return done,
        };
        if began.elapsed() >= patience {
            return Err(DatabaseOpenError::Locked {
                seconds: began.elapsed().as_secs(),
                error,
            });
        }
        tracing::warn!(
            "the schema could not be changed while other transactions use its tables; trying again"
        );
        sleep(AGAIN).await;
    }
}

/// Whether other transactions were in the way.
fn is_in_the_way(error: &DatabaseError) -> bool {
    let of_others = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    match error {
        DatabaseError::Failed(error) => error.code().is_some_and(|code| of_others.contains(code)),
        DatabaseError::NoConnection(_)
        | DatabaseError::Batch(_)
        | DatabaseError::Unreadable(_)
        | DatabaseError::Closing => false,
    }
}

async fn attempt(connection: &mut Object, schema: Schema) -> Result<(), DatabaseOpenError> {
    let rows = connection.transaction().await?;
    rows.batch_execute(GIVE_WAY).await?;
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
    use tokio::time::timeout;

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

    const TABLES: &str = "CREATE TABLE one (a int); CREATE TABLE two (a int)";
    /// Two tables, and what a newer version adds to both, one after the other.
    const BEFORE: Schema = &[("pair", &[TABLES])];
    const AFTER: Schema = &[(
        "pair",
        &[
            TABLES,
            "ALTER TABLE one ADD COLUMN b int; ALTER TABLE two ADD COLUMN b int",
        ],
    )];

    /// A database with the two tables.
    async fn pair() -> Database {
        let url = testing::empty_database().await;
        let opened = Database::connect(&url, crate::DatabaseOptions::default()).await;
        let database = opened.expect("it opens");
        run(&database, BEFORE).await.expect("it is empty");
        database
    }

    /// Whether small blobs are in rows right after an upgrade from the version without bytes.
    async fn in_rows_at_once(database: &Database) -> bool {
        const BLOBS: Schema = &[(
            "blobs",
            &[
                include_str!("../migrations/blobs/0001.sql"),
                include_str!("../migrations/blobs/0002.sql"),
            ],
        )];
        run(database, BLOBS).await.expect("it goes forward");
        let connection = database.connection().await.expect("it answers");
        let row = connection.query_one("SELECT in_rows FROM blob_form", &[]);
        row.await.expect("it is there").get(0)
    }

    /// A database as the version without bytes left it.
    async fn without_bytes(url: &str) -> Database {
        const BEFORE: Schema = &[("blobs", &[include_str!("../migrations/blobs/0001.sql")])];
        let opened = Database::connect(url, crate::DatabaseOptions::default()).await;
        let database = opened.expect("it opens");
        run(&database, BEFORE).await.expect("it is empty");
        database
    }

    #[tokio::test]
    async fn bytes_go_to_rows_at_once_where_no_version_before_may_read_them() {
        if !crate::testing::has_postgres() {
            return;
        }
        let fresh = without_bytes(&testing::empty_database().await).await;
        assert!(in_rows_at_once(&fresh).await);

        let used = without_bytes(&testing::empty_database().await).await;
        let connection = used.connection().await.expect("it answers");
        let put = "INSERT INTO blob_ages VALUES (sha256(''), 0, true)";
        connection.batch_execute(put).await.expect("it is a blob");
        assert!(!in_rows_at_once(&used).await, "it has a blob");

        let url = testing::empty_database().await;
        let served = without_bytes(&url).await;
        let before = crate::DatabaseOptions {
            application: crate::database::SERVING[1],
            ..crate::DatabaseOptions::default()
        };
        let before = Database::connect(&url, before).await.expect("it opens");
        let _connection = before.connection().await.expect("it answers");
        assert!(
            !in_rows_at_once(&served).await,
            "a version before is connected"
        );
    }

    /// Returns once a transaction waits for this table.
    async fn is_awaited(database: &Database, table: &str) {
        let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass)";
        let connection = database.connection().await.expect("it answers");
        loop {
            let row = connection.query_one(sql, &[&table]).await;
            if row.expect("it answers").get(0) {
                return;
            }
        }
    }

    /// A process of the version before has the second table and wants the first one, which the change has while it waits for the
    /// second.
    #[tokio::test]
    async fn a_change_gives_way_to_those_that_serve() {
        if !crate::testing::has_postgres() {
            return;
        }
        let database = pair().await;
        let mut serving = database.connection().await.expect("it answers");
        let serving = serving.transaction().await.expect("it begins");
        // However slow the machine is, the change gives way first.
        let late = serving
            .batch_execute("SET LOCAL deadlock_timeout = '20s'")
            .await;
        late.expect("the user of tests may");
        let has = serving.batch_execute("INSERT INTO two VALUES (1)").await;
        has.expect("it is there");
        let wants = async {
            is_awaited(&database, "two").await;
            let wants = serving.batch_execute("INSERT INTO one VALUES (1)").await;
            wants.expect("the transaction that serves goes on");
            serving.commit().await.expect("it is written");
        };
        let both = async { tokio::join!(run(&database, AFTER), wants).0 };
        let changed = timeout(Duration::from_secs(60), both).await;
        changed
            .expect("nobody waits for ever")
            .expect("it is tried again");
        let connection = database.connection().await.expect("it answers");
        let both = connection.query("SELECT one.b, two.b FROM one, two", &[]);
        assert_eq!(both.await.expect("both are changed").len(), 1);
    }

    #[tokio::test]
    async fn a_change_that_is_not_let_in_is_given_up_with_a_sentence() {
        if !crate::testing::has_postgres() {
            return;
        }
        let database = pair().await;
        let mut holding = database.connection().await.expect("it answers");
        let holding = holding.transaction().await.expect("it begins");
        let has = holding.batch_execute("LOCK TABLE two").await;
        has.expect("it is there");
        let refused = run_within(&database, AFTER, Duration::ZERO).await;
        let refused = refused.expect_err("the table is not free").to_string();
        assert!(refused.contains("pg_stat_activity"), "{refused}");
        // Nothing of it is there.
        let columns = "SELECT FROM information_schema.columns WHERE table_name = 'one'";
        let columns = holding.query(columns, &[]).await.expect("it answers");
        assert_eq!(columns.len(), 1);
        holding.commit().await.expect("it ends");
        run(&database, AFTER).await.expect("the table is free");
    }
}

//! Forward-only changes of the schema: one folder of numbered files per aggregate.
//!
//! A file that was released never changes; what comes later is a new file.

use std::collections::HashMap;

use rusqlite::{Connection, TransactionBehavior};

use crate::OpenError;

/// The files of each aggregate, in the order of their numbers, which start at 1.
const AGGREGATES: &[(&str, &[&str])] = &[
    ("store", &[include_str!("../../migrations/store/0001.sql")]),
    (
        "assets",
        &[include_str!("../../migrations/assets/0001.sql")],
    ),
    (
        "accounts",
        &[include_str!("../../migrations/accounts/0001.sql")],
    ),
    (
        "jobs",
        &[
            include_str!("../../migrations/jobs/0001.sql"),
            include_str!("../../migrations/jobs/0002.sql"),
        ],
    ),
    ("calls", &[include_str!("../../migrations/calls/0001.sql")]),
    (
        "user_files",
        &[include_str!("../../migrations/user_files/0001.sql")],
    ),
];

/// The database was written by another version of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the database was written by a newer version of this program ({aggregate} {number} is unknown to this one); start that version or a later one"
)]
pub struct MigrationError {
    /// The part of the database that is newer.
    pub aggregate: String,
    /// Its newest change.
    pub number: u32,
}

/// Applies what is missing, all of it or nothing.
pub(super) fn run(connection: &mut Connection) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::Database(error.into());
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let applied = applied(&transaction).map_err(failed)?;
    refuse_newer(&applied)?;
    for (aggregate, files) in AGGREGATES {
        let newest = applied.get(*aggregate).copied().unwrap_or(0);
        for (number, sql) in (1..).zip(*files).filter(|(number, _)| *number > newest) {
            transaction.execute_batch(sql).map_err(failed)?;
            let row = (aggregate, number);
            transaction
                .execute(
                    "INSERT INTO migrations (aggregate, number) VALUES (?1, ?2)",
                    row,
                )
                .map_err(failed)?;
            tracing::info!(aggregate, number, "migrated the database");
        }
    }
    transaction.commit().map_err(failed)
}

/// The newest change of each aggregate that the database has.
fn applied(connection: &Connection) -> rusqlite::Result<HashMap<String, u32>> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
            aggregate TEXT NOT NULL,
            number INTEGER NOT NULL,
            PRIMARY KEY (aggregate, number)
        ) STRICT, WITHOUT ROWID",
    )?;
    let mut statement =
        connection.prepare("SELECT aggregate, max(number) FROM migrations GROUP BY aggregate")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn refuse_newer(applied: &HashMap<String, u32>) -> Result<(), MigrationError> {
    for (aggregate, number) in applied {
        let known = AGGREGATES
            .iter()
            .find(|(name, _)| name == aggregate)
            .map_or(0, |(_, files)| files.len());
        if *number as usize > known {
            return Err(MigrationError {
                aggregate: aggregate.clone(),
                number: *number,
            });
        }
    }
    Ok(())
}

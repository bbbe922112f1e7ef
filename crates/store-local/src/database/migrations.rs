//! Forward-only changes of the schema: one folder of numbered files per aggregate.
//!
//! A file that was released never changes; what comes later is a new file.

use std::collections::HashMap;

use rusqlite::{Connection, TransactionBehavior};

use crate::open_error::OpenError;

/// The files of each aggregate, in the order of their numbers, which start at 1.
pub(crate) type Schema = &'static [(&'static str, &'static [&'static str])];

/// The database was written by another version of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// By a newer one.
    #[error(
        "the database was written by a newer version of this program ({aggregate} {number} is unknown to this one); start that version or a later one"
    )]
    Newer {
        /// The part of the database that is newer.
        aggregate: String,
        /// Its newest change.
        number: u32,
    },
    /// By an older one, where nothing may be changed.
    #[error(
        "the database was written by an older version of this program; start a server of this version once, which brings it up to date"
    )]
    Older,
}

/// Applies what is missing, all of it or nothing.
pub(super) fn run(connection: &mut Connection, schema: Schema) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::Database(error.into());
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    transaction
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS migrations (
                aggregate TEXT NOT NULL,
                number INTEGER NOT NULL,
                PRIMARY KEY (aggregate, number)
            ) STRICT, WITHOUT ROWID",
        )
        .map_err(failed)?;
    let applied = applied(&transaction).map_err(failed)?;
    refuse_newer(&applied, schema)?;
    let mut changes = 0;
    for (aggregate, files) in schema {
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
            tracing::debug!(aggregate, number, "changed the database");
            changes += 1;
        }
    }
    transaction.commit().map_err(failed)?;
    // A database that was made just now is no news to its operator; one that an older version cannot open any more is.
    if changes > 0 && !applied.is_empty() {
        tracing::info!(
            changes,
            "migrated the database; older versions do not open it any more"
        );
    }
    Ok(())
}

/// Fails unless a database has every change that this version knows, and no other.
pub(super) fn expect_current(connection: &Connection, schema: Schema) -> Result<(), OpenError> {
    let applied = applied(connection).map_err(|error| OpenError::Database(error.into()))?;
    refuse_newer(&applied, schema)?;
    let has_all = |(aggregate, files): &(&str, &[&str])| {
        let newest = applied.get(*aggregate).copied().unwrap_or(0);
        newest as usize == files.len()
    };
    if schema.iter().all(has_all) {
        Ok(())
    } else {
        Err(MigrationError::Older.into())
    }
}

/// The newest change of each aggregate that the database has.
fn applied(connection: &Connection) -> rusqlite::Result<HashMap<String, u32>> {
    let mut statement =
        connection.prepare("SELECT aggregate, max(number) FROM migrations GROUP BY aggregate")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn refuse_newer(applied: &HashMap<String, u32>, schema: Schema) -> Result<(), MigrationError> {
    for (aggregate, number) in applied {
        let known = schema
            .iter()
            .find(|(name, _)| name == aggregate)
            .map_or(0, |(_, files)| files.len());
        if *number as usize > known {
            return Err(MigrationError::Newer {
                aggregate: aggregate.clone(),
                number: *number,
            });
        }
    }
    Ok(())
}

//! Damage in the file of the rows: what SQLite's own check finds of it.
//!
//! The check knows the structure of pages, rows and columns. It does not see a flipped bit inside of a text or a number, which
//! is why blobs are verified by their hashes and rows are backed up.

use std::path::Path;

use rusqlite::Connection;

use crate::health::Health;

/// A database up to this size is looked through before anything else, which takes a few tenths of a second at most. A larger
/// one is looked through while the server runs.
const SMALL_BYTES: u64 = 64 << 20;

/// What is wrong, a line each; nothing when the database is sound.
pub(super) fn quick_check(rows: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = rows.prepare("PRAGMA quick_check")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = lines.collect::<Result<Vec<_>, _>>()?;
    found.retain(|line| line != "ok");
    Ok(found)
}

/// Looks through a small database at its start; `false` if it is damaged.
pub(super) fn check_small(
    rows: &Connection,
    path: &Path,
    health: &Health,
) -> rusqlite::Result<bool> {
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    if bytes > SMALL_BYTES {
        return Ok(true);
    }
    let found = quick_check(rows)?;
    report(&found, health);
    Ok(found.is_empty())
}

/// Refuses every write from now on if something was found, and logs it.
pub(super) fn report(found: &[String], health: &Health) {
    let Some(first) = found.first() else {
        return;
    };
    // A line may have several, one for each page.
    let first = first.lines().next().unwrap_or_default();
    let lines = found.len();
    tracing::error!(
        first,
        lines,
        "main.db is damaged; restore the data directory from a backup"
    );
    health.poison(&format_args!(
        "main.db is damaged: {first}; restore the data directory from a backup"
    ));
}

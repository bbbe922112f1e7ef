//! Damage in the file of the rows: what SQLite's own check finds of it.
//!
//! The check knows the structure of pages, rows and columns. It does not see a flipped bit inside of a text or a number, which
//! is why blobs are verified by their hashes and rows are backed up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::connection;
use crate::directory::Directory;
use crate::health::Health;

/// A database up to this size is looked through before anything else, which takes a few tenths of a second at most. Every one is
/// looked through while the server runs, and more thoroughly.
const SMALL_BYTES: u64 = 64 << 20;

/// How much a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Pages, rows and their columns.
    Quick,
    /// Whether indexes have what the tables have, too, which reads everything several times.
    Whole,
}

/// What is wrong, a line each; nothing when the database is sound.
fn complaints(rows: &Connection, depth: Depth) -> rusqlite::Result<Vec<String>> {
    let mut statement = rows.prepare(match depth {
        Depth::Quick => "PRAGMA quick_check",
        Depth::Whole => "PRAGMA integrity_check",
    })?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = lines.collect::<Result<Vec<_>, _>>()?;
    found.retain(|line| line != "ok");
    Ok(found)
}

/// How many steps of SQLite pass between two looks whether a check is still wanted: less than a millisecond.
const STEPS: i32 = 10_000;

/// Stops a check when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// What the check asks.
    pub(super) fn is_over(&self) -> impl FnMut() -> bool + Send + use<> {
        let over = Arc::clone(&self.0);
        move || over.load(Ordering::Relaxed)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks through everything on a connection of its own, so that it takes none from those who read, until `is_over`.
pub(super) fn check_whole(
    directory: &Directory,
    is_over: impl FnMut() -> bool + Send + 'static,
) -> rusqlite::Result<Vec<String>> {
    let mut rows = connection::open_reading(&directory.database())?;
    rows.progress_handler(STEPS, Some(is_over))?;
    complaints(&rows, Depth::Whole)
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
    let found = complaints(rows, Depth::Quick)?;
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

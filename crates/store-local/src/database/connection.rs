//! Connections and their settings.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// Earlier versions can corrupt a database when a checkpoint meets the reset of the log.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Room for prepared statements: more than there are distinct ones.
const STATEMENTS: usize = 128;

/// Pages kept in memory, in KiB.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
const READER_CACHE_KIB: i64 = 2 * 1024;

/// The log is cut back to this size after it grew beyond it.
const LOG_BYTES: i64 = 64 << 20;

/// Opens the connection that writes.
pub(super) fn open_writing(path: &Path) -> rusqlite::Result<Connection> {
    // SQLite is compiled in, so this can only fail after a change of its version in the manifest.
    assert!(
        rusqlite::version_number() >= OLDEST_SQLITE,
        "SQLite {} can corrupt its log; 3.51.3 or newer is needed",
        rusqlite::version()
    );
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = open(path, flags, WRITER_CACHE_KIB)?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    assert_eq!(
        mode, "wal",
        "a database in a file can have a write-ahead log"
    );
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    // The writing thread checkpoints by itself: the automatic one would hide a failed fsync.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// Whether closing the last connection leaves the log as it is, in place of writing it back and removing it.
pub(crate) fn keep_log_on_close(connection: &Connection, keeps: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps)?;
    Ok(())
}

/// Opens a connection that only reads. The database must be there.
pub(super) fn open_reading(path: &Path) -> rusqlite::Result<Connection> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, READER_CACHE_KIB)
}

fn open(path: &Path, flags: OpenFlags, cache_kib: i64) -> rusqlite::Result<Connection> {
    // A connection is used by one thread at a time, so SQLite need not lock it.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    // Before anything that may fail: a start that does leaves the log as it was. Written back into a damaged database it would be
    // lost with it.
    keep_log_on_close(&connection, true)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise a statement with a bound limit, and many another one, is compiled again whenever its values change, which takes
    // ten times as long as running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // A fault of the disk behind mapped memory would kill the process.
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Negative means KiB rather than pages.
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    Ok(connection)
}

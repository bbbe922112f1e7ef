//! The rows that belong to the log of calls: up to which place of its files everything is in rows, and what waits beside them.
//!
//! Every build has this, with the router or without: a backup has what is in the log, whichever program makes it.

use rusqlite::{Connection, params};

use crate::log_files::{self, Contents, LogName, LogPosition};

/// What the files of the log are called.
pub(crate) const LOG: LogName = LogName("calls");

/// Reads the entries that are not in the rows of calls yet, and answers where the next epoch begins.
pub(crate) fn pending(
    rows: &Connection,
    contents: &Contents,
) -> rusqlite::Result<(Vec<u8>, LogPosition)> {
    let mut entries = Vec::new();
    let mut waiting = rows.prepare("SELECT entries FROM call_log ORDER BY seq")?;
    for row in waiting.query_map([], |row| row.get::<_, Vec<u8>>(0))? {
        entries.extend(row?);
    }
    let from = rows.query_row("SELECT epoch, \"offset\" FROM call_log_place", [], |row| {
        Ok(LogPosition {
            epoch: row.get::<_, i64>(0)?.cast_unsigned(),
            offset: row.get::<_, i64>(1)?.cast_unsigned(),
        })
    })?;
    if log_files::is_damaged(contents, from) {
        report_damage();
    }
    entries.extend(log_files::entries(contents, from));
    let next = LogPosition {
        // Behind the epoch that may have followed.
        epoch: from.epoch + 2,
        offset: 0,
    };
    Ok((entries, next))
}

/// Writes the entries that wait for a later transaction, and that everything before a place of the files is in rows.
pub(crate) fn set_pending(
    rows: &Connection,
    entries: &[u8],
    place: LogPosition,
) -> rusqlite::Result<()> {
    rows.prepare_cached("DELETE FROM call_log")?.execute([])?;
    if !entries.is_empty() {
        rows.prepare_cached("INSERT INTO call_log (entries) VALUES (?1)")?
            .execute([entries])?;
    }
    rows.prepare_cached("UPDATE call_log_place SET epoch = ?1, \"offset\" = ?2")?
        .execute(params![
            place.epoch.cast_signed(),
            place.offset.cast_signed()
        ])?;
    Ok(())
}

/// Keeps what is in the files in a row, for a program that knows what it means: the next one with the router reads it first.
#[cfg(any(test, not(feature = "router")))]
pub(crate) fn park(rows: &Connection, contents: &Contents) -> rusqlite::Result<()> {
    let (entries, next) = pending(rows, contents)?;
    set_pending(rows, &entries, next)
}

/// Tells the operator that entries may be lost.
pub(crate) fn report_damage() {
    tracing::error!(
        "a file calls-0.log or calls-1.log is damaged: calls that ended within the last quarter of a second before the server stopped may be missing from usage and ledger, and a retry with one of their keys may run again"
    );
}

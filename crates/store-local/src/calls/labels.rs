//! The SQL of the labels of calls.

use accounts::Labels;
use router_core::Generation;
use rusqlite::{Connection, Row, params};

use super::event::Labelled;
use crate::columns::{Id, Micros, unreadable};

/// A text that is no record of labels.
#[derive(Debug, thiserror::Error)]
#[error("the labels of a call cannot be read")]
struct Unreadable;

/// Writes down the labels of the call that begins a generation.
pub(super) fn begin(rows: &Connection, generation: &Generation) -> rusqlite::Result<()> {
    match router_core::write_labels(&generation.labels) {
        Some(labels) => insert(rows, &Labelled::of_generation(generation, &labels)),
        None => Ok(()),
    }
}

/// Writes down the labels of a call, once.
pub(super) fn insert(rows: &Connection, labelled: &Labelled<'_>) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT INTO call_labels (received_at, request, labels) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        labelled.received_at,
        Id(labelled.request),
        labelled.labels
    ])?;
    Ok(())
}

/// The column `labels` of a row that may have some.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Labels> {
    let text: Option<String> = row.get("labels")?;
    let Some(text) = text else {
        return Ok(Labels::NONE);
    };
    router_core::read_labels(&text).ok_or_else(|| unreadable(Unreadable))
}

/// Forgets those of calls that came before, and whose generations and queued requests are gone; among the `limit` oldest.
pub(super) fn expire(rows: &Connection, keep_from: Micros, limit: i64) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "DELETE FROM call_labels WHERE (received_at, request) IN (
            SELECT received_at, request FROM call_labels WHERE received_at < ?1 ORDER BY received_at, request LIMIT ?2)
            AND NOT EXISTS (SELECT 1 FROM generations WHERE id = call_labels.request)
            AND NOT EXISTS (SELECT 1 FROM queued_calls WHERE id = call_labels.request)",
    )?
    .execute(params![keep_from, limit])?;
    Ok(())
}

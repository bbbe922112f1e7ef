//! The SQL of who serves a generation whose call names its providers.

use router_core::{GenerationId, Serving, Settled};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::{Id, unreadable};

/// A text that is no record of who serves a generation.
#[derive(Debug, thiserror::Error)]
#[error("who serves a generation cannot be read")]
struct Unreadable;

/// Writes down who serves a generation first.
pub(super) fn begin(
    rows: &Connection,
    id: GenerationId,
    serving: Option<&Serving>,
) -> rusqlite::Result<()> {
    let Some(serving) = serving else {
        return Ok(());
    };
    rows.prepare_cached(
        "INSERT INTO call_servings (generation, serving) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    )?
    .execute(params![Id(id.0), serving.write()])?;
    Ok(())
}

/// Writes down who serves a generation next, if it has not ended.
pub(super) fn follow(
    rows: &Connection,
    id: GenerationId,
    serving: &Serving,
) -> rusqlite::Result<Settled> {
    let changed = rows
        .prepare_cached(
            "UPDATE call_servings SET serving = ?2 WHERE generation = ?1
                AND EXISTS (SELECT 1 FROM generations WHERE id = ?1 AND settled_at IS NULL)",
        )?
        .execute(params![Id(id.0), serving.write()])?;
    Ok(match changed {
        0 => Settled::Before,
        _ => Settled::Now,
    })
}

/// Who serves a generation.
pub(super) fn of(rows: &Connection, id: GenerationId) -> rusqlite::Result<Option<Serving>> {
    let found = rows
        .prepare_cached("SELECT serving FROM call_servings WHERE generation = ?1")?
        .query_row([Id(id.0)], read)
        .optional()?;
    Ok(found.flatten().map(|serving| *serving))
}

/// The column `serving` of a row that may have one.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Option<Box<Serving>>> {
    let text: Option<String> = row.get("serving")?;
    let Some(text) = text else {
        return Ok(None);
    };
    let serving = Serving::read(&text).ok_or_else(|| unreadable(Unreadable))?;
    Ok(Some(Box::new(serving)))
}

/// Forgets those of generations that are gone, among the `limit` oldest.
pub(super) fn expire(rows: &Connection, limit: i64) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "DELETE FROM call_servings
         WHERE generation IN (SELECT generation FROM call_servings ORDER BY generation LIMIT ?1)
            AND NOT EXISTS (SELECT 1 FROM generations WHERE id = call_servings.generation)",
    )?
    .execute([limit])?;
    Ok(())
}

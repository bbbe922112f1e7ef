//! What webhooks hear of calls.

use jiff::Timestamp;
use router_core::{Bucket, GenerationId};
use rusqlite::{Connection, OptionalExtension};
use webhooks::{CallEnded, Event, EventKind};

use super::event::Ended;
use crate::columns::{Id, parse, unreadable};
use crate::webhooks::Hooks;

/// A generation ended. `model` is read from its row where it is not at hand.
pub(super) fn ended(
    rows: &Connection,
    hooks: &Hooks,
    model: Option<&str>,
    ended: &Ended<'_>,
) -> rusqlite::Result<()> {
    if !hooks.any() {
        return Ok(());
    }
    let account = parse(ended.account)?;
    let row: Option<String> = match model {
        Some(model) => Some(model.to_owned()),
        None => rows
            .prepare_cached("SELECT model FROM generations WHERE id = ?1")?
            .query_row([Id(ended.id)], |row| row.get(0))
            .optional()?,
    };
    // As a status of a queued request tells it: what the partner judged was not cancelled.
    let may_be_cancelled = ["failed", "released"].contains(&ended.outcome.outcome);
    let is_cancelled = may_be_cancelled && was_cancelled(rows, GenerationId(ended.id))?;
    let at = Timestamp::from_microsecond(ended.at).map_err(unreadable)?;
    hooks.publish(rows, &account, EventKind::CallEnded, || {
        Event::call_ended(CallEnded {
            account: &account,
            id: ended.id,
            model: row.as_deref().unwrap_or_default(),
            error_type: ended.outcome.bucket,
            is_cancelled,
            charge_cents: ended.charge_cents.unsigned_abs(),
            at,
        })
    })
}

/// A queued request ended without having been dispatched.
pub(super) fn withdrawn(
    rows: &Connection,
    hooks: &Hooks,
    id: GenerationId,
    bucket: Bucket,
    at: Timestamp,
) -> rusqlite::Result<()> {
    if !hooks.any() {
        return Ok(());
    }
    let request = rows
        .prepare_cached("SELECT account, model FROM queued_calls WHERE id = ?1")?
        .query_row([Id(id.0)], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    let Some((account, model)) = request else {
        return Ok(());
    };
    let account = parse(&account)?;
    let is_cancelled = was_cancelled(rows, id)?;
    hooks.publish(rows, &account, EventKind::CallEnded, || {
        Event::call_ended(CallEnded {
            account: &account,
            id: id.0,
            model: &model,
            error_type: Some(bucket.name()),
            is_cancelled,
            charge_cents: 0,
            at,
        })
    })
}

fn was_cancelled(rows: &Connection, id: GenerationId) -> rusqlite::Result<bool> {
    rows.prepare_cached("SELECT 1 FROM queued_calls WHERE id = ?1 AND cancelled_at IS NOT NULL")?
        .exists([Id(id.0)])
}

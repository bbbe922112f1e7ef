//! What webhooks hear of calls.

use accounts::AccountId;
use deadpool_postgres::GenericClient;
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use router_core::{Bucket, GenerationId};
use tokio_postgres::Row;
use uuid::Uuid;
use webhooks::{CallEnded, Event, EventKind};

use super::outcome::OutcomeColumns;
use super::settling::Settling;
use crate::DatabaseError;
use crate::columns::parse;
use crate::statements::{query, query_opt};
use crate::webhooks::{wanting, write};

/// Writes down that generations ended: those of `all` at the places that `counted` has, with their rows.
pub(super) async fn ended(
    rows: &impl GenericClient,
    all: &[Settling],
    counted: &HashMap<usize, Row>,
) -> Result<(), DatabaseError> {
    let accounts: Vec<&AccountId> = counted.keys().map(|place| &all[*place].account).collect();
    let wanting = wanting(rows, &accounts, EventKind::CallEnded).await?;
    if wanting.is_empty() {
        return Ok(());
    }
    let wanted = counted.iter().map(|(place, row)| (&all[*place], row));
    let wanted = wanted.filter(|(one, _)| wanting.contains_key(&one.account));
    let wanted: Vec<(&Settling, &Row)> = wanted.collect();
    let cancelled = cancelled(rows, &wanted).await?;
    let events = wanted.into_iter().map(|(one, row)| {
        Event::call_ended(CallEnded {
            account: &one.account,
            id: one.generation.0,
            model: row.get("model"),
            error_type: one.ending.bucket().map(Bucket::name),
            is_cancelled: cancelled.contains(&one.generation.0),
            charge_cents: one.ending.charge_cents(),
            at: one.now,
        })
    });
    let events: Vec<Event> = events.collect();
    write(rows, &wanting, &events).await
}

/// Those that their callers cancelled, as statuses of queued requests tell it: what the partner judged was not.
async fn cancelled(
    rows: &impl GenericClient,
    ended: &[(&Settling, &Row)],
) -> Result<HashSet<Uuid>, DatabaseError> {
    let may_be = ended.iter().filter(|(one, _)| {
        let outcome = OutcomeColumns::of(&one.ending).outcome;
        ["failed", "released"].contains(&outcome)
    });
    let may_be: Vec<Uuid> = may_be.map(|(one, _)| one.generation.0).collect();
    if may_be.is_empty() {
        return Ok(HashSet::default());
    }
    let sql = "SELECT id FROM queued_calls WHERE id = ANY($1) AND cancelled_at IS NOT NULL";
    let found = query(rows, sql, &[&may_be]).await?;
    Ok(found.iter().map(|row| row.get(0)).collect())
}

/// Writes down that a queued request ended without having been dispatched.
pub(super) async fn withdrawn(
    rows: &impl GenericClient,
    id: GenerationId,
    bucket: Bucket,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let sql = "SELECT account, model, cancelled_at IS NOT NULL AS is_cancelled FROM queued_calls WHERE id = $1
        AND EXISTS (SELECT 1 FROM webhooks WHERE webhooks.account = queued_calls.account)";
    let Some(row) = query_opt(rows, sql, &[&id.0]).await? else {
        return Ok(());
    };
    let account: AccountId = parse(row.get("account"))?;
    let wanting = wanting(rows, &[&account], EventKind::CallEnded).await?;
    let event = Event::call_ended(CallEnded {
        account: &account,
        id: id.0,
        model: row.get("model"),
        error_type: Some(bucket.name()),
        is_cancelled: row.get("is_cancelled"),
        charge_cents: 0,
        at,
    });
    write(rows, &wanting, &[event]).await
}

//! The SQL of the labels of calls.

use accounts::Labels;
use deadpool_postgres::GenericClient;
use foldhash::HashMap;
use jiff::Timestamp;
use router_core::Unfinished;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::DatabaseError;
use crate::columns::unreadable;
use crate::statements::{execute, query};

/// A text that is no record of labels.
#[derive(Debug, thiserror::Error)]
#[error("the labels of a call cannot be read")]
struct Unreadable;

/// Writes down the labels of calls, once: each with when it came and its id.
pub(super) async fn insert<'a>(
    rows: &impl GenericClient,
    labelled: impl Iterator<Item = (Timestamp, Uuid, &'a Labels)>,
) -> Result<(), DatabaseError> {
    let mut all: Vec<(i64, Uuid, String)> = labelled
        .filter_map(|(received_at, request, labels)| {
            let labels = router_core::write_labels(labels)?;
            Some((received_at.as_microsecond(), request, labels))
        })
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    // In one order, so that no two writers wait for each other.
    all.sort_unstable();
    let received: Vec<i64> = all.iter().map(|one| one.0).collect();
    let requests: Vec<Uuid> = all.iter().map(|one| one.1).collect();
    let labels: Vec<&str> = all.iter().map(|one| one.2.as_str()).collect();
    execute(
        rows,
        "INSERT INTO call_labels (received_at, request, labels)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[]) ON CONFLICT DO NOTHING",
        &[&received, &requests, &labels],
    )
    .await?;
    Ok(())
}

/// Adds to generations the labels that they were begun with.
pub(super) async fn add(
    rows: &impl GenericClient,
    mut unfinished: Vec<Unfinished>,
) -> Result<Vec<Unfinished>, DatabaseError> {
    if unfinished.is_empty() {
        return Ok(unfinished);
    }
    let all = unfinished.iter().map(|one| &one.generation);
    let ids: Vec<Uuid> = all.clone().map(|one| one.id.0).collect();
    let received: Vec<i64> = all.map(|one| one.received_at.as_microsecond()).collect();
    let found = query(
        rows,
        "SELECT request, labels FROM unnest($1::bigint[], $2::uuid[]) AS asked (received_at, request)
         JOIN call_labels USING (received_at, request)",
        &[&received, &ids],
    )
    .await?;
    let mut labels: HashMap<Uuid, Labels> = HashMap::default();
    for row in &found {
        labels.insert(row.get("request"), read(row)?);
    }
    for one in &mut unfinished {
        one.generation.labels = labels.remove(&one.generation.id.0).unwrap_or_default();
    }
    Ok(unfinished)
}

/// The column `labels` of a row that may have some.
pub(super) fn read(row: &Row) -> Result<Labels, DatabaseError> {
    let text: Option<&str> = row.get("labels");
    let Some(text) = text else {
        return Ok(Labels::NONE);
    };
    router_core::read_labels(text).ok_or_else(|| unreadable(Unreadable))
}

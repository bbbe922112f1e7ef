//! The SQL of who serves a generation whose call names its providers.

use deadpool_postgres::GenericClient;
use foldhash::HashMap;
use router_core::{Generation, GenerationId, OwnerId, Serving, Settled, Unfinished};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::columns::unreadable;
use crate::statements::{execute, query, query_opt};
use crate::{Database, DatabaseError};

/// A text that is no record of who serves a generation.
#[derive(Debug, thiserror::Error)]
#[error("who serves a generation cannot be read")]
struct Unreadable;

/// Writes down who serves generations first.
pub(super) async fn begin<'a>(
    rows: &impl GenericClient,
    generations: impl Iterator<Item = &'a Generation>,
) -> Result<(), DatabaseError> {
    let mut begun: Vec<(Uuid, (i64, String))> = generations
        .filter_map(|one| {
            let serving = one.serving.as_ref()?.write();
            Some((one.id.0, (one.received_at.as_microsecond(), serving)))
        })
        .collect();
    if begun.is_empty() {
        return Ok(());
    }
    begun.sort_unstable();
    let (ids, others): (Vec<Uuid>, Vec<_>) = begun.into_iter().unzip();
    let (received, servings): (Vec<i64>, Vec<String>) = others.into_iter().unzip();
    execute(
        rows,
        "INSERT INTO call_servings (generation, received_at, serving)
         SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[]) ON CONFLICT DO NOTHING",
        &[&ids, &received, &servings],
    )
    .await?;
    Ok(())
}

/// Writes down who serves a generation next, if it runs and is this owner's.
pub(super) async fn follow(
    database: Database,
    (id, owner): (GenerationId, OwnerId),
    serving: Serving,
) -> Result<Settled, DatabaseError> {
    let connection = database.connection().await?;
    // Who takes it over waits for this, and who has taken it over is its owner.
    let changed = execute(
        &connection,
        "WITH held AS (SELECT id FROM generations_running WHERE id = $1 AND owner = $2 FOR UPDATE)
         UPDATE call_servings s SET serving = $3 FROM held WHERE s.generation = held.id",
        &[&id.0, &owner.0, &serving.write()],
    )
    .await?;
    Ok(match changed {
        0 => Settled::Before,
        _ => Settled::Now,
    })
}

/// Who serves a generation.
pub(super) async fn of(
    database: &Database,
    id: GenerationId,
) -> Result<Option<Serving>, DatabaseError> {
    let connection = database.connection().await?;
    let found = query_opt(
        &connection,
        "SELECT serving FROM call_servings WHERE generation = $1",
        &[&id.0],
    )
    .await?;
    let serving = found.as_ref().map(read).transpose()?.flatten();
    Ok(serving.map(|serving| *serving))
}

/// Adds to generations who serves them.
pub(super) async fn add(
    database: &Database,
    mut unfinished: Vec<Unfinished>,
) -> Result<Vec<Unfinished>, DatabaseError> {
    if unfinished.is_empty() {
        return Ok(unfinished);
    }
    let ids: Vec<Uuid> = unfinished.iter().map(|one| one.generation.id.0).collect();
    let connection = database.connection().await?;
    let found = query(
        &connection,
        "SELECT generation, serving FROM call_servings WHERE generation = ANY($1)",
        &[&ids],
    )
    .await?;
    let mut servings: HashMap<Uuid, Box<Serving>> = HashMap::default();
    for row in &found {
        servings.extend(read(row)?.map(|serving| (row.get("generation"), serving)));
    }
    for one in &mut unfinished {
        one.generation.serving = servings.remove(&one.generation.id.0);
    }
    Ok(unfinished)
}

/// The column `serving` of a row that may have one.
pub(super) fn read(row: &Row) -> Result<Option<Box<Serving>>, DatabaseError> {
    let text: Option<&str> = row.get("serving");
    let Some(text) = text else {
        return Ok(None);
    };
    let serving = Serving::read(text).ok_or_else(|| unreadable(Unreadable))?;
    Ok(Some(Box::new(serving)))
}

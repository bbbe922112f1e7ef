//! The SQL of generations that run. Rows are locked in the order of their ids.

use std::time::Duration;

use accounts::{KeyId, Labels};
use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use router_core::{
    Acceptance, Dispatched, Generation, GenerationId, Handle, KeyDigest, Lease, OwnerId, Unfinished,
};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::{labels, servings};
use crate::columns::{from_micros, parse, unsigned};
use crate::statements::{Values, execute, query, whole};
use crate::step::Step;
use crate::{Database, DatabaseError};

/// The columns of a generation that runs, where its table is called `r`.
pub(super) const RUNNING: &str = "r.id, r.account, r.model, r.key, r.hold_cents, r.received_at, r.dispatched_at, \
    r.owner, r.lease_until, r.handle, r.poll_after_ms, r.accepted_at, r.task_id, r.api_key";

/// A generation that is to be dispatched.
pub(super) struct Dispatch {
    pub(super) generation: Generation,
    pub(super) key: Option<KeyDigest>,
    pub(super) lease: Lease,
}

/// What a partner accepted.
pub(super) struct Accepted {
    pub(super) generation: GenerationId,
    pub(super) owner: OwnerId,
    pub(super) handle: Handle,
    pub(super) poll_after: Duration,
    pub(super) task_id: Option<String>,
    pub(super) at: Timestamp,
}

impl Dispatch {
    fn key(&self) -> Option<&[u8]> {
        self.key.as_ref().map(|key| key.0.as_slice())
    }
}

/// Writes down that generations are about to be dispatched, each if its key is its own.
pub(super) const DISPATCH: &str = "WITH asked AS (
        SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::uuid[], $9::bigint[], $10::text[])
        AS a (id, account, model, key, hold_cents, received_at, dispatched_at, owner, lease_until, api_key)),
     held AS (
        SELECT k.account, k.key FROM call_keys k
        JOIN asked a ON a.account = k.account AND a.key = k.key AND a.id = k.generation
        ORDER BY k.account, k.key FOR UPDATE OF k),
     keyed AS (
        UPDATE call_keys k SET is_dispatched = true FROM held WHERE k.account = held.account AND k.key = held.key
        RETURNING k.generation)
     INSERT INTO generations_running
        (id, account, model, key, hold_cents, received_at, dispatched_at, owner, lease_until, api_key)
     SELECT a.* FROM asked a
     WHERE (a.key IS NULL OR a.id IN (SELECT generation FROM keyed))
        AND NOT EXISTS (SELECT FROM generations g WHERE g.id = a.id)
     ORDER BY a.id ON CONFLICT DO NOTHING RETURNING id";

/// Writes down the labels of generations that are about to be dispatched, and who serves them first. What is not dispatched after
/// all is asked after by nobody, and is forgotten with the rest.
pub(super) async fn write_beside(
    step: &Step,
    dispatches: &[&Dispatch],
) -> Result<(), DatabaseError> {
    let all = dispatches.iter().map(|one| &one.generation);
    servings::begin(&**step, all.clone()).await?;
    let labelled = all.map(|one| (one.received_at, one.id.0, &one.labels));
    labels::insert(&**step, labelled).await
}

/// Writes generations down by [`DISPATCH`]; answers those that are begun now.
pub(super) async fn write(
    step: &Step,
    statement: &Statement,
    dispatches: &[&Dispatch],
) -> Result<HashSet<Uuid>, DatabaseError> {
    if dispatches.is_empty() {
        return Ok(HashSet::default());
    }
    let all = dispatches.iter().map(|one| &one.generation);
    let ids: Vec<Uuid> = all.clone().map(|one| one.id.0).collect();
    let accounts: Vec<&str> = all.clone().map(|one| one.account.as_str()).collect();
    let models: Vec<&str> = all.clone().map(|one| one.model.as_str()).collect();
    let keys: Vec<Option<&[u8]>> = dispatches.iter().map(|one| one.key()).collect();
    let holds: Vec<i64> = all.clone().map(|one| whole(one.hold_cents)).collect();
    let received: Vec<i64> = all
        .clone()
        .map(|one| one.received_at.as_microsecond())
        .collect();
    let dispatched: Vec<i64> = all
        .clone()
        .map(|one| one.dispatched_at.as_microsecond())
        .collect();
    let api_keys: Vec<Option<&str>> = all
        .map(|one| one.api_key.as_ref().map(KeyId::as_str))
        .collect();
    let owners: Vec<Uuid> = dispatches.iter().map(|one| one.lease.owner.0).collect();
    let untils: Vec<i64> = dispatches
        .iter()
        .map(|one| {
            let until = one.lease.until(one.generation.dispatched_at);
            until.as_microsecond()
        })
        .collect();
    let values: Values<'_> = &[
        &ids,
        &accounts,
        &models,
        &keys,
        &holds,
        &received,
        &dispatched,
        &owners,
        &untils,
        &api_keys,
    ];
    let begun = step.query(statement, values).await?;
    Ok(begun.iter().map(|row| row.get(0)).collect())
}

/// What became of generations, of which these are begun now. What their owner dispatched before, with the same key, is its own again.
pub(super) async fn answers(
    step: &Step,
    dispatches: &[&Dispatch],
    mut begun: HashSet<Uuid>,
) -> Result<Vec<Dispatched>, DatabaseError> {
    let ids: Vec<Uuid> = dispatches.iter().map(|one| one.generation.id.0).collect();
    if begun.len() < dispatches.len() {
        let keys: Vec<Option<&[u8]>> = dispatches.iter().map(|one| one.key()).collect();
        let owners: Vec<Uuid> = dispatches.iter().map(|one| one.lease.owner.0).collect();
        let before = query(
            &**step,
            "SELECT r.id FROM generations_running r
             JOIN unnest($1::uuid[], $2::bytea[], $3::uuid[]) AS a (id, key, owner)
                ON a.id = r.id AND a.owner = r.owner AND a.key IS NOT DISTINCT FROM r.key WHERE r.id = ANY($1)",
            &[&ids, &keys, &owners],
        )
        .await?;
        begun.extend(before.iter().map(|row| row.get::<_, Uuid>(0)));
    }
    let answers = ids.iter().map(|id| match begun.contains(id) {
        true => Dispatched::Begun,
        false => Dispatched::ClaimLost,
    });
    Ok(answers.collect())
}

/// Writes down what partners accepted, each by its owner.
pub(super) async fn accept(
    database: &Database,
    accepted: &[Accepted],
) -> Result<Vec<()>, DatabaseError> {
    // The last of each counts.
    let last: HashMap<(GenerationId, OwnerId), &Accepted> = accepted
        .iter()
        .map(|one| ((one.generation, one.owner), one))
        .collect();
    let connection = database.connection().await?;

    let last: Vec<&Accepted> = last.into_values().collect();
    let all = last.iter();
    let ids: Vec<Uuid> = all.clone().map(|one| one.generation.0).collect();
    let owners: Vec<Uuid> = all.clone().map(|one| one.owner.0).collect();
    let handles: Vec<&[u8]> = all.clone().map(|one| &*one.handle.0).collect();
    let pauses: Vec<i64> = all
        .clone()
        .map(|one| whole(one.poll_after.as_millis()))
        .collect();
    let times: Vec<i64> = all.clone().map(|one| one.at.as_microsecond()).collect();
    let tasks: Vec<Option<&[u8]>> = all
        .map(|one| one.task_id.as_ref().map(String::as_bytes))
        .collect();
    execute(&connection, "WITH asked AS (
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[])
            AS a (id, owner, handle, poll_after_ms, accepted_at, task_id)),
         held AS (
            SELECT r.id FROM generations_running r JOIN asked a ON a.id = r.id AND a.owner = r.owner
            WHERE r.id = ANY($1) ORDER BY r.id FOR UPDATE OF r)
         UPDATE generations_running r
         SET handle = a.handle, poll_after_ms = a.poll_after_ms, accepted_at = a.accepted_at, task_id = a.task_id
         FROM held, asked a WHERE r.id = ANY($1) AND r.id = held.id AND a.id = r.id AND a.owner = r.owner",
            &[&ids, &owners, &handles, &pauses, &times, &tasks],
        )
        .await?;
    Ok(vec![(); accepted.len()])
}

/// Renews the leases of an owner; the generations that it does not own.
pub(super) async fn renew(
    database: &Database,
    generations: &[GenerationId],
    lease: Lease,
    now: Timestamp,
) -> Result<Vec<GenerationId>, DatabaseError> {
    let connection = database.connection().await?;

    let ids: Vec<Uuid> = generations.iter().map(|id| id.0).collect();
    let until = lease.until(now).as_microsecond();
    let renewed = query(&connection, "WITH held AS (
            SELECT id FROM generations_running WHERE id = ANY($1) AND owner = $2 ORDER BY id FOR UPDATE),
         lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
         UPDATE generations_running r SET lease_until = $3 FROM held, lazily
         WHERE r.id = ANY($1) AND r.id = held.id RETURNING r.id", &[&ids, &lease.owner.0, &until]).await?;
    let renewed: HashSet<Uuid> = renewed.iter().map(|row| row.get(0)).collect();
    let lost = generations.iter().filter(|id| !renewed.contains(&id.0));
    Ok(lost.copied().collect())
}

/// Makes the oldest generations whose leases have lapsed this owner's.
pub(super) async fn take_over(
    database: &Database,
    lease: Lease,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Unfinished>, DatabaseError> {
    let connection = database.connection().await?;
    // What another process takes over at this moment is its own.
    let sql = format!(
        "WITH lapsed AS (
            SELECT id FROM generations_running WHERE lease_until <= $1 ORDER BY dispatched_at, id LIMIT $2
            FOR UPDATE SKIP LOCKED)
         UPDATE generations_running r SET owner = $3, lease_until = $4 FROM lapsed WHERE r.id = lapsed.id
         RETURNING {RUNNING}"
    );
    let (before, until) = (now.as_microsecond(), lease.until(now).as_microsecond());
    let values: Values<'_> = &[&before, &whole(limit), &lease.owner.0, &until];
    let taken = query(&connection, &sql, values).await?;
    let taken: Result<Vec<_>, _> = taken.iter().map(unfinished).collect();
    let mut taken = taken?;
    taken.sort_by_key(|one| (one.generation.dispatched_at, one.generation.id));
    let taken = labels::add(&connection, taken).await?;
    drop(connection);
    servings::add(database, taken).await
}

/// The API key of a call or of the call that began a generation.
pub(super) fn api_key(row: &Row) -> Result<Option<KeyId>, DatabaseError> {
    let key: Option<&str> = row.get("api_key");
    key.map(parse).transpose()
}

/// A row of `generations_running`, without its labels and who serves it.
pub(super) fn unfinished(row: &Row) -> Result<Unfinished, DatabaseError> {
    let dispatched_at = from_micros(row.get("dispatched_at"))?;
    let handle: Option<Vec<u8>> = row.get("handle");
    let poll_after: Option<i64> = row.get("poll_after_ms");
    let accepted_at: Option<i64> = row.get("accepted_at");
    let accepted_at = accepted_at.map(from_micros).transpose()?;
    let accepted = handle.map(|handle| Acceptance {
        handle: Handle(Bytes::from(handle)),
        poll_after: Duration::from_millis(poll_after.unwrap_or(0).unsigned_abs()),
        at: accepted_at.unwrap_or(dispatched_at),
    });
    Ok(Unfinished {
        generation: Generation {
            id: GenerationId(row.get("id")),
            account: parse(row.get("account"))?,
            model: parse(row.get("model"))?,
            hold_cents: unsigned(row.get("hold_cents"))?,
            received_at: from_micros(row.get("received_at"))?,
            dispatched_at,
            api_key: api_key(row)?,
            labels: Labels::NONE,
            serving: None,
        },
        accepted,
    })
}

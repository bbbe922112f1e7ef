//! The SQL of queued requests. Numbers are drawn under the lock of the queue.

use accounts::{AccountId, KeyId};
use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use router_core::{
    Bucket, GenerationId, KeyDigest, ModelId, QueueFailure, QueueState, QueuedCall, QueuedRequest,
    WaitingCall,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::calls::facts;
use crate::calls::labels;
use crate::calls::outcome::bucket;
use crate::columns::{from_micros, parse, unreadable, unsigned};
use crate::statements::{execute, query, query_opt, whole};
use crate::{Database, DatabaseError};

/// Most changes that are read at once.
pub(super) const PAGE: usize = 5_000;

/// The number of the advisory lock of the queue.
const LOCK: i64 = 0x6561_7365_6c01;

const CANCELLED: &str = "cancelled";
const WAITED: &str = "waited";

/// The clock of the database.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// A request as it stands in the rows, with the columns that its state follows from.
pub(super) struct Found {
    pub(super) request: QueuedRequest,
    pub(super) account: AccountId,
    pub(super) seq: u64,
    /// Whether its row says that it waits.
    pub(super) waits: bool,
    /// Whether neither its row nor a generation says that it runs or is over.
    pub(super) may_wait: bool,
    /// Whether its caller wants it cancelled.
    pub(super) is_cancelled: bool,
}

/// What became of a request, with the number of the change.
pub(super) enum Change {
    Waits(i64, WaitingCall),
    Taken(i64, AccountId, u64),
    Over(i64, AccountId, u64),
}

const COLUMNS: &str = "SELECT q.id, q.seq, q.changed, q.state, q.account, q.model, q.query, q.key, q.received_at,
        q.expires_at, q.body_bytes, q.cancelled_at, q.ended_at, q.failure, q.message, q.api_key, r.id AS running, g.outcome, g.bucket, l.labels
     FROM queued_calls q LEFT JOIN call_labels l ON l.received_at = q.received_at AND l.request = q.id
     LEFT JOIN generations_running r ON r.id = q.id LEFT JOIN generations g ON g.id = q.id";

/// Waits until no other transaction changes the queue.
pub(super) async fn lock(rows: &Transaction<'_>) -> Result<(), DatabaseError> {
    execute(rows, "SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(())
}

/// Who waits, and the number of the last change.
pub(super) async fn load(database: &Database) -> Result<(i64, Vec<WaitingCall>), DatabaseError> {
    let connection = database.connection().await?;
    let last = query(
        &connection,
        "SELECT coalesce(max(changed), 0) FROM queued_calls",
        &[],
    )
    .await?;
    // What changes between the two is read once more.
    let waiting = query(
        &connection,
        "SELECT seq, id, account, received_at FROM queued_calls WHERE state = 0 ORDER BY seq",
        &[],
    )
    .await?;
    let waiting: Result<_, _> = waiting.iter().map(waiting_call).collect();
    Ok((last.first().map_or(0, |row| row.get(0)), waiting?))
}

/// What changed after a number, at most [`PAGE`].
pub(super) async fn changes(
    rows: &impl GenericClient,
    after: i64,
) -> Result<Vec<Change>, DatabaseError> {
    let found = query(
        rows,
        "SELECT changed, state, seq, id, account, received_at FROM queued_calls WHERE changed > $1
         ORDER BY changed LIMIT $2",
        &[&after, &whole(PAGE)],
    )
    .await?;
    let changes = found.iter().map(|row| {
        let (number, state): (i64, i16) = (row.get("changed"), row.get("state"));
        let call = waiting_call(row)?;
        Ok(match state {
            0 => Change::Waits(number, call),
            1 | 2 => Change::Taken(number, call.account, call.seq),
            _ => Change::Over(number, call.account, call.seq),
        })
    });
    changes.collect()
}

fn waiting_call(row: &Row) -> Result<WaitingCall, DatabaseError> {
    Ok(WaitingCall {
        account: parse(row.get("account"))?,
        id: GenerationId(row.get("id")),
        seq: unsigned(row.get("seq"))?,
        received_at: from_micros(row.get("received_at"))?,
    })
}

/// The number of the last change, this transaction's among them.
pub(super) async fn last_change(rows: &Transaction<'_>) -> Result<i64, DatabaseError> {
    let last = query(rows, "SELECT last_value FROM queued_calls_changes", &[]).await?;
    Ok(last.first().map_or(0, |row| row.get(0)))
}

/// Has requests wait again that this process took.
pub(super) async fn give_back(
    rows: &Transaction<'_>,
    ids: &[GenerationId],
    by: Uuid,
) -> Result<(), DatabaseError> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    execute(
        rows,
        "UPDATE queued_calls SET state = 0, taken_by = NULL, taken_until = NULL, changed = nextval('queued_calls_changes')
         WHERE id = ANY($1) AND state = 1 AND taken_by = $2",
        &[&ids, &by],
    )
    .await?;
    Ok(())
}

/// Whether a request was taken longer ago than it may take to dispatch it.
pub(super) async fn any_lapsed(rows: &impl GenericClient) -> Result<bool, DatabaseError> {
    let sql =
        format!("SELECT FROM queued_calls WHERE state = 1 AND taken_until <= {CLOCK} LIMIT 1");
    Ok(query_opt(rows, &sql, &[]).await?.is_some())
}

/// Has such requests wait again, unless they were dispatched.
pub(super) async fn recover(rows: &Transaction<'_>) -> Result<(), DatabaseError> {
    let sql = format!(
        "WITH lapsed AS (
            SELECT q.id, EXISTS (SELECT FROM generations_running r WHERE r.id = q.id)
                OR EXISTS (SELECT FROM generations g WHERE g.id = q.id) AS is_dispatched
            FROM queued_calls q WHERE q.state = 1 AND q.taken_until <= {CLOCK} ORDER BY q.id FOR UPDATE OF q),
         gone AS (DELETE FROM queued_bodies b USING lapsed l WHERE b.generation = l.id AND l.is_dispatched)
         UPDATE queued_calls q SET state = CASE WHEN l.is_dispatched THEN 2 ELSE 0 END, taken_by = NULL, taken_until = NULL,
            changed = nextval('queued_calls_changes')
         FROM lapsed l WHERE q.id = l.id"
    );
    execute(rows, &sql, &[]).await?;
    Ok(())
}

/// Writes requests down that wait; their places, in their order.
pub(super) async fn insert(
    rows: &Transaction<'_>,
    calls: &[&QueuedCall],
) -> Result<Vec<u64>, DatabaseError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = calls.iter().map(|call| call.id.0).collect();
    let accounts: Vec<&str> = calls.iter().map(|call| call.account.as_str()).collect();
    let models: Vec<&str> = calls.iter().map(|call| call.model.as_str()).collect();
    let queries: Vec<&str> = calls.iter().map(|call| call.query.as_str()).collect();
    let keys: Vec<&[u8]> = calls.iter().map(|call| call.key.0.as_slice()).collect();
    let received: Vec<i64> = calls
        .iter()
        .map(|call| call.received_at.as_microsecond())
        .collect();
    let expiries: Vec<i64> = calls
        .iter()
        .map(|call| call.expires_at.as_microsecond())
        .collect();
    let api_keys = calls.iter().map(|call| call.api_key.as_ref());
    let api_keys: Vec<Option<&str>> = api_keys.map(|key| key.map(KeyId::as_str)).collect();
    let bodies: Vec<i64> = calls.iter().map(|call| whole(call.body.len())).collect();
    let inserted = query(
        rows,
        "INSERT INTO queued_calls
            (seq, changed, state, id, account, model, query, key, received_at, expires_at, body_bytes, api_key)
         SELECT n, n, 0, id, account, model, query, key, received_at, expires_at, body_bytes, api_key FROM (
            SELECT nextval('queued_calls_changes') AS n, a.* FROM (
                SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[],
                    $8::bigint[], $9::text[])
                WITH ORDINALITY AS u (id, account, model, query, key, received_at, expires_at, body_bytes, api_key, place)
                ORDER BY place) AS a
            ) AS numbered
         RETURNING seq",
        &[
            &ids, &accounts, &models, &queries, &keys, &received, &expiries, &bodies, &api_keys,
        ],
    ).await?;
    let labelled = calls.iter();
    let labelled = labelled.map(|call| (call.received_at, call.id.0, &call.labels));
    labels::insert(rows, labelled).await?;
    let mut places = Vec::with_capacity(calls.len());
    for row in inserted {
        places.push(unsigned(row.get(0))?);
    }
    places.sort_unstable();
    Ok(places)
}

/// A request by its id.
pub(super) async fn find(
    rows: &impl GenericClient,
    GenerationId(id): GenerationId,
) -> Result<Option<Found>, DatabaseError> {
    let row = query_opt(rows, &format!("{COLUMNS} WHERE q.id = $1"), &[&id]).await?;
    row.as_ref().map(found).transpose()
}

/// A request that is to be changed.
pub(super) async fn find_to_change(
    rows: &Transaction<'_>,
    GenerationId(id): GenerationId,
) -> Result<Option<Found>, DatabaseError> {
    let sql = format!("{COLUMNS} WHERE q.id = $1 FOR UPDATE OF q");
    let row = query_opt(rows, &sql, &[&id]).await?;
    row.as_ref().map(found).transpose()
}

/// A request that is to be taken, as it was submitted but for its body, and how many bytes that has.
pub(super) async fn find_to_take(
    rows: &Transaction<'_>,
    GenerationId(id): GenerationId,
) -> Result<Option<(Found, QueuedCall, i64)>, DatabaseError> {
    let sql = format!("{COLUMNS} WHERE q.id = $1 FOR UPDATE OF q");
    let Some(row) = query_opt(rows, &sql, &[&id]).await? else {
        return Ok(None);
    };
    let found = found(&row)?;
    let key = <[u8; 32]>::try_from(row.get::<_, &[u8]>("key"));
    let call = QueuedCall {
        id: found.request.id,
        account: found.account.clone(),
        model: found.request.model.clone(),
        query: row.get("query"),
        labels: labels::read(&row)?,
        api_key: row
            .get::<_, Option<&str>>("api_key")
            .map(parse)
            .transpose()?,
        key: KeyDigest(key.map_err(unreadable)?),
        received_at: found.request.received_at,
        expires_at: found.request.expires_at,
        body: bytes::Bytes::new(),
    };
    Ok(Some((found, call, row.get("body_bytes"))))
}

/// The newest requests of an account for a model, or those before one of them; `None` if that is none of them.
pub(super) async fn list(
    rows: &impl GenericClient,
    account: &AccountId,
    model: &ModelId,
    before: Option<GenerationId>,
    limit: usize,
) -> Result<Option<Vec<Found>>, DatabaseError> {
    let (account, model) = (account.as_str(), model.as_str());
    let start = match before {
        None => i64::MAX,
        Some(id) => {
            let sql = "SELECT seq FROM queued_calls WHERE id = $1 AND account = $2 AND model = $3";
            match query_opt(rows, sql, &[&id.0, &account, &model]).await? {
                None => return Ok(None),
                Some(row) => row.get("seq"),
            }
        }
    };
    let sql = format!(
        "{COLUMNS} WHERE q.account = $1 AND q.model = $2 AND q.seq < $3 ORDER BY q.seq DESC LIMIT $4"
    );
    let newest = query(rows, &sql, &[&account, &model, &start, &whole(limit)]).await?;
    newest.iter().map(found).collect::<Result<_, _>>().map(Some)
}

fn found(row: &Row) -> Result<Found, DatabaseError> {
    let is_cancelled = row.get::<_, Option<i64>>("cancelled_at").is_some();
    let failure: Option<&str> = row.get("failure");
    let outcome: Option<&str> = row.get("outcome");
    let runs = row.get::<_, Option<Uuid>>("running").is_some();
    let may_wait = failure.is_none() && outcome.is_none() && !runs;
    let state = match (failure, outcome) {
        (Some(failure), _) => QueueState::Over(Some(ended(failure, row.get("message"))?)),
        (None, Some(outcome)) => QueueState::Over(match bucket(row.get("bucket"))? {
            None => None,
            // What the partner judged was not cancelled.
            Some(_) if is_cancelled && ["failed", "released"].contains(&outcome) => {
                Some(QueueFailure::Cancelled)
            }
            Some(bucket) => Some(QueueFailure::Failed(bucket)),
        }),
        (None, None) => QueueState::Running,
    };
    let request = QueuedRequest {
        id: GenerationId(row.get("id")),
        model: parse(row.get("model"))?,
        received_at: from_micros(row.get("received_at"))?,
        expires_at: from_micros(row.get("expires_at"))?,
        has_query: !row.get::<_, &str>("query").is_empty(),
        state,
    };
    Ok(Found {
        request,
        account: parse(row.get("account"))?,
        seq: unsigned(row.get("seq"))?,
        waits: may_wait && row.get::<_, i16>("state") == 0,
        may_wait,
        is_cancelled,
    })
}

fn ended(failure: &str, message: Option<&[u8]>) -> Result<QueueFailure, DatabaseError> {
    Ok(match failure {
        CANCELLED => QueueFailure::Cancelled,
        WAITED => QueueFailure::WaitedTooLong,
        _ => QueueFailure::NotDispatched {
            bucket: bucket(Some(failure))?.unwrap_or(Bucket::InternalError),
            message: String::from_utf8_lossy(message.unwrap_or_default()).into_owned(),
        },
    })
}

/// Notes that a process takes a request.
pub(super) async fn take(
    rows: &Transaction<'_>,
    GenerationId(id): GenerationId,
    by: Uuid,
    micros: i64,
) -> Result<(), DatabaseError> {
    let sql = format!(
        "UPDATE queued_calls SET state = 1, taken_by = $2, taken_until = {CLOCK} + $3, changed = nextval('queued_calls_changes')
         WHERE id = $1"
    );
    execute(rows, &sql, &[&id, &by, &micros]).await?;
    Ok(())
}

/// Notes that the caller of a request wants it cancelled.
pub(super) async fn note_cancelled(
    rows: &Transaction<'_>,
    GenerationId(id): GenerationId,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    execute(
        rows,
        "UPDATE queued_calls SET cancelled_at = coalesce(cancelled_at, $2) WHERE id = $1",
        &[&id, &now.as_microsecond()],
    )
    .await?;
    Ok(())
}

/// Locks the key of a request that was not dispatched.
pub(super) async fn lock_key(
    rows: &Transaction<'_>,
    GenerationId(id): GenerationId,
) -> Result<(), DatabaseError> {
    execute(
        rows,
        "SELECT FROM call_keys WHERE generation = $1 AND NOT is_dispatched FOR UPDATE",
        &[&id],
    )
    .await?;
    Ok(())
}

/// Notes that a request is dispatched; its body goes.
pub(super) async fn dispatched(
    database: &Database,
    GenerationId(id): GenerationId,
) -> Result<(), DatabaseError> {
    let connection = database.connection().await?;
    execute(
        &connection,
        "WITH lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
         gone AS (DELETE FROM queued_bodies USING lazily WHERE generation = $1)
         UPDATE queued_calls SET state = 2, taken_by = NULL, taken_until = NULL WHERE id = $1 AND state < 2",
        &[&id],
    )
    .await?;
    Ok(())
}

/// Ends a request that was not dispatched; its body goes.
pub(super) async fn end(
    rows: &Transaction<'_>,
    GenerationId(id): GenerationId,
    failure: &QueueFailure,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let (name, message) = match failure {
        QueueFailure::Cancelled => (CANCELLED, None),
        QueueFailure::WaitedTooLong => (WAITED, None),
        QueueFailure::NotDispatched { bucket, message } => {
            (bucket.name(), Some(message.as_bytes()))
        }
        QueueFailure::Failed(bucket) => (bucket.name(), None),
    };
    let ended = execute(
        rows,
        "WITH gone AS (DELETE FROM queued_bodies WHERE generation = $1)
         UPDATE queued_calls SET state = 3, ended_at = $2, failure = CASE WHEN cancelled_at IS NULL THEN $3 ELSE $5 END,
            message = $4, taken_by = NULL, taken_until = NULL, changed = nextval('queued_calls_changes')
         WHERE id = $1 AND state < 2",
        &[&id, &now.as_microsecond(), &name, &message, &CANCELLED],
    )
    .await?;
    if ended > 0 {
        facts::withdrawn(rows, GenerationId(id), failure.bucket(), now).await?;
    }
    Ok(())
}

//! The SQL of queued requests.

use ::accounts::{AccountId, Fingerprint, KeyId};
use asset_store::BlobHash;
use jiff::Timestamp;
use router_core::{
    Bucket, GenerationId, KeyDigest, ModelId, QueueFailure, QueueState, QueuedCall, QueuedRequest,
    WaitingCall,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::columns::bucket;
use super::event::Labelled;
use super::facts;
use super::labels;
use super::rows::id;
use crate::columns::{Id, Micros, parse};
use crate::webhooks::Hooks;

/// A request as it stands in the rows, with the columns that its state follows from.
pub(super) struct Found {
    pub(super) request: QueuedRequest,
    pub(super) account: AccountId,
    pub(super) seq: u64,
    /// Whether neither its row nor a generation says that it runs or is over.
    pub(super) may_wait: bool,
    /// Whether its caller wants it cancelled.
    pub(super) is_cancelled: bool,
}

/// Where the body of a request is.
pub(super) enum StoredBody {
    Here(Vec<u8>),
    InFile(GenerationId),
    Gone,
}

const CANCELLED: &str = "cancelled";
const WAITED: &str = "waited";

const COLUMNS: &str = "SELECT q.seq, q.id, q.account, q.model, q.received_at, q.expires_at, q.cancelled_at, q.failure, q.message, q.\"query\" <> '' AS has_query,
        g.id AS generation, g.outcome, g.bucket
     FROM queued_calls q LEFT JOIN generations g ON g.id = q.id";

/// Notes what was dispatched or cancelled just before the process ended, and answers what waits, in its order.
pub(super) fn recover(rows: &Connection, hooks: &Hooks) -> rusqlite::Result<Vec<WaitingCall>> {
    rows.execute(
        "UPDATE queued_calls SET dispatched = 1, body = NULL, body_file = NULL
         WHERE dispatched = 0 AND ended_at IS NULL AND EXISTS (SELECT 1 FROM generations g WHERE g.id = queued_calls.id)",
        [],
    )?;
    let mut cancelled = rows.prepare(
        "UPDATE queued_calls SET ended_at = cancelled_at, failure = ?1, body = NULL, body_file = NULL
         WHERE dispatched = 0 AND ended_at IS NULL AND cancelled_at IS NOT NULL RETURNING id, ended_at",
    )?;
    let ended = cancelled.query_map([CANCELLED], |row| {
        let Micros(at) = row.get("ended_at")?;
        Ok((id(row, "id")?, at))
    })?;
    for (id, at) in ended.collect::<rusqlite::Result<Vec<_>>>()? {
        facts::withdrawn(rows, hooks, id, QueueFailure::Cancelled.bucket(), at)?;
    }
    let mut statement = rows.prepare(
        "SELECT seq, id, account, received_at FROM queued_calls WHERE dispatched = 0 AND ended_at IS NULL ORDER BY seq",
    )?;
    let waiting = statement.query_map([], |row| {
        let Micros(received_at) = row.get("received_at")?;
        Ok(WaitingCall {
            account: parse(&row.get::<_, String>("account")?)?,
            id: id(row, "id")?,
            seq: seq(row)?,
            received_at,
        })
    })?;
    waiting.collect()
}

/// Writes a request down, with its key; its place among all.
pub(super) fn insert(
    rows: &Connection,
    call: &QueuedCall,
    fingerprint: Fingerprint,
    body_file: Option<GenerationId>,
) -> rusqlite::Result<u64> {
    let KeyDigest(key) = call.key;
    let body = body_file.is_none().then(|| &*call.body);
    rows.prepare_cached(
        "INSERT OR REPLACE INTO call_keys (account, key, fingerprint, generation, dispatched, expires_at)
         VALUES (?1, ?2, ?3, ?4, 2, ?5)",
    )?
    .execute(params![
        call.account.as_str(),
        key,
        fingerprint.0,
        Id(call.id.0),
        Micros(call.expires_at),
    ])?;
    rows.prepare_cached(
        "INSERT INTO queued_calls (id, account, model, \"query\", key, received_at, expires_at, body_file, body, api_key)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        Id(call.id.0),
        call.account.as_str(),
        call.model.as_str(),
        call.query,
        key,
        Micros(call.received_at),
        Micros(call.expires_at),
        body_file.map(|file| Id(file.0)),
        body,
        call.api_key.as_ref().map(KeyId::as_str),
    ])?;
    let seq = rows.last_insert_rowid().unsigned_abs();
    if let Some(labels) = router_core::write_labels(&call.labels) {
        let labelled = Labelled::of(call.id.0, call.received_at, &labels);
        labels::insert(rows, &labelled)?;
    }
    Ok(seq)
}

/// A request by its id.
pub(super) fn find(rows: &Connection, id: GenerationId) -> rusqlite::Result<Option<Found>> {
    rows.prepare_cached(&format!("{COLUMNS} WHERE q.id = ?1"))?
        .query_row([Id(id.0)], found)
        .optional()
}

/// The newest requests of an account for a model, or those before one of them; `None` if that is none of them.
pub(super) fn list(
    rows: &Connection,
    account: &AccountId,
    model: &ModelId,
    before: Option<GenerationId>,
    limit: usize,
) -> rusqlite::Result<Option<Vec<Found>>> {
    let start = match before {
        None => Some(i64::MAX),
        Some(id) => rows
            .prepare_cached(
                "SELECT seq FROM queued_calls WHERE id = ?1 AND account = ?2 AND model = ?3",
            )?
            .query_row(params![Id(id.0), account.as_str(), model.as_str()], |row| {
                row.get(0)
            })
            .optional()?,
    };
    let Some(start) = start else {
        return Ok(None);
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = rows.prepare_cached(&format!(
        "{COLUMNS} WHERE q.account = ?1 AND q.model = ?2 AND q.seq < ?3 ORDER BY q.seq DESC LIMIT ?4"
    ))?;
    let newest = statement.query_map(
        params![account.as_str(), model.as_str(), start, limit],
        found,
    )?;
    newest.collect::<rusqlite::Result<_>>().map(Some)
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    let Micros(received_at) = row.get("received_at")?;
    let Micros(expires_at) = row.get("expires_at")?;
    let is_cancelled = row.get::<_, Option<i64>>("cancelled_at")?.is_some();
    let failure: Option<String> = row.get("failure")?;
    let generation: Option<Id> = row.get("generation")?;
    let outcome: Option<String> = row.get("outcome")?;
    let may_wait = failure.is_none() && generation.is_none();
    let state = match (failure, outcome) {
        (Some(failure), _) => QueueState::Over(Some(ended(failure, row.get("message")?)?)),
        (None, Some(outcome)) => QueueState::Over(match bucket(row.get("bucket")?)? {
            None => None,
            // What the partner judged was not cancelled.
            Some(_) if is_cancelled && ["failed", "released"].contains(&&*outcome) => {
                Some(QueueFailure::Cancelled)
            }
            Some(bucket) => Some(QueueFailure::Failed(bucket)),
        }),
        (None, None) => QueueState::Running,
    };
    let request = QueuedRequest {
        id: id(row, "id")?,
        model: parse(&row.get::<_, String>("model")?)?,
        received_at,
        expires_at,
        has_query: row.get("has_query")?,
        state,
    };
    Ok(Found {
        request,
        account: parse(&row.get::<_, String>("account")?)?,
        seq: seq(row)?,
        may_wait,
        is_cancelled,
    })
}

fn ended(failure: String, message: Option<String>) -> rusqlite::Result<QueueFailure> {
    Ok(match failure.as_str() {
        CANCELLED => QueueFailure::Cancelled,
        WAITED => QueueFailure::WaitedTooLong,
        _ => QueueFailure::NotDispatched {
            bucket: bucket(Some(failure))?.unwrap_or(Bucket::InternalError),
            message: message.unwrap_or_default(),
        },
    })
}

/// A request as it was submitted, but for its body, and where that is.
pub(super) fn call(
    rows: &Connection,
    wanted: GenerationId,
) -> rusqlite::Result<Option<(QueuedCall, StoredBody)>> {
    rows.prepare_cached(
        "SELECT id, account, model, \"query\", key, q.received_at, expires_at, body_file, body, api_key, labels
         FROM queued_calls q LEFT JOIN call_labels l ON l.received_at = q.received_at AND l.request = q.id
         WHERE id = ?1 AND dispatched = 0 AND ended_at IS NULL",
    )?
    .query_row([Id(wanted.0)], |row| {
        let Micros(received_at) = row.get("received_at")?;
        let Micros(expires_at) = row.get("expires_at")?;
        let file: Option<Id> = row.get("body_file")?;
        let here: Option<Vec<u8>> = row.get("body")?;
        let body = match (here, file) {
            (Some(body), _) => StoredBody::Here(body),
            (None, Some(Id(file))) => StoredBody::InFile(GenerationId(file)),
            (None, None) => StoredBody::Gone,
        };
        let call = QueuedCall {
            id: id(row, "id")?,
            account: parse(&row.get::<_, String>("account")?)?,
            model: parse(&row.get::<_, String>("model")?)?,
            query: row.get("query")?,
            labels: labels::read(row)?,
            api_key: row
                .get::<_, Option<String>>("api_key")?
                .map(|id| parse(&id))
                .transpose()?,
            key: KeyDigest(row.get("key")?),
            received_at,
            expires_at,
            body: bytes::Bytes::new(),
        };
        Ok((call, body))
    })
    .optional()
}

/// Notes that the caller of a request wants it cancelled.
pub(super) fn note_cancelled(
    rows: &Connection,
    id: GenerationId,
    now: Timestamp,
) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "UPDATE queued_calls SET cancelled_at = coalesce(cancelled_at, ?2) WHERE id = ?1",
    )?
    .execute(params![Id(id.0), Micros(now)])?;
    Ok(())
}

/// Notes that a request is dispatched; the file of its body, if it has one.
pub(super) fn dispatched(
    rows: &Connection,
    id: GenerationId,
) -> rusqlite::Result<Option<GenerationId>> {
    let file = body_file(rows, id)?;
    rows.prepare_cached(
        "UPDATE queued_calls SET dispatched = 1, body = NULL, body_file = NULL WHERE id = ?1",
    )?
    .execute([Id(id.0)])?;
    Ok(file)
}

/// Ends a request that was not dispatched.
pub(super) fn end(
    rows: &Connection,
    id: GenerationId,
    failure: &QueueFailure,
    now: Timestamp,
) -> rusqlite::Result<Option<GenerationId>> {
    let file = body_file(rows, id)?;
    let (name, message) = match failure {
        QueueFailure::Cancelled => (CANCELLED, None),
        QueueFailure::WaitedTooLong => (WAITED, None),
        QueueFailure::NotDispatched { bucket, message } => (bucket.name(), Some(message.as_str())),
        QueueFailure::Failed(bucket) => (bucket.name(), None),
    };
    rows.prepare_cached(
        "UPDATE queued_calls SET ended_at = ?2, failure = CASE WHEN cancelled_at IS NULL THEN ?3 ELSE ?5 END, message = ?4,
            body = NULL, body_file = NULL
         WHERE id = ?1 AND dispatched = 0 AND ended_at IS NULL",
    )?
    .execute(params![Id(id.0), Micros(now), name, message, CANCELLED])?;
    Ok(file)
}

fn body_file(rows: &Connection, id: GenerationId) -> rusqlite::Result<Option<GenerationId>> {
    let file: Option<Option<Id>> = rows
        .prepare_cached("SELECT body_file FROM queued_calls WHERE id = ?1")?
        .query_row([Id(id.0)], |row| row.get(0))
        .optional()?;
    Ok(file.flatten().map(|Id(file)| GenerationId(file)))
}

/// Forgets the oldest requests whose results were forgotten before. One that waits is never among them.
pub(super) fn expire(
    rows: &Connection,
    keep_from: Timestamp,
    limit: i64,
) -> rusqlite::Result<usize> {
    rows.prepare_cached(
        "DELETE FROM queued_calls WHERE seq IN (SELECT seq FROM queued_calls ORDER BY seq LIMIT ?2) AND expires_at < ?1
            AND (dispatched = 1 OR ended_at IS NOT NULL)",
    )?
    .execute(params![Micros(keep_from), limit])
}

fn seq(row: &Row<'_>) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>("seq")?.unsigned_abs())
}

/// The file of a large body: another name than that of the result, which lies in the same folders.
pub(super) fn file_of(GenerationId(id): GenerationId) -> GenerationId {
    let hash = BlobHash::of(&[id.as_bytes().as_slice(), b"body"].concat());
    let mut name = [0; 16];
    name.copy_from_slice(&hash.as_bytes()[..16]);
    GenerationId(Uuid::from_bytes(name))
}

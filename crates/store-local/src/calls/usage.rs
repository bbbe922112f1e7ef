//! Reading what was called. An export reads page by page, so that it holds one of them at a time and no reader is long.
//!
//! It takes nothing but connections that read, so a command can do it beside the server that has the installation.

use std::collections::VecDeque;
use std::path::Path;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use router_core::{
    Breakdown, CallRecord, CallsError, GenerationId, GenerationUsage, KeyDigest, ModelTotal,
    RequestId, Unfinished, Usage, UsageCursor, UsageQuery, UsageRow,
};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use uuid::Uuid;

use super::columns::{api_key, bucket};
use super::{SqliteCalls, labels, rows, servings, unavailable};
use crate::columns::{Id, Micros, parse};
use crate::database::Readers;
use crate::directory::Directory;
use crate::open_error::OpenError;
use crate::schema::SCHEMA;

/// Rows that an export reads at once.
const EXPORT_PAGE: usize = 500;

/// A call and its generation.
const COLUMNS: &str =
    "SELECT c.*, g.id AS g_id, g.task_id, g.dispatched_at, g.accepted_at, g.settled_at,
    g.bucket AS g_bucket, g.hold_cents, g.charge_cents, s.serving, l.labels
    FROM calls c LEFT JOIN generations g ON g.id = c.generation
    LEFT JOIN call_servings s ON s.generation = g.id
    LEFT JOIN call_labels l ON l.received_at = c.received_at AND l.request = c.request";

/// A generation, with what of a call it tells.
const GENERATIONS: &str =
    "SELECT g.id AS g_id, g.account, g.model, coalesce(g.received_at, g.dispatched_at) AS received_at, g.task_id,
    g.dispatched_at, g.accepted_at, g.settled_at, g.bucket AS g_bucket, g.hold_cents, g.charge_cents, g.api_key, s.serving, l.labels
    FROM generations g LEFT JOIN call_servings s ON s.generation = g.id
    LEFT JOIN call_labels l ON l.received_at = g.received_at AND l.request = g.id";

/// Which calls fit a query.
const FITS: &str = "(:account IS NULL OR c.account = :account) AND c.received_at >= :from AND c.received_at < :until";

/// The generations that have ended and whose call is not on record; those of an older program's log do not tell when it came.
const UNRECORDED: &str = "g.settled_at IS NOT NULL AND CASE WHEN g.received_at IS NULL
    THEN NOT EXISTS (SELECT 1 FROM calls c WHERE c.request = g.id)
    ELSE NOT EXISTS (SELECT 1 FROM calls c WHERE c.received_at = g.received_at AND c.request = g.id) END
    AND (:account IS NULL OR g.account = :account)
    AND coalesce(g.received_at, g.dispatched_at) >= :from AND coalesce(g.received_at, g.dispatched_at) < :until";

/// Whether a call ended with a result. A submission to the queue is answered without one: what became of it is in its generation.
const SUCCEEDED: &str = "c.bucket IS NULL AND CASE WHEN c.generation = c.request
    THEN g.settled_at IS NOT NULL AND g.bucket IS NULL
    ELSE EXISTS (SELECT 1 FROM generations b WHERE b.id = c.generation AND b.settled_at IS NOT NULL AND b.bucket IS NULL) END";

/// Which way a page goes on.
#[derive(Clone, Copy)]
enum Order {
    NewestFirst,
    OldestFirst,
}

/// The record of calls in a data directory, to be read and nothing else: calls of the last tenth of a second may be missing.
/// Clones share it.
#[derive(Clone, Debug)]
pub struct SqliteUsage {
    readers: Readers,
}

impl SqliteUsage {
    /// Opens the record in a data directory, which a server may have at the same time. Nothing is taken or changed.
    ///
    /// # Errors
    /// If there is no installation, or another version of the program wrote it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let readers = Readers::open_alone(&Directory::database_in(path)?, SCHEMA)?;
        Ok(Self { readers })
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallsError> {
        self.readers.read(query).await.map_err(unavailable)
    }
}

impl SqliteCalls {
    fn usage(&self) -> SqliteUsage {
        SqliteUsage {
            readers: self.database.readers().clone(),
        }
    }
}

#[async_trait]
impl Usage for SqliteCalls {
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError> {
        self.database.catch_up().await;
        self.usage().page(query, after, limit).await
    }

    async fn totals(
        &self,
        query: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError> {
        self.database.catch_up().await;
        self.usage().totals(query, by).await
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let (database, usage) = (self.database.clone(), self.usage());
        let exported = async move {
            database.catch_up().await;
            usage.export(query)
        };
        stream::once(exported).flatten().boxed()
    }

    async fn find(
        &self,
        request: RequestId,
        came: (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError> {
        self.database.catch_up().await;
        self.usage().find(request, came).await
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        self.database.catch_up().await;
        self.usage().unfinished().await
    }
}

#[async_trait]
impl Usage for SqliteUsage {
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError> {
        let query = query.clone();
        self.read(move |rows| page(rows, &query, after, Order::NewestFirst, limit))
            .await
    }

    async fn totals(
        &self,
        query: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError> {
        let (query, by_key, label) = (query.clone(), by.by_key, by.label.map(str::to_owned));
        self.read(move |rows| totals(rows, &query, by_key, label.as_deref()))
            .await
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let export = Export {
            usage: self.clone(),
            query,
            after: None,
            page: VecDeque::new(),
            reads: Reads::Calls,
        };
        stream::try_unfold(export, async |mut export| {
            let next = export.next().await?;
            Ok(next.map(|row| (row, export)))
        })
        .boxed()
    }

    async fn find(
        &self,
        request: RequestId,
        came: (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError> {
        self.read(move |rows| find(rows, request, came)).await
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        self.read(rows::unfinished).await
    }
}

/// An export under way.
struct Export {
    usage: SqliteUsage,
    query: UsageQuery,
    after: Option<UsageCursor>,
    page: VecDeque<UsageRow>,
    reads: Reads,
}

/// What an export reads next.
#[derive(Clone, Copy)]
enum Reads {
    Calls,
    /// Last: a call that is written down meanwhile is then in neither half, and never in both.
    Unrecorded,
    Nothing,
}

impl Export {
    async fn next(&mut self) -> Result<Option<UsageRow>, CallsError> {
        while self.page.is_empty() {
            let (query, after) = (self.query.clone(), self.after);
            let read = match self.reads {
                Reads::Calls => {
                    let oldest_first = Order::OldestFirst;
                    self.usage
                        .read(move |rows| page(rows, &query, after, oldest_first, EXPORT_PAGE))
                        .await?
                }
                Reads::Unrecorded => {
                    let after = after.map_or(Uuid::nil(), |after| after.request.0);
                    self.usage
                        .read(move |rows| unrecorded(rows, &query, after, EXPORT_PAGE))
                        .await?
                }
                Reads::Nothing => return Ok(None),
            };
            self.page = read.into();
            self.after = self.page.back().map(|row| UsageCursor {
                received_at: row.call.received_at,
                request: row.call.request,
            });
            if self.page.len() < EXPORT_PAGE {
                self.after = None;
                self.reads = match self.reads {
                    Reads::Calls => Reads::Unrecorded,
                    Reads::Unrecorded | Reads::Nothing => Reads::Nothing,
                };
            }
        }
        Ok(self.page.pop_front())
    }
}

/// What stands for calls that are not on record, at most `limit`, by generation.
fn unrecorded(
    rows: &Connection,
    query: &UsageQuery,
    after: Uuid,
    limit: usize,
) -> rusqlite::Result<Vec<UsageRow>> {
    let mut statement = rows.prepare_cached(&format!(
        "{GENERATIONS} WHERE {UNRECORDED} AND g.id > :after ORDER BY g.id LIMIT :limit"
    ))?;
    let found = statement.query_map(
        named_params! {
            ":account": query.account.as_ref().map(accounts::AccountId::as_str),
            ":from": Micros(query.from.unwrap_or(Timestamp::MIN)),
            ":until": Micros(query.until.unwrap_or(Timestamp::MAX)),
            ":after": Id(after),
            ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
        },
        stands_for_its_call,
    )?;
    found.collect()
}

/// What stands for the call that began the generation of a row.
fn stands_for_its_call(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let Id(id) = row.get("g_id")?;
    let Micros(received_at) = row.get("received_at")?;
    Ok(UsageRow::of_generation(
        GenerationId(id),
        parse(&row.get::<_, String>("account")?)?,
        parse(&row.get::<_, String>("model")?)?,
        (received_at, api_key(row)?, labels::read(row)?),
        generation_usage(row)?,
    ))
}

/// The call of a request, or what stands for it.
fn find(
    rows: &Connection,
    request: RequestId,
    (from, until): (Timestamp, Timestamp),
) -> rusqlite::Result<Option<UsageRow>> {
    let call = rows
        .prepare_cached(&format!(
            "{COLUMNS} WHERE c.received_at >= ?1 AND c.received_at < ?2 AND c.request = ?3"
        ))?
        .query_row(
            params![Micros(from), Micros(until), Id(request.0)],
            usage_row,
        )
        .optional()?;
    if call.is_some() {
        return Ok(call);
    }
    rows.prepare_cached(&format!("{GENERATIONS} WHERE g.id = ?1"))?
        .query_row([Id(request.0)], stands_for_its_call)
        .optional()
}

fn page(
    rows: &Connection,
    query: &UsageQuery,
    after: Option<UsageCursor>,
    order: Order,
    limit: usize,
) -> rusqlite::Result<Vec<UsageRow>> {
    let (sign, direction, start) = match order {
        Order::NewestFirst => ("<", "DESC", (Timestamp::MAX, Uuid::max())),
        Order::OldestFirst => (">", "ASC", (Timestamp::MIN, Uuid::nil())),
    };
    let (received_at, request) = after.map_or(start, |after| (after.received_at, after.request.0));
    let mut statement = rows.prepare_cached(&format!(
        "{COLUMNS} WHERE {FITS} AND (c.received_at, c.request) {sign} (:received_at, :request)
         ORDER BY c.received_at {direction}, c.request {direction} LIMIT :limit"
    ))?;
    let found = statement.query_map(
        named_params! {
            ":account": query.account.as_ref().map(accounts::AccountId::as_str),
            ":from": Micros(query.from.unwrap_or(Timestamp::MIN)),
            ":until": Micros(query.until.unwrap_or(Timestamp::MAX)),
            ":received_at": Micros(received_at),
            ":request": Id(request),
            ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
        },
        usage_row,
    )?;
    found.collect()
}

fn totals(
    rows: &Connection,
    query: &UsageQuery,
    by_key: bool,
    label: Option<&str>,
) -> rusqlite::Result<Vec<ModelTotal>> {
    // Who asks for no label reads none.
    let (value, of_calls, of_generations) = match label {
        None => (":label", "", ""),
        Some(_) => (
            "json_extract(l.labels, :label)",
            "LEFT JOIN call_labels l ON l.received_at = c.received_at AND l.request = c.request",
            "LEFT JOIN call_labels l ON l.received_at = g.received_at AND l.request = g.id",
        ),
    };
    let (key_of_calls, key_of_generations) = match by_key {
        true => ("c.api_key", "g.api_key"),
        false => ("NULL", "NULL"),
    };
    // A key has no character that a path would read otherwise.
    let label = label.map(|key| format!("$.\"{key}\""));
    let mut statement = rows.prepare_cached(&format!(
        "SELECT account, model, api_key, label, sum(calls) AS calls, sum(succeeded) AS succeeded, sum(generations) AS generations,
            sum(charge_cents) AS charge_cents
         FROM (
            SELECT c.account, c.model, {key_of_calls} AS api_key, {value} AS label, count(*) AS calls, sum({SUCCEEDED}) AS succeeded,
                count(g.id) AS generations, coalesce(sum(g.charge_cents), 0) AS charge_cents
            FROM calls c LEFT JOIN generations g ON g.id = c.request {of_calls}
            WHERE c.model IS NOT NULL AND {FITS} GROUP BY c.account, c.model, 3, 4
            UNION ALL
            SELECT g.account, g.model, {key_of_generations}, {value}, 0, 0, count(*), coalesce(sum(g.charge_cents), 0)
            FROM generations g {of_generations} WHERE {UNRECORDED} GROUP BY g.account, g.model, 3, 4)
         GROUP BY account, model, api_key, label ORDER BY account, model, api_key, label"
    ))?;
    let found = statement.query_map(
        named_params! {
            ":account": query.account.as_ref().map(accounts::AccountId::as_str),
            ":from": Micros(query.from.unwrap_or(Timestamp::MIN)),
            ":until": Micros(query.until.unwrap_or(Timestamp::MAX)),
            ":label": label,
        },
        |row| {
            let count = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(ModelTotal {
                account: parse(&row.get::<_, String>("account")?)?,
                model: parse(&row.get::<_, String>("model")?)?,
                api_key: api_key(row)?,
                label: row.get("label")?,
                calls: count("calls")?,
                succeeded: count("succeeded")?,
                generations: count("generations")?,
                charge_cents: count("charge_cents")?,
            })
        },
    )?;
    found.collect()
}

/// What is known of the generation of a row, which has one.
fn generation_usage(row: &Row<'_>) -> rusqlite::Result<GenerationUsage> {
    let time = |column: &str| -> rusqlite::Result<Option<Timestamp>> {
        let time: Option<Micros> = row.get(column)?;
        Ok(time.map(|Micros(time)| time))
    };
    let Micros(dispatched_at) = row.get("dispatched_at")?;
    Ok(GenerationUsage {
        task_id: row.get("task_id")?,
        dispatched_at,
        accepted_at: time("accepted_at")?,
        settled_at: time("settled_at")?,
        bucket: bucket(row.get("g_bucket")?)?,
        hold_cents: row.get::<_, i64>("hold_cents")?.unsigned_abs(),
        charge_cents: row
            .get::<_, Option<i64>>("charge_cents")?
            .map(i64::unsigned_abs),
        serving: servings::read(row)?,
    })
}

fn usage_row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let Id(request) = row.get("request")?;
    let model: Option<String> = row.get("model")?;
    let generation: Option<Id> = row.get("generation")?;
    let Micros(received_at) = row.get("received_at")?;
    let Micros(answered_at) = row.get("answered_at")?;
    let call = CallRecord {
        request: RequestId(request),
        account: parse(&row.get::<_, String>("account")?)?,
        model: model.map(|model| parse(&model)).transpose()?,
        key: row.get::<_, Option<[u8; 32]>>("key")?.map(KeyDigest),
        generation: generation.map(|Id(id)| GenerationId(id)),
        api_key: api_key(row)?,
        labels: labels::read(row)?,
        bucket: bucket(row.get("bucket")?)?,
        replayed: row.get("replayed")?,
        received_at,
        answered_at,
        delivered: row.get("delivered")?,
    };
    let known: Option<Id> = row.get("g_id")?;
    let generation = known.map(|_| generation_usage(row)).transpose()?;
    Ok(UsageRow {
        call,
        generation,
        is_recorded: true,
    })
}

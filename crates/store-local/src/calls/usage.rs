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
    CallRecord, CallsError, GenerationId, GenerationUsage, KeyDigest, ModelTotal, RequestId, Usage,
    UsageCursor, UsageQuery, UsageRow,
};
use rusqlite::{Connection, Row, named_params};
use uuid::Uuid;

use super::columns::bucket;
use super::{SqliteCalls, unavailable};
use crate::OpenError;
use crate::columns::{Id, Micros, parse};
use crate::database::Readers;
use crate::directory::Directory;

/// Rows that an export reads at once.
const EXPORT_PAGE: usize = 500;

/// A call and its generation.
const COLUMNS: &str =
    "SELECT c.*, g.id AS g_id, g.task_id, g.dispatched_at, g.accepted_at, g.settled_at,
    g.bucket AS g_bucket, g.hold_cents, g.charge_cents
    FROM calls c LEFT JOIN generations g ON g.id = c.generation";

/// Which calls fit a query.
const FITS: &str = "(:account IS NULL OR c.account = :account) AND c.received_at >= :from AND c.received_at < :until";

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
        let readers = Readers::open_alone(&Directory::database_in(path)?)?;
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

    async fn totals(&self, query: &UsageQuery) -> Result<Vec<ModelTotal>, CallsError> {
        self.database.catch_up().await;
        self.usage().totals(query).await
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let (database, usage) = (self.database.clone(), self.usage());
        let exported = async move {
            database.catch_up().await;
            usage.export(query)
        };
        stream::once(exported).flatten().boxed()
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

    async fn totals(&self, query: &UsageQuery) -> Result<Vec<ModelTotal>, CallsError> {
        let query = query.clone();
        self.read(move |rows| totals(rows, &query)).await
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let export = Export {
            usage: self.clone(),
            query,
            after: None,
            page: VecDeque::new(),
            is_over: false,
        };
        stream::try_unfold(export, async |mut export| {
            let next = export.next().await?;
            Ok(next.map(|row| (row, export)))
        })
        .boxed()
    }
}

/// An export under way.
struct Export {
    usage: SqliteUsage,
    query: UsageQuery,
    after: Option<UsageCursor>,
    page: VecDeque<UsageRow>,
    is_over: bool,
}

impl Export {
    async fn next(&mut self) -> Result<Option<UsageRow>, CallsError> {
        if self.page.is_empty() && !self.is_over {
            let (query, after) = (self.query.clone(), self.after);
            let read = self
                .usage
                .read(move |rows| page(rows, &query, after, Order::OldestFirst, EXPORT_PAGE));
            self.page = read.await?.into();
            self.is_over = self.page.len() < EXPORT_PAGE;
            self.after = self.page.back().map(|row| UsageCursor {
                received_at: row.call.received_at,
                request: row.call.request,
            });
        }
        Ok(self.page.pop_front())
    }
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

fn totals(rows: &Connection, query: &UsageQuery) -> rusqlite::Result<Vec<ModelTotal>> {
    let mut statement = rows.prepare_cached(&format!(
        "SELECT c.account, c.model, count(*) AS calls, sum(c.bucket IS NULL) AS succeeded,
            count(g.id) AS generations, coalesce(sum(g.charge_cents), 0) AS charge_cents
         FROM calls c LEFT JOIN generations g ON g.id = c.request
         WHERE c.model IS NOT NULL AND {FITS}
         GROUP BY c.account, c.model ORDER BY c.account, c.model"
    ))?;
    let found = statement.query_map(
        named_params! {
            ":account": query.account.as_ref().map(accounts::AccountId::as_str),
            ":from": Micros(query.from.unwrap_or(Timestamp::MIN)),
            ":until": Micros(query.until.unwrap_or(Timestamp::MAX)),
        },
        |row| {
            let count = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(ModelTotal {
                account: parse(&row.get::<_, String>("account")?)?,
                model: parse(&row.get::<_, String>("model")?)?,
                calls: count("calls")?,
                succeeded: count("succeeded")?,
                generations: count("generations")?,
                charge_cents: count("charge_cents")?,
            })
        },
    )?;
    found.collect()
}

fn usage_row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let time = |column: &str| -> rusqlite::Result<Option<Timestamp>> {
        let time: Option<Micros> = row.get(column)?;
        Ok(time.map(|Micros(time)| time))
    };
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
        bucket: bucket(row.get("bucket")?)?,
        replayed: row.get("replayed")?,
        received_at,
        answered_at,
        delivered: row.get("delivered")?,
    };
    let known: Option<Id> = row.get("g_id")?;
    let generation = match (known, time("dispatched_at")?) {
        (Some(_), Some(dispatched_at)) => Some(GenerationUsage {
            task_id: row.get("task_id")?,
            dispatched_at,
            accepted_at: time("accepted_at")?,
            settled_at: time("settled_at")?,
            bucket: bucket(row.get("g_bucket")?)?,
            hold_cents: row.get::<_, i64>("hold_cents")?.unsigned_abs(),
            charge_cents: row
                .get::<_, Option<i64>>("charge_cents")?
                .map(i64::unsigned_abs),
        }),
        (None, _) | (Some(_), None) => None,
    };
    Ok(UsageRow { call, generation })
}

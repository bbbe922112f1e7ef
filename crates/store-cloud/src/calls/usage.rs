//! Reading what was called, by the keys of rows. An export reads page by page, so that it holds one of them at a time.

use std::collections::VecDeque;

use accounts::AccountId;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use router_core::{
    Breakdown, CallRecord, CallsError, GenerationId, GenerationUsage, KeyDigest, ModelTotal,
    RequestId, Unfinished, Usage, UsageCursor, UsageQuery, UsageRow,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::outcome::bucket;
use super::records::Records;
use super::{labels, running, servings, unavailable};
use crate::columns::{from_micros, parse, unreadable, unsigned};
use crate::statements::{query, query_opt, whole};
use crate::{Database, DatabaseError};

/// Rows that an export reads at once.
const EXPORT_PAGE: usize = 500;

/// The record of calls in a database. Clones share it.
#[derive(Clone)]
pub struct PgUsage {
    database: Database,
    records: Option<Records>,
}

/// Which way a page goes on.
#[derive(Clone, Copy)]
enum Order {
    NewestFirst,
    OldestFirst,
}

/// Which rows are asked for, as parameters.
struct Asked<'a> {
    account: Option<&'a str>,
    from: i64,
    until: i64,
}

impl<'a> Asked<'a> {
    fn of(query: &'a UsageQuery) -> Self {
        Self {
            account: query.account.as_ref().map(AccountId::as_str),
            from: query.from.unwrap_or(Timestamp::MIN).as_microsecond(),
            until: query.until.unwrap_or(Timestamp::MAX).as_microsecond(),
        }
    }

    /// Which rows of a table fit `$1` to `$3`: a text for each of both cases, so that an index by account is used.
    fn fits(&self, table: &str) -> String {
        let account = match self.account {
            Some(_) => format!("{table}.account = $1"),
            None => "$1::text IS NULL".to_owned(),
        };
        format!("{account} AND {table}.received_at >= $2 AND {table}.received_at < $3")
    }
}

/// Calls with their generations.
const CALLS: &str =
    "SELECT c.received_at, c.request, c.account, c.model, c.key, c.generation, c.bucket, c.replayed, c.answered_at,
        c.delivered, c.api_key, coalesce(g.id, r.id) AS g_id, coalesce(g.task_id, r.task_id) AS task_id,
        coalesce(g.dispatched_at, r.dispatched_at) AS dispatched_at,
        coalesce(g.accepted_at, r.accepted_at) AS accepted_at, g.settled_at, g.bucket AS g_bucket,
        coalesce(g.hold_cents, r.hold_cents) AS hold_cents, g.charge_cents, s.serving, l.labels
     FROM calls c LEFT JOIN generations g ON g.id = c.generation
        LEFT JOIN generations_running r ON r.id = c.generation
        LEFT JOIN call_servings s ON s.generation = c.generation
        LEFT JOIN call_labels l ON l.received_at = c.received_at AND l.request = c.request";

/// That the call which began an ended generation is not on record.
const UNRECORDED: &str =
    "NOT EXISTS (SELECT FROM calls c WHERE c.received_at = g.received_at AND c.request = g.id)";

/// Whether a call ended with a result. A submission to the queue is answered without one: what became of it is in its generation.
const SUCCEEDED: &str = "c.bucket IS NULL AND CASE WHEN c.generation = c.request
    THEN g.id IS NOT NULL AND g.bucket IS NULL
    ELSE EXISTS (SELECT FROM generations b WHERE b.id = c.generation AND b.bucket IS NULL) END";

impl PgUsage {
    /// The record in a database, to be read and nothing else. What a process handed in within the last moment may be missing.
    #[must_use]
    pub fn new(database: &Database) -> Self {
        Self::of(database, None)
    }

    pub(super) fn of(database: &Database, records: Option<Records>) -> Self {
        Self {
            database: database.clone(),
            records,
        }
    }

    /// Waits for what this process handed in.
    async fn catch_up(&self) {
        if let Some(records) = &self.records {
            records.written().await;
        }
    }

    async fn read_page(
        &self,
        asked: &UsageQuery,
        after: Option<UsageCursor>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<UsageRow>, DatabaseError> {
        let (sign, direction, start) = match order {
            Order::NewestFirst => ("<", "DESC", (Timestamp::MAX, Uuid::max())),
            Order::OldestFirst => (">", "ASC", (Timestamp::MIN, Uuid::nil())),
        };
        let (received_at, request) =
            after.map_or(start, |after| (after.received_at, after.request.0));
        let asked = Asked::of(asked);
        let sql = format!(
            "{CALLS} WHERE {} AND (c.received_at, c.request) {sign} ($4, $5)
             ORDER BY c.received_at {direction}, c.request {direction} LIMIT $6",
            asked.fits("c")
        );
        let connection = self.database.connection().await?;
        let found = query(
            &connection,
            &sql,
            &[
                &asked.account,
                &asked.from,
                &asked.until,
                &received_at.as_microsecond(),
                &request,
                &whole(limit),
            ],
        )
        .await?;
        found.iter().map(usage_row).collect()
    }

    /// What stands for calls that are not on record, at most `limit`, by generation.
    async fn read_unrecorded(
        &self,
        asked: &UsageQuery,
        after: Uuid,
        limit: usize,
    ) -> Result<Vec<UsageRow>, DatabaseError> {
        let asked = Asked::of(asked);
        let sql = format!(
            "SELECT g.id, g.account, g.model, g.received_at, g.task_id, g.dispatched_at, g.accepted_at, g.settled_at,
                g.bucket AS g_bucket, g.hold_cents, g.charge_cents, g.api_key, s.serving, l.labels
             FROM generations g LEFT JOIN call_servings s ON s.generation = g.id
                LEFT JOIN call_labels l ON l.received_at = g.received_at AND l.request = g.id
             WHERE {} AND {UNRECORDED} AND g.id > $4 ORDER BY g.id LIMIT $5",
            asked.fits("g")
        );
        let connection = self.database.connection().await?;
        let found = query(
            &connection,
            &sql,
            &[
                &asked.account,
                &asked.from,
                &asked.until,
                &after,
                &whole(limit),
            ],
        )
        .await?;
        found.iter().map(stands_for_its_call).collect()
    }

    /// The call of a request, or what stands for it.
    async fn read_one(
        &self,
        request: RequestId,
        (from, until): (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, DatabaseError> {
        let sql =
            format!("{CALLS} WHERE c.received_at >= $1 AND c.received_at < $2 AND c.request = $3");
        let connection = self.database.connection().await?;
        let (from, until) = (from.as_microsecond(), until.as_microsecond());
        let call = query_opt(&connection, &sql, &[&from, &until, &request.0]).await?;
        if let Some(call) = call {
            return usage_row(&call).map(Some);
        }
        let sql = "SELECT g.id, g.account, g.model, g.received_at, g.task_id, g.dispatched_at, g.accepted_at, g.settled_at,
                g.bucket AS g_bucket, g.hold_cents, g.charge_cents, g.api_key, s.serving, l.labels
             FROM generations g LEFT JOIN call_servings s ON s.generation = g.id
                LEFT JOIN call_labels l ON l.received_at = g.received_at AND l.request = g.id WHERE g.id = $1
             UNION ALL
             SELECT r.id, r.account, r.model, r.received_at, r.task_id, r.dispatched_at, r.accepted_at, NULL, NULL,
                r.hold_cents, NULL, r.api_key, s.serving, l.labels
             FROM generations_running r LEFT JOIN call_servings s ON s.generation = r.id
                LEFT JOIN call_labels l ON l.received_at = r.received_at AND l.request = r.id WHERE r.id = $1 LIMIT 1";
        let generation = query_opt(&connection, sql, &[&request.0]).await?;
        generation.as_ref().map(stands_for_its_call).transpose()
    }

    async fn read_totals(
        &self,
        asked: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, DatabaseError> {
        let asked = Asked::of(asked);
        let label = by.label;
        let (key_of_calls, key_of_generations) = match by.by_key {
            true => ("c.api_key", "g.api_key"),
            false => ("NULL::text", "NULL::text"),
        };
        // Who asks for no label reads none.
        let (value, of_calls, of_generations) = match label {
            None => ("$4::text", "", ""),
            Some(_) => (
                "l.labels::json ->> $4::text",
                "LEFT JOIN call_labels l ON l.received_at = c.received_at AND l.request = c.request",
                "LEFT JOIN call_labels l ON l.received_at = g.received_at AND l.request = g.id",
            ),
        };
        let sql = format!(
            "SELECT account, model, api_key, label, sum(calls)::bigint AS calls, sum(succeeded)::bigint AS succeeded,
                sum(generations)::bigint AS generations, least(sum(cents), 9223372036854775807)::bigint AS charge_cents
             FROM (
                SELECT c.account, c.model, {key_of_calls} AS api_key, {value} AS label, count(*) AS calls, count(*) FILTER (WHERE {SUCCEEDED}) AS succeeded,
                    count(g.id) + count(r.id) AS generations, coalesce(sum(g.charge_cents), 0) AS cents
                FROM calls c LEFT JOIN generations g ON g.id = c.request
                    LEFT JOIN generations_running r ON r.id = c.request {of_calls}
                WHERE c.model IS NOT NULL AND {} GROUP BY c.account, c.model, 3, 4
                UNION ALL
                SELECT g.account, g.model, {key_of_generations}, {value}, 0, 0, count(*), sum(g.charge_cents)
                FROM generations g {of_generations} WHERE {} AND {UNRECORDED} GROUP BY g.account, g.model, 3, 4) AS parts
             GROUP BY account, model, api_key, label
             ORDER BY account COLLATE \"C\", model COLLATE \"C\", api_key COLLATE \"C\" NULLS FIRST,
                label COLLATE \"C\" NULLS FIRST",
            asked.fits("c"),
            asked.fits("g")
        );
        let connection = self.database.connection().await?;
        let found = query(
            &connection,
            &sql,
            &[&asked.account, &asked.from, &asked.until, &label],
        )
        .await?;
        let rows = found;
        let totals = rows.iter().map(|row| {
            Ok(ModelTotal {
                account: parse(row.get("account"))?,
                model: parse(row.get("model"))?,
                api_key: running::api_key(row)?,
                label: row.get("label"),
                calls: unsigned(row.get("calls"))?,
                succeeded: unsigned(row.get("succeeded"))?,
                generations: unsigned(row.get("generations"))?,
                charge_cents: unsigned(row.get("charge_cents"))?,
            })
        });
        totals.collect()
    }

    async fn read_unfinished(&self) -> Result<Vec<Unfinished>, DatabaseError> {
        let connection = self.database.connection().await?;
        let running = running::RUNNING;
        let sql =
            format!("SELECT {running} FROM generations_running r ORDER BY r.dispatched_at, r.id");
        let found = query(&connection, &sql, &[]).await?;
        let unfinished: Result<Vec<_>, _> = found.iter().map(running::unfinished).collect();
        let unfinished = labels::add(&connection, unfinished?).await?;
        drop(connection);
        servings::add(&self.database, unfinished).await
    }
}

#[async_trait]
impl Usage for PgUsage {
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError> {
        self.catch_up().await;
        let page = self.read_page(query, after, Order::NewestFirst, limit);
        page.await.map_err(unavailable)
    }

    async fn totals(
        &self,
        query: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError> {
        self.catch_up().await;
        self.read_totals(query, by).await.map_err(unavailable)
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        let export = Export {
            usage: self.clone(),
            query,
            after: None,
            page: VecDeque::new(),
            reads: Reads::Calls,
        };
        let usage = self.clone();
        let rows = stream::try_unfold(export, async |mut export| {
            let next = export.next().await.map_err(unavailable)?;
            Ok(next.map(|row| (row, export)))
        });
        let exported = async move {
            usage.catch_up().await;
            rows
        };
        stream::once(exported).flatten().boxed()
    }

    async fn find(
        &self,
        request: RequestId,
        came: (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError> {
        self.catch_up().await;
        self.read_one(request, came).await.map_err(unavailable)
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        self.read_unfinished().await.map_err(unavailable)
    }
}

/// An export under way.
struct Export {
    usage: PgUsage,
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
    async fn next(&mut self) -> Result<Option<UsageRow>, DatabaseError> {
        while self.page.is_empty() {
            let read = match self.reads {
                Reads::Calls => {
                    let order = Order::OldestFirst;
                    let page = self
                        .usage
                        .read_page(&self.query, self.after, order, EXPORT_PAGE);
                    page.await?
                }
                Reads::Unrecorded => {
                    let after = self.after.map_or(Uuid::nil(), |after| after.request.0);
                    let page = self.usage.read_unrecorded(&self.query, after, EXPORT_PAGE);
                    page.await?
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

/// What is known of the generation of a row, which has one.
fn generation_usage(row: &Row) -> Result<GenerationUsage, DatabaseError> {
    let time = |column: &str| {
        let time: Option<i64> = row.get(column);
        time.map(from_micros).transpose()
    };
    let task_id: Option<&[u8]> = row.get("task_id");
    let charge: Option<i64> = row.get("charge_cents");
    Ok(GenerationUsage {
        task_id: task_id.map(|id| String::from_utf8_lossy(id).into_owned()),
        dispatched_at: from_micros(row.get("dispatched_at"))?,
        accepted_at: time("accepted_at")?,
        settled_at: time("settled_at")?,
        bucket: bucket(row.get("g_bucket"))?,
        hold_cents: unsigned(row.get("hold_cents"))?,
        charge_cents: charge.map(unsigned).transpose()?,
        serving: servings::read(row)?,
    })
}

/// What stands for the call that began the generation of a row.
fn stands_for_its_call(row: &Row) -> Result<UsageRow, DatabaseError> {
    Ok(UsageRow::of_generation(
        GenerationId(row.get("id")),
        parse(row.get("account"))?,
        parse(row.get("model"))?,
        (
            from_micros(row.get("received_at"))?,
            running::api_key(row)?,
            labels::read(row)?,
        ),
        generation_usage(row)?,
    ))
}

fn usage_row(row: &Row) -> Result<UsageRow, DatabaseError> {
    let model: Option<&str> = row.get("model");
    let key: Option<&[u8]> = row.get("key");
    let key = key.map(<[u8; 32]>::try_from).transpose();
    let generation: Option<Uuid> = row.get("generation");
    let call = CallRecord {
        request: RequestId(row.get("request")),
        account: parse(row.get("account"))?,
        model: model.map(parse).transpose()?,
        key: key.map_err(unreadable)?.map(KeyDigest),
        generation: generation.map(GenerationId),
        api_key: running::api_key(row)?,
        labels: labels::read(row)?,
        bucket: bucket(row.get("bucket"))?,
        replayed: row.get("replayed"),
        received_at: from_micros(row.get("received_at"))?,
        answered_at: from_micros(row.get("answered_at"))?,
        delivered: row.get("delivered"),
    };
    let known: Option<Uuid> = row.get("g_id");
    let generation = known.map(|_| generation_usage(row)).transpose()?;
    Ok(UsageRow {
        call,
        generation,
        is_recorded: true,
    })
}

impl std::fmt::Debug for PgUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgUsage")
    }
}

//! `GET /v1/calls` and `GET /v1/usage`: what an account called, and what it cost.
//!
//! A caller reads its own account. A key with the scope `admin` may name another account, or `*` for all of them.

use std::collections::BTreeMap;

use accounts::{AccountId, Label, Scope};
use http::{Response, StatusCode};
use hyper_kit::Body;
use jiff::{SignedDuration, Timestamp};
use router_core::{
    Breakdown, Bucket, CallsError, FailedAttempt, ModelTotal, RequestId, RouterError, UsageCursor,
    UsageQuery, UsageRow, read_limit,
};
use serde::Serialize;
use uuid::Uuid;

use crate::api::Asked;
use crate::query::parameter;
use crate::{RouterService, reply};

/// The span of a report where nothing else is asked for.
const DAYS: i64 = 30;

/// Most days of a report by day: each is read by itself.
const MOST_DAYS: usize = 92;

/// The scope that reading one's own record needs.
const NEEDS_RUN: &str = "the record of calls needs a key with the scope router:run or admin";

/// The scope that reading others' records needs.
const NEEDS_ADMIN: &str = "the record of another workspace needs a key with the scope admin";

/// A page of calls, newest first.
#[derive(Debug, Serialize)]
struct CallList {
    data: Vec<CallBody>,
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    limit: usize,
}

/// One HTTP request to run a model.
#[derive(Debug, Serialize)]
pub(crate) struct CallBody {
    request_id: String,
    workspace: String,
    model: Option<String>,
    /// The id of the API key that it came with; left out of calls without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    /// Told where it has some.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    status: &'static str,
    replayed: bool,
    delivered: bool,
    received_at: String,
    answered_at: Option<String>,
    generation: Option<GenerationBody>,
}

/// What a call began, picked up or replayed. Its money stands with the call that began it alone.
#[derive(Debug, Serialize)]
struct GenerationBody {
    id: String,
    began: bool,
    task_id: Option<String>,
    status: &'static str,
    dispatched_at: String,
    accepted_at: Option<String>,
    settled_at: Option<String>,
    hold_cents: u64,
    charge_cents: Option<u64>,
    /// The model that served it, or serves it, where the call named its providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    served_by: Option<String>,
    /// The attempts that failed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed_attempts: Vec<AttemptBody>,
}

/// An attempt to run a call at one of the providers that it names.
#[derive(Debug, Serialize)]
struct AttemptBody {
    model: String,
    status: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_status: Option<u16>,
    began_at: String,
    ended_at: String,
}

/// A report.
#[derive(Debug, Serialize)]
struct UsageReport {
    from: String,
    until: String,
    data: Vec<TotalBody>,
}

/// What one account used of one model, in the whole span or on one day of it, under one value of a label where it is asked for.
#[derive(Debug, Serialize)]
struct TotalBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    workspace: String,
    model: String,
    /// Null for calls without an API key; left out where keys are not told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<Option<String>>,
    /// Null for calls without the label; left out where none is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Option<String>>,
    calls: u64,
    succeeded: u64,
    generations: u64,
    charge_cents: u64,
}

/// GET /v1/calls.
pub(crate) async fn calls(
    service: &RouterService,
    asked: &Asked,
    query: &str,
) -> Result<Response<Body>, RouterError> {
    let limit = parameter(query, "limit")?;
    let limit = read_limit(limit.as_deref().as_slice()).map_err(RouterError::Malformed)?;
    let limit = limit as usize;
    let after = parameter(query, "cursor")?.map(|text| {
        read_cursor(&text).ok_or_else(|| malformed("the cursor is invalid; start again without it"))
    });
    let wanted = UsageQuery {
        account: account(asked, query)?,
        from: time(query, "from")?,
        until: time(query, "until")?,
    };
    let rows = service
        .usage
        .page(&wanted, after.transpose()?, limit + 1)
        .await;
    let mut rows = rows.map_err(unavailable)?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| has_more);
    let list = CallList {
        next_cursor: last.map(|row| cursor(row.call.received_at, row.call.request)),
        data: rows.iter().map(CallBody::of).collect(),
        has_more,
        limit,
    };
    Ok(reply::json(StatusCode::OK, &list))
}

/// GET /v1/usage.
pub(crate) async fn totals(
    service: &RouterService,
    asked: &Asked,
    query: &str,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let account = account(asked, query)?;
    let until = time(query, "until")?.unwrap_or(now);
    let before = || {
        until
            .checked_sub(SignedDuration::from_hours(24 * DAYS))
            .unwrap_or(Timestamp::MIN)
    };
    let from = time(query, "from")?.unwrap_or_else(before);
    let wanted = parameter(query, "by")?;
    let (mut by_day, mut by_key) = (false, false);
    for word in wanted.as_deref().unwrap_or("model").split(',') {
        match word {
            "model" => {}
            "day" => by_day = true,
            "key" => by_key = true,
            _ => return Err(malformed("`by` is model, day or key, or day,key")),
        }
    }
    let spans = match by_day {
        true => days(from, until)?,
        false => vec![(None, from, until)],
    };
    let label = parameter(query, "label")?;
    if let Some(Err(must)) = label.as_deref().map(Label::check_key) {
        return Err(malformed(&format!("`label` is the key of a label: {must}")));
    }
    let by = Breakdown {
        by_key,
        label: label.as_deref(),
    };
    let mut data = Vec::new();
    for (day, from, until) in spans {
        let wanted = UsageQuery {
            account: account.clone(),
            from: Some(from),
            until: Some(until),
        };
        let totals = service.usage.totals(&wanted, by).await;
        let totals = totals.map_err(unavailable)?.into_iter();
        data.extend(totals.map(|total| TotalBody::of(total, day.clone(), by)));
    }
    let report = UsageReport {
        from: from.to_string(),
        until: until.to_string(),
        data,
    };
    Ok(reply::json(StatusCode::OK, &report))
}

/// Each day (UTC) of a span, with its name and its part of the span.
fn days(
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<(Option<String>, Timestamp, Timestamp)>, RouterError> {
    const DAY_S: i64 = 24 * 60 * 60;
    let mut days = Vec::new();
    let mut start = from;
    while start < until {
        if days.len() == MOST_DAYS {
            return Err(malformed(
                "a report by day spans at most 92 days; name `from` and `until`",
            ));
        }
        let next = (start.as_second().div_euclid(DAY_S) + 1) * DAY_S;
        let end = Timestamp::from_second(next).unwrap_or(until).min(until);
        let name = start.to_string().chars().take("2026-01-01".len()).collect();
        days.push((Some(name), start, end));
        start = end;
    }
    Ok(days)
}

/// Whose record is asked for; `None` for all.
pub(crate) fn account(asked: &Asked, query: &str) -> Result<Option<AccountId>, RouterError> {
    let caller = &asked.caller;
    let is_admin = caller.scopes.allow(Scope::Admin);
    if !is_admin && !caller.scopes.allow(Scope::RouterRun) {
        return Err(RouterError::Forbidden(NEEDS_RUN.into()));
    }
    let Some(named) = parameter(query, "workspace")? else {
        return Ok(Some(caller.account.clone()));
    };
    let account = match named.as_str() {
        "*" => None,
        id => Some(
            id.parse::<AccountId>()
                .map_err(|error| malformed(&error.to_string()))?,
        ),
    };
    match is_admin || account.as_ref() == Some(&caller.account) {
        true => Ok(account),
        false => Err(RouterError::Forbidden(NEEDS_ADMIN.into())),
    }
}

fn time(query: &str, name: &str) -> Result<Option<Timestamp>, RouterError> {
    let read = parameter(query, name)?.map(|text| text.parse::<Timestamp>());
    let wrong = format!("`{name}` is a time such as 2026-11-01T00:00:00Z");
    read.transpose().map_err(|_| malformed(&wrong))
}

/// A position, readable: it names nothing that its reader has not seen, and the account is part of the question.
fn cursor(received_at: Timestamp, request: RequestId) -> String {
    format!("{}.{request}", received_at.as_microsecond())
}

fn read_cursor(text: &str) -> Option<UsageCursor> {
    let (received_at, request) = text.split_once('.')?;
    Some(UsageCursor {
        received_at: Timestamp::from_microsecond(received_at.parse().ok()?).ok()?,
        request: RequestId(request.parse::<Uuid>().ok()?),
    })
}

fn malformed(reason: &str) -> RouterError {
    RouterError::Malformed(reason.to_owned())
}

fn unavailable(error: CallsError) -> RouterError {
    RouterError::Unavailable(Box::new(error))
}

fn status(bucket: Option<Bucket>) -> &'static str {
    bucket.map_or("ok", Bucket::name)
}

impl CallBody {
    pub(crate) fn of(row: &UsageRow) -> Self {
        let call = &row.call;
        let generation = row.generation.as_ref().zip(call.generation);
        Self {
            request_id: call.request.to_string(),
            workspace: call.account.as_str().to_owned(),
            model: call.model.as_ref().map(|model| model.as_str().to_owned()),
            api_key: call.api_key.as_ref().map(ToString::to_string),
            labels: call
                .labels
                .iter()
                .map(|label| (label.key().to_owned(), label.value().to_owned()))
                .collect(),
            status: status(call.bucket),
            replayed: call.replayed,
            delivered: call.delivered,
            received_at: call.received_at.to_string(),
            answered_at: row.is_recorded.then(|| call.answered_at.to_string()),
            generation: generation.map(|(it, id)| GenerationBody {
                id: id.to_string(),
                began: row.began(),
                task_id: it.task_id.clone(),
                status: match it.settled_at {
                    Some(_) => status(it.bucket),
                    None => "running",
                },
                dispatched_at: it.dispatched_at.to_string(),
                accepted_at: it.accepted_at.map(|at| at.to_string()),
                settled_at: it.settled_at.map(|at| at.to_string()),
                hold_cents: if row.began() { it.hold_cents } else { 0 },
                charge_cents: it
                    .charge_cents
                    .map(|cents| if row.began() { cents } else { 0 }),
                served_by: it.serving.as_ref().map(|one| one.model.as_str().to_owned()),
                failed_attempts: it
                    .serving
                    .iter()
                    .flat_map(|serving| serving.failed.iter().map(AttemptBody::of))
                    .collect(),
            }),
        }
    }
}

impl AttemptBody {
    fn of(attempt: &FailedAttempt) -> Self {
        Self {
            model: attempt.model.as_str().to_owned(),
            status: attempt.bucket.name(),
            message: attempt.message.clone(),
            upstream_status: attempt.upstream_status,
            began_at: attempt.began_at.to_string(),
            ended_at: attempt.ended_at.to_string(),
        }
    }
}

impl TotalBody {
    fn of(total: ModelTotal, day: Option<String>, by: Breakdown<'_>) -> Self {
        let api_key = total.api_key.map(|key| key.to_string());
        Self {
            day,
            workspace: total.account.as_str().to_owned(),
            model: total.model.as_str().to_owned(),
            api_key: by.by_key.then_some(api_key),
            label: by.label.map(|_| total.label),
            calls: total.calls,
            succeeded: total.succeeded,
            generations: total.generations,
            charge_cents: total.charge_cents,
        }
    }
}

//! What was run, in the forms of a server of one's own and of the cloud.
//!
//! Deleting from a history hides: jobs and their outputs stay readable by id for as long as they are kept.

use std::collections::HashSet;

use bytes::Bytes;
use http::Response;
use hyper_kit::Body;
use jiff::Timestamp;
use serde_json::{Value, json};
use v1_compat::{
    FileContent, JobRecord, Parts, history_entry, history_v2_entry, history_v2_item, job_of,
    prompt_id,
};
use workflow_core::{JobId, JobsError};

use super::errors::{ApiError, field};
use super::listing::{Brief, Step, texts};
use super::reply;
use super::request::{Call, done, job_id, object};

/// Where it is kept what an account does not want to see; the routes of saved files do not reach it.
pub(super) const HIDDEN: &str = ".easel/history.json";

/// Most single jobs that are hidden; the oldest come into view again.
const MOST_HIDDEN: usize = 10_000;

/// What an account does not want to see in its history.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Everything that ended until then.
    until_ms: Option<i64>,
    ids: HashSet<JobId>,
    order: Vec<JobId>,
}

impl Hidden {
    pub(super) async fn read(call: &Call<'_>) -> Result<Self, ApiError> {
        let path = HIDDEN.parse().expect("a path");
        let bytes = call.v1.user_files.read(call.account(), &path).await?;
        Ok(Self::of(bytes.as_deref()))
    }

    /// What such a file says.
    fn of(bytes: Option<&[u8]>) -> Self {
        let document = bytes.and_then(|bytes| json_text::read(bytes).ok());
        let Some(document) = document else {
            return Self::default();
        };
        let ids = document.get("ids").and_then(texts).unwrap_or_default();
        let order: Vec<JobId> = ids.into_iter().filter_map(job_id).collect();
        Self {
            until_ms: document.get("until_ms").and_then(Value::as_i64),
            ids: order.iter().copied().collect(),
            order,
        }
    }

    /// The same, and these jobs, and everything that ended until then.
    fn and(mut self, jobs: Vec<JobId>, until_ms: Option<i64>) -> Self {
        // Ids stay when all that is over is hidden: one of them may be of a job that ends after that.
        self.until_ms = self.until_ms.max(until_ms);
        for job in jobs {
            if self.ids.insert(job) {
                self.order.push(job);
            }
        }
        self
    }

    fn to_bytes(&self) -> Bytes {
        let newest = self.order.iter().rev().take(MOST_HIDDEN).rev();
        let ids: Vec<String> = newest.map(ToString::to_string).collect();
        Bytes::from(json!({"until_ms": self.until_ms, "ids": ids}).to_string())
    }

    pub(super) fn has(&self, job: &Brief) -> bool {
        let ended = job.completed_at.map(Timestamp::as_millisecond);
        let cleared = ended.is_some_and(|ended| self.until_ms.is_some_and(|until| ended <= until));
        let named = || self.ids.contains(&job.id) || self.ids.contains(&job.prompt_id);
        cleared || (ended.is_some() && named())
    }
}

/// GET /history: by id, the oldest first. Of `max_items` the newest are given, from `offset` on the ones behind it.
pub(super) async fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (max_items, offset) = (number(call, "max_items")?, number(call, "offset")?);
    let mut jobs = shown(call).await?;
    jobs.reverse();
    let most = max_items.unwrap_or(jobs.len());
    let from = offset.unwrap_or_else(|| jobs.len().saturating_sub(most));
    let jobs = jobs.iter().skip(from).take(most);
    let mut steps = vec![Step::Text("{".into())];
    steps.extend(jobs.map(|job| Step::Job(job.id, 0)));
    steps.push(Step::Text("}".into()));
    call.listing(steps, |record, _| named(record, history_entry(record)))
        .await
}

/// GET /history/{id}: an object without anything in it for what is unknown or not over.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    match find(call).await? {
        Some(id) => {
            call.show(id, |record| object_of(record, history_entry(record)))
                .await
        }
        None => Ok(reply::ok(&json!({}))),
    }
}

/// GET /history_v2: newest first.
pub(super) async fn list_v2(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (max_items, offset) = (number(call, "max_items")?, number(call, "offset")?);
    let jobs = shown(call).await?;
    let jobs = jobs.iter().skip(offset.unwrap_or(0));
    let jobs = jobs.take(max_items.unwrap_or(usize::MAX));
    let mut steps = vec![Step::Text("{\"history\":[".into())];
    steps.extend(jobs.map(|job| Step::Job(job.id, 0)));
    steps.push(Step::Text("]}".into()));
    call.listing(steps, |record, _| history_v2_item(record))
        .await
}

/// GET /history_v2/{id}: 404 for what is unknown or not over.
pub(super) async fn get_v2(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = find(call).await?.ok_or(ApiError::NotFound)?;
    call.show(id, |record| object_of(record, history_v2_entry(record)))
        .await
}

/// An entry behind the id that the client calls its job by.
fn named(record: &JobRecord<'_>, entry: Parts) -> Parts {
    let mut parts = Parts::default();
    parts.text(format!("\"{}\":", prompt_id(record.job)));
    parts.append(entry);
    parts
}

/// An object of one such entry.
fn object_of(record: &JobRecord<'_>, entry: Parts) -> Parts {
    let mut parts = Parts::default();
    parts.text("{");
    parts.append(named(record, entry));
    parts.text("}");
    parts
}

/// POST /history: hides the jobs that are named, or all that are over.
pub(super) async fn change(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let body = call.json(body).await?;
    let fields = object(body.value)?;
    let clear = fields
        .get("clear")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let wrong = || field("delete", "a list of at most 10000 ids");
    let named = match fields.get("delete") {
        None | Some(Value::Null) => Vec::new(),
        Some(ids) => texts(ids).ok_or_else(wrong)?,
    };
    if named.len() > MOST_HIDDEN {
        return Err(wrong());
    }
    let mut over: Vec<JobId> = named.into_iter().filter_map(job_id).collect();
    if !over.is_empty() {
        // What is not over is in no history yet, and its result is to be seen. One look tells all of them.
        let jobs = &call.service.jobs;
        let in_flight = jobs.in_flight(call.account(), call.now).await?;
        let in_flight: HashSet<JobId> = in_flight.iter().map(|job| job.id).collect();
        over.retain(|id| {
            !in_flight.contains(id) && !in_flight.contains(&job_of(call.account(), *id))
        });
    }
    let until_ms = clear.then(|| call.now.as_millisecond());
    if over.is_empty() && !clear {
        return Ok(done());
    }
    // Requests at the same time each add theirs.
    let edit = move |before: Option<Bytes>| {
        let hidden = Hidden::of(before.as_deref());
        hidden.and(over, until_ms).to_bytes()
    };
    let path = HIDDEN.parse().expect("a path");
    let files = &call.v1.user_files;
    let content = FileContent::Edited(Box::new(edit));
    files
        .write(call.account(), &path, content, call.now)
        .await?;
    Ok(done())
}

/// The jobs that are over and not hidden, newest first.
async fn shown(call: &Call<'_>) -> Result<Vec<Brief>, ApiError> {
    let hidden = Hidden::read(call).await?;
    let (mut jobs, _) = call.newest(Some(true), None).await?;
    jobs.retain(|job| !hidden.has(job));
    Ok(jobs)
}

async fn find(call: &Call<'_>) -> Result<Option<JobId>, ApiError> {
    let view = match call.job().await {
        Ok(view) => view,
        Err(ApiError::NotFound | ApiError::Jobs(JobsError::NotFound)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let hidden = Hidden::read(call).await?;
    if !view.job.status.is_terminal() || hidden.has(&Brief::of(&view.job)) {
        return Ok(None);
    }
    Ok(Some(view.job.id))
}

/// A number of the query; what is below 0 counts as not given, as it always did.
fn number(call: &Call<'_>, wanted: &'static str) -> Result<Option<usize>, ApiError> {
    let query = call.query();
    let found = query.iter().find(|(name, _)| name == wanted);
    let Some((_, text)) = found.filter(|(_, text)| !text.is_empty()) else {
        return Ok(None);
    };
    let number: i64 = text.parse().map_err(|_| field(wanted, "a whole number"))?;
    Ok(usize::try_from(number).ok())
}

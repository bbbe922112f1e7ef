//! The queue, and stopping what is in it.

use http::Response;
use hyper_kit::Body;
use serde_json::{Value, json};
use v1_compat::queue_item;
use workflow_core::{JobStatus, JobsError};

use super::errors::{ApiError, field, object};
use super::listing::texts;
use super::reply;
use super::request::{Call, done, job_id};

/// Most ids that one request deletes.
const MOST_DELETED: usize = 1000;

/// Bytes of an interrupt's body that are looked at.
const INTERRUPT_BYTES: usize = 64 * 1024;

/// GET /prompt: how much waits and runs.
pub(super) async fn info(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let jobs = call
        .service
        .jobs
        .in_flight(call.account(), call.now)
        .await?;
    let body = json!({"exec_info": {"queue_remaining": jobs.len()}});
    Ok(reply::ok(&body))
}

/// GET /queue.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let jobs = call
        .service
        .jobs
        .in_flight(call.account(), call.now)
        .await?;
    let listed = call.all_listed(jobs).await?;
    let (mut running, mut pending) = (Vec::new(), Vec::new());
    for (listed, place) in listed.iter().zip(1..) {
        let item = queue_item(&listed.record(), place);
        match listed.job.status == JobStatus::Queued {
            true => pending.push(item),
            false => running.push(item),
        }
    }
    Ok(reply::ok(
        &json!({"queue_running": running, "queue_pending": pending}),
    ))
}

/// POST /queue: cancels the jobs that are named, running ones too, and with `clear` all that wait.
pub(super) async fn change(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let fields = object(call.json(body).await?)?;
    if let Some(unknown) = fields
        .keys()
        .find(|name| !["delete", "clear"].contains(&name.as_str()))
    {
        return Err(ApiError::Invalid(format!(
            "`{unknown}` is not known here; send `delete` or `clear`"
        )));
    }
    let clear = match fields.get("clear") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(clear)) => *clear,
        Some(_) => return Err(field("clear", "true or false")),
    };
    let wrong = || field("delete", "a list of at most 1000 ids");
    let named = match fields.get("delete") {
        None | Some(Value::Null) => Vec::new(),
        Some(ids) => texts(ids).ok_or_else(wrong)?,
    };
    if named.len() > MOST_DELETED {
        return Err(wrong());
    }
    let mut wanted: Vec<_> = named.into_iter().filter_map(job_id).collect();
    if clear {
        let waiting = call
            .service
            .jobs
            .in_flight(call.account(), call.now)
            .await?;
        let waiting = waiting.iter().filter(|job| job.status == JobStatus::Queued);
        wanted.extend(waiting.map(|job| job.id));
    }
    let mut deleted = Vec::new();
    for id in wanted {
        match call.stop(id).await {
            Ok(true) => deleted.push(Value::from(id.to_string())),
            Ok(false) | Err(ApiError::Jobs(JobsError::NotFound)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reply::ok(&json!({"deleted": deleted, "cleared": clear})))
}

/// POST /interrupt: the job that is named; else the oldest that runs, else the oldest that waits, if there is any.
pub(super) async fn interrupt(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    // Whatever was sent, it is no reason to refuse: clients send nothing, `{}`, or something that is no JSON.
    let pace = call.service.config.read_pace;
    let bytes = hyper_kit::read_limited(body, INTERRUPT_BYTES, pace).await;
    let value: Value = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let named = value.get("prompt_id").and_then(Value::as_str);
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        call.stop(job_id(named).ok_or(ApiError::NotFound)?).await?;
        return Ok(done());
    }
    let jobs = call
        .service
        .jobs
        .in_flight(call.account(), call.now)
        .await?;
    let running = jobs.iter().find(|job| job.status != JobStatus::Queued);
    if let Some(job) = running.or(jobs.first()) {
        match call.stop(job.id).await {
            // It ended meanwhile: nothing is left to be stopped.
            Ok(_) | Err(ApiError::Jobs(JobsError::NotFound)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done())
}

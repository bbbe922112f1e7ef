//! The list of jobs, one job, its status, its cancelation.

use std::cmp::Reverse;

use http::Response;
use hyper_kit::Body;
use serde_json::{Value, json};
use v1_compat::{
    JobRecord, JobWord, Parts, Queued, failure, job_detail, job_entry, prompt_id, status_word,
};
use workflow_core::{JobCursor, JobQuery, JobStatus, OutputKind};

use super::errors::{ApiError, field};
use super::listing::{Brief, Step, texts};
use super::reply;
use super::request::{Call, job_id, object};
use crate::cursor;

/// Entries of a page that asks for no number of them, and most of any.
const LIMIT: usize = 100;
const MOST: usize = 1000;

/// Most jobs that one request cancels.
const MOST_CANCELED: usize = 100;

/// What a list is sorted by.
#[derive(Clone, Copy)]
enum SortBy {
    Created,
    Duration,
}

/// GET /job/{id}/status.
pub(super) async fn status(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let view = call.job().await?;
    let job = &view.job;
    let message = failure(job).map(|error| error.message.clone());
    Ok(reply::ok(&json!({
        "id": prompt_id(job).to_string(),
        "status": status_word(job),
        "created_at": job.created_at.to_string(),
        "updated_at": job.updated_at.to_string(),
        "last_state_update": job.updated_at.to_string(),
        "assigned_inference": null,
        "error_message": message,
    })))
}

/// GET /jobs.
pub(super) async fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let query = call.query();
    let get = |wanted: &str| {
        let found = query.iter().find(|(name, _)| name == wanted);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    };
    let words = match get("status") {
        None => JobWord::ALL.to_vec(),
        Some(words) => {
            let words = words.split(',').map(|word| JobWord::from_name(word.trim()));
            let words: Option<Vec<JobWord>> = words.collect();
            let must = "some of pending, in_progress, completed, failed and cancelled";
            words.ok_or_else(|| field("status", must))?
        }
    };
    let number = |name: &'static str, preset: usize, least: usize| match get(name) {
        None => Ok(preset),
        Some(text) => {
            let number: Option<usize> = text.parse().ok().filter(|number| *number >= least);
            number.ok_or_else(|| field(name, &format!("a whole number from {least}")))
        }
    };
    let limit = number("limit", LIMIT, 1)?.min(MOST);
    let offset = number("offset", 0, 0)?;
    let sort_by = match get("sort_by") {
        None | Some("created_at" | "create_time") => SortBy::Created,
        Some("execution_duration" | "execution_time") => SortBy::Duration,
        Some(_) => return Err(field("sort_by", "create_time or execution_time")),
    };
    let ascending = match get("sort_order") {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(field("sort_order", "asc or desc")),
    };
    let kind = match get("output_type") {
        None => None,
        Some(kind) => Some(match kind {
            "image" | "images" => OutputKind::Image,
            "video" => OutputKind::Video,
            "audio" => OutputKind::Audio,
            "text" => OutputKind::Text,
            _ => return Err(field("output_type", "image, video, audio or text")),
        }),
    };

    let is_over = |word: &JobWord| !matches!(word, JobWord::Pending | JobWord::InProgress);
    let over = match (words.iter().any(is_over), words.iter().all(is_over)) {
        (true, true) => Some(true),
        (true, false) => None,
        (false, _) => Some(false),
    };
    let hidden = super::history::Hidden::read(call).await?;
    let after = get("after").map(|text| {
        let after = cursor::read(text, call.account(), &[], &[]);
        after.ok_or_else(|| field("after", "the `next_cursor` of a page of this list"))
    });
    let (mut jobs, behind) = call.newest(over, after.transpose()?).await?;
    jobs.retain(|job| {
        let made = |kind| job.made(kind);
        words.contains(&job.word()) && kind.is_none_or(made) && !hidden.has(job)
    });
    if let SortBy::Duration = sort_by {
        jobs.sort_by_key(|job| Reverse(job.execution_ms));
    }
    if ascending {
        jobs.reverse();
    }
    let workflow = get("workflow_id").map(str::to_owned);
    if let Some(workflow) = workflow {
        let mut kept = Vec::new();
        for job in jobs {
            if call.workflow_of(job.id).await?.as_ref() == Some(&workflow) {
                kept.push(job);
            }
        }
        jobs = kept;
    }
    let total = jobs.len();
    let has_more = offset.saturating_add(limit) < total || behind.is_some();
    jobs = jobs.into_iter().skip(offset).take(limit).collect();
    // A position is one among all jobs, newest first, and in no other order.
    let last = jobs.last().filter(|_| offset.saturating_add(limit) < total);
    let last = last.map(position).or(behind);
    let is_newest_first = !ascending && matches!(sort_by, SortBy::Created);
    let next = last.filter(|_| is_newest_first);
    let next = next.map(|next| cursor::write(&next, call.account(), &[], &[]));
    let mut pagination = json!({
        "offset": offset,
        "limit": limit,
        "total": total,
        "has_more": has_more,
    });
    if let Some(next) = next {
        pagination["next_cursor"] = next.into();
    }
    let mut steps = vec![Step::Text("{\"jobs\":[".into())];
    steps.extend(jobs.iter().map(|job| Step::Job(job.id, 0)));
    steps.push(Step::Text(
        format!("],\"pagination\":{pagination}}}").into(),
    ));
    let spell = |record: &JobRecord<'_>, _| {
        let mut parts = Parts::default();
        parts.text(Value::Object(job_entry(record)).to_string());
        parts
    };
    call.listing(steps, spell).await
}

fn position(job: &Brief) -> JobCursor {
    JobCursor {
        created_at: job.created_at,
        id: job.id,
    }
}

/// GET /jobs/{id}.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let view = call.job().await?;
    let mut queued = Queued {
        position: view.queue_position,
        running: 0,
    };
    if view.job.status == JobStatus::Queued {
        // What runs as part of something else takes room, too. More than the account has room for do not run at once.
        let room = call.principal.tier.concurrent_jobs;
        let running = JobQuery {
            account: call.account().clone(),
            labels: Vec::new(),
            over: None,
            statuses: vec![JobStatus::Running, JobStatus::Canceling],
            after: None,
            limit: usize::try_from(room).unwrap_or(usize::MAX).max(1),
            // They are in memory for every caller.
            outputs: usize::MAX,
        };
        let running = call.service.jobs.list(&running, call.now).await?;
        queued.running = running.jobs.len();
    }
    call.show(view.job.id, |record| job_detail(record, queued))
        .await
}

/// POST /jobs/{id}/cancel: 200 however often and late it is asked.
pub(super) async fn cancel(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let canceled = call.stop(call.param("id")?).await?.is_some();
    Ok(reply::ok(&json!({"cancelled": canceled})))
}

/// POST /jobs/cancel: those of the list that were still under way.
pub(super) async fn cancel_many(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let body = call.json(body).await?;
    let fields = object(body.value)?;
    let wrong = || field("job_ids", "a list of 1 to 100 ids");
    let ids = fields.get("job_ids").and_then(texts).ok_or_else(wrong)?;
    if !(1..=MOST_CANCELED).contains(&ids.len()) {
        return Err(wrong());
    }
    if ids.iter().any(|id| job_id(id).is_none()) {
        return Err(wrong());
    }
    let canceled = call.stop_all(ids).await?;
    Ok(reply::ok(&json!({"cancelled": canceled})))
}

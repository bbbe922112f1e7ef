//! Jobs: submit, look, list, cancel.

use std::convert::Infallible;

use accounts::Scope;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::{Body, STREAM_CHUNK_BYTES, media};
use trace_context::TraceContext;
use uuid::Uuid;
use workflow_core::{GraphError, JobId, JobQuery, JobsError, Submission};

use super::call::Call;
use super::errors::ApiError;
use super::outputs::Spelled;
use super::query::ListQuery;
use super::submission::{self, SubmissionBody};
use super::wire::{JobBody, LogBody, WorkerNoteBody};
use super::{idempotency, reply};
use crate::cursor;

/// A page ends with the job that brings its outputs to this many, whatever its limit: some 4 MiB of JSON.
const MOST_OUTPUTS: usize = 4096;

/// About how many bytes an output takes while it is listed.
const OUTPUT_BYTES: usize = 512;

/// A job of so many outputs is answered at once; one of more is spelled while it is sent.
const FEW_OUTPUTS: usize = 256;

/// Separates the idempotency keys of submissions from those of other operations.
const OPERATION: &str = "jobs";

/// POST /jobs: exactly 201, once the job is durably queued.
pub(crate) async fn submit(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let headers = &call.head.headers;
    let key = idempotency::read(headers, OPERATION)?;
    let barred = match (barred(call).await?, key) {
        (Some(reason), None) => return Err(reason),
        (barred, _) => barred,
    };
    media::expect_json(headers)?;
    let bytes = call.read(body).await?;
    // The room that it has is kept until the job is in: until then there are copies and trees of it.
    let parsed = call.parse(&bytes, SubmissionBody::read).await?;
    let submitted = parsed.value?;

    let workflow = submitted.workflow.clone();
    let submission = Submission {
        id: JobId(Uuid::now_v7()),
        account: call.principal.account.clone(),
        tier: call.principal.tier.clone(),
        workflow: submitted.workflow,
        metadata: submitted.metadata,
        secret: submitted.secret,
        key,
        origin: bytes::Bytes::new(),
        targets: None,
        partial: false,
        flat_uploads: false,
        extra_pnginfo: serde_json::Map::new(),
        trace: TraceContext::current(),
    };
    let jobs = call.service.jobs_of(&call.principal);
    let submitted = match barred {
        None => jobs.submit(submission, call.now).await.map(Ok),
        // What was taken in before costs nothing to be told again.
        Some(reason) => {
            let replayed = jobs.replay(submission, call.now).await;
            replayed.map(|replayed| replayed.ok_or(reason))
        }
    };
    let submitted = match submitted {
        Err(error @ JobsError::Graph(GraphError::NotAnObject)) => {
            let read = move || submission::unreadable(&workflow);
            let unreadable = jobs.aside(bytes.len(), read).await;
            let unreadable = unreadable.map_err(JobsError::from)?;
            return Err(unreadable.unwrap_or(error.into()));
        }
        submitted => submitted??,
    };
    drop((parsed.room, bytes));
    let body = JobBody::new(&submitted.view, &call.links, call.now);
    let mut response = reply::json(StatusCode::CREATED, &body);
    if submitted.replayed {
        let headers = response.headers_mut();
        headers.insert(idempotency::REPLAYED, idempotency::YES);
    }
    Ok(response)
}

/// Why the account may run nothing new now, if it may not.
async fn barred(call: &Call<'_>) -> Result<Option<ApiError>, ApiError> {
    if !call.principal.subscribed {
        return Ok(Some(ApiError::SubscriptionInactive));
    }
    let pays = call.service.can_pay(&call.principal, call.now).await?;
    Ok((!pays).then_some(ApiError::InsufficientCredits))
}

/// GET /jobs: one page, newest first.
pub(crate) async fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let query = ListQuery::read(call.head.uri.query().unwrap_or_default())?;
    let account = &call.principal.account;
    let after = query.cursor.as_deref().map(|text| {
        let after = cursor::read(text, account, &query.labels, &query.statuses);
        after.ok_or(ApiError::Cursor)
    });
    let wanted = JobQuery {
        over: None,
        statuses: query.statuses,
        account: account.clone(),
        after: after.transpose()?,
        limit: query.limit,
        outputs: MOST_OUTPUTS,
        labels: query.labels,
    };
    let mut room = call.memory.for_answer(account).await?;
    let page = call.service.jobs.list(&wanted, call.now).await?;
    let outputs: usize = page.jobs.iter().map(|view| view.job.outputs.len()).sum();
    room.shrink_to(outputs * OUTPUT_BYTES);
    let mut spelled = Spelled::new(&call.links, call.now, Some(room));
    spelled.text("{\"jobs\":[");
    for (place, view) in page.jobs.iter().enumerate() {
        if place > 0 {
            spelled.text(",");
        }
        spelled.item(view);
    }
    spelled.text("]");
    if let Some(next) = page.next {
        let cursor = cursor::write(&next, account, &wanted.labels, &wanted.statuses);
        spelled.text(format!(",\"next_cursor\":\"{cursor}\""));
    }
    spelled.text("}");
    let Ok(response) = reply::pieces(spelled).await;
    Ok(response)
}

/// GET /jobs/{id}: the authoritative view.
pub(crate) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.principal.account);
    let view = jobs.get(account, id, call.now).await?;
    // Which workers there are is for operators alone.
    let workers = match call.principal.scopes.allow(Scope::Admin) {
        // On the heap, for it is much larger than what everybody else waits for.
        true => Box::pin(jobs.workers(&view.job, call.now)).await?,
        false => Vec::new(),
    };
    let outputs = view.job.outputs.len();
    if outputs <= FEW_OUTPUTS {
        let body = JobBody {
            workers: workers.into_iter().map(WorkerNoteBody::from).collect(),
            ..JobBody::new(&view, &call.links, call.now)
        };
        return Ok(reply::json(StatusCode::OK, &body));
    }
    let mut room = call.memory.for_answer(account).await?;
    room.shrink_to(outputs * OUTPUT_BYTES);
    let mut spelled = Spelled::new(&call.links, call.now, Some(room));
    spelled.job(&view);
    let Ok(response) = reply::pieces(spelled).await;
    Ok(response)
}

/// GET /jobs/{id}/workflow: the graph, byte for byte.
pub(crate) async fn workflow(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    const HEAD: &[u8] = b"{\"workflow\":";
    const TAIL: &[u8] = b",\"format\":\"api\"}";
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.principal.account);
    let mut room = call.memory.for_answer(account).await?;
    let workflow = jobs.workflow(account, id, call.now).await?;
    room.shrink_to(workflow.len());
    let length = HEAD.len() + workflow.len() + TAIL.len();
    let mut left = workflow;
    let graph = std::iter::from_fn(move || {
        // The room is given back with the last piece, or with the reader.
        let _held = &room;
        let piece = left.split_to(left.len().min(STREAM_CHUNK_BYTES));
        (!piece.is_empty()).then_some(piece)
    });
    let pieces = std::iter::once(Bytes::from_static(HEAD)).chain(graph);
    let pieces = pieces.chain([Bytes::from_static(TAIL)]);
    let mut response = reply::json_bytes(StatusCode::OK, Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response.map(|_| Body::stream(stream::iter(pieces.map(Ok::<_, Infallible>)))))
}

/// GET /jobs/{id}/logs: what the run wrote, or 204 while it wrote nothing.
pub(crate) async fn logs(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.principal.account);
    let Some(log) = jobs.log(account, id, call.now).await? else {
        return Ok(reply::empty(StatusCode::NO_CONTENT));
    };
    Ok(reply::json(StatusCode::OK, &LogBody::from(&log)))
}

/// POST /jobs/{id}/cancel: exactly 200 and the job as it stands then, however often and late it is asked.
pub(crate) async fn cancel(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.principal.account);
    let view = jobs.cancel(account, id, call.now).await?;
    let body = JobBody::new(&view, &call.links, call.now);
    Ok(reply::json(StatusCode::OK, &body))
}

/// The job that the path names. What is no id is a job that nobody has.
pub(crate) fn job_id(call: &Call<'_>) -> Result<JobId, ApiError> {
    let text = &call.params["id"];
    let id = Some(text).filter(|text| text.len() == uuid::fmt::Hyphenated::LENGTH);
    let id = id.and_then(|text| text.parse().ok());
    id.ok_or(ApiError::Jobs(JobsError::NotFound))
}

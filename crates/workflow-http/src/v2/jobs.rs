//! Jobs: submit, look, list, cancel.

use bytes::{BufMut, BytesMut};
use http::{Response, StatusCode};
use hyper_kit::{Body, media};
use uuid::Uuid;
use workflow_core::{GraphError, JobId, JobQuery, JobsError, Submission};

use super::errors::ApiError;
use super::query::ListQuery;
use super::submission::{self, SubmissionBody};
use super::wire::{JobBody, JobItemBody, JobPageBody, LogBody};
use super::{cursor, idempotency, reply};
use crate::api::Call;

/// Separates the idempotency keys of submissions from those of other operations.
const OPERATION: &str = "jobs";

/// POST /jobs: exactly 201, once the job is durably queued.
pub(crate) async fn submit(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let headers = &call.head.headers;
    let key = idempotency::read(headers, OPERATION)?;
    let pays = call.service.can_pay(&call.standing).await?;
    if !pays && key.is_none() {
        return Err(ApiError::InsufficientCredits);
    }
    media::expect_json(headers)?;
    let bytes = call.read(body).await?;
    // The room that it has is kept until the job is in: until then there are copies and trees of it.
    let parsed = call.parse(&bytes, SubmissionBody::read).await?;
    let submitted = parsed.value?;

    let workflow = submitted.workflow.clone();
    let submission = Submission {
        id: JobId(Uuid::now_v7()),
        account: call.standing.account.clone(),
        tier: call.standing.tier.clone(),
        workflow: submitted.workflow,
        metadata: submitted.metadata,
        secret: submitted.secret,
        key,
        origin: bytes::Bytes::new(),
        targets: None,
        partial: false,
        flat_uploads: false,
        extra_pnginfo: serde_json::Map::new(),
    };
    let jobs = call.service.jobs_of(&call.standing);
    let submitted = if pays {
        jobs.submit(submission, call.now).await.map(Some)
    } else {
        // What was taken in before costs nothing to be told again.
        jobs.replay(submission, call.now).await
    };
    let submitted = match submitted {
        Err(error @ JobsError::Graph(GraphError::NotAnObject)) => {
            let read = move || submission::unreadable(&workflow);
            let unreadable = jobs.aside(bytes.len(), read).await;
            let unreadable = unreadable.map_err(JobsError::from)?;
            return Err(unreadable.unwrap_or(error.into()));
        }
        submitted => submitted?,
    };
    drop((parsed.room, bytes));
    let submitted = submitted.ok_or(ApiError::InsufficientCredits)?;
    let body = JobBody::new(&submitted.view, &call.links, call.now);
    let mut response = reply::json(StatusCode::CREATED, &body);
    if submitted.replayed {
        let headers = response.headers_mut();
        headers.insert(idempotency::REPLAYED, idempotency::YES);
    }
    Ok(response)
}

/// GET /jobs: one page, newest first.
pub(crate) async fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let query = ListQuery::read(call.head.uri.query().unwrap_or_default())?;
    let account = &call.standing.account;
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
        labels: query.labels,
    };
    let page = call.service.jobs.list(&wanted, call.now).await?;
    let jobs = page.jobs.iter();
    let body = JobPageBody {
        jobs: jobs
            .map(|view| JobItemBody::new(view, &call.links, call.now))
            .collect(),
        next_cursor: page
            .next
            .map(|next| cursor::write(&next, account, &wanted.labels, &wanted.statuses)),
    };
    Ok(reply::json(StatusCode::OK, &body))
}

/// GET /jobs/{id}: the authoritative view.
pub(crate) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.standing.account);
    let view = jobs.get(account, id, call.now).await?;
    let body = JobBody::new(&view, &call.links, call.now);
    Ok(reply::json(StatusCode::OK, &body))
}

/// GET /jobs/{id}/workflow: the graph, byte for byte.
pub(crate) async fn workflow(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    const HEAD: &[u8] = b"{\"workflow\":";
    const TAIL: &[u8] = b",\"format\":\"api\"}";
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.standing.account);
    let workflow = jobs.workflow(account, id, call.now).await?;
    let mut body = BytesMut::with_capacity(HEAD.len() + workflow.len() + TAIL.len());
    body.put(HEAD);
    body.put(workflow);
    body.put(TAIL);
    Ok(reply::json_bytes(StatusCode::OK, body))
}

/// GET /jobs/{id}/logs: what the run wrote, or 204 while it wrote nothing.
pub(crate) async fn logs(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.standing.account);
    let Some(log) = jobs.log(account, id, call.now).await? else {
        return Ok(reply::empty(StatusCode::NO_CONTENT));
    };
    Ok(reply::json(StatusCode::OK, &LogBody::from(&log)))
}

/// POST /jobs/{id}/cancel: exactly 200 and the job as it stands then, however often and late it is asked.
pub(crate) async fn cancel(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (jobs, account) = (&call.service.jobs, &call.standing.account);
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

//! Queued requests: submitted, looked at, collected, cancelled.

use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::{Body, ConnectionInfo};
use jiff::Timestamp;
use router_core::{
    Bucket, Cancelled, QueueFailure, QueueState, QueuedResult, RequestId, RequestStatus,
    RouterError, SubmittedRequest,
};
use serde::Serialize;
use uuid::Uuid;

use crate::api::Asked;
use crate::dialect::Dialect;
use crate::errors::{ApiError, seconds};
use crate::query::Query;
use crate::wire::{Cancellation, QueuedList, QueuedStatus};
use crate::{RouterService, call, delivery, generations, headers, reply};

const IN_QUEUE: &str = "IN_QUEUE";
const IN_PROGRESS: &str = "IN_PROGRESS";
const COMPLETED: &str = "COMPLETED";

const CANCELLATION_REQUESTED: &str = "CANCELLATION_REQUESTED";
const ALREADY_COMPLETED: &str = "ALREADY_COMPLETED";

/// Where the requests of a model are, as its caller reaches them.
pub(crate) struct Links {
    base: String,
    dialect: Dialect,
}

impl Links {
    /// Those of the model that a path names, in the dialect that it is asked in.
    pub(crate) fn new(
        service: &RouterService,
        asked: &Asked,
        head: &Parts,
        connection: &ConnectionInfo,
    ) -> Self {
        let address = &service.config.address;
        let base = address.of_request(&head.uri, &head.headers, connection);
        let Asked {
            provider,
            model,
            dialect,
            ..
        } = asked;
        let root = dialect.root();
        Self {
            base: format!("{base}{root}/models/{provider}/{model}/requests"),
            dialect: *dialect,
        }
    }

    fn status(&self, status: &RequestStatus) -> QueuedStatus {
        let (name, position, failure) = parts(&status.request.state);
        let request_id = status.request.id.to_string();
        let response_url = format!("{}/{request_id}", self.base);
        QueuedStatus {
            status: name,
            queue_position: position,
            error_type: failure.map(|failure| self.dialect.word_of_failure(failure)),
            detail: failure.map(detail),
            status_url: format!("{response_url}/status"),
            cancel_url: format!("{response_url}/cancel"),
            response_url,
            request_id,
        }
    }

    fn answer(&self, code: StatusCode, status: &RequestStatus) -> Response<Body> {
        let mut response = reply::json(code, &self.status(status));
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = status.retry_after {
            headers.insert(RETRY_AFTER, seconds(after));
        }
        response
    }
}

/// A state by its name, how many requests are before it, and how it failed.
fn parts(state: &QueueState) -> (&'static str, Option<usize>, Option<&QueueFailure>) {
    match state {
        QueueState::Waiting { ahead } => (IN_QUEUE, Some(*ahead), None),
        QueueState::Running => (IN_PROGRESS, None, None),
        QueueState::Over(failure) => (COMPLETED, None, failure.as_ref()),
    }
}

/// What the record of a submission tells of its request.
#[derive(Debug, Serialize)]
pub(crate) struct RecordedRequest {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl RecordedRequest {
    /// In the words of a dialect.
    pub(crate) fn of(state: &QueueState, dialect: Dialect) -> Self {
        let (status, _, failure) = parts(state);
        Self {
            status,
            error_type: failure.map(|failure| dialect.word_of_failure(failure)),
            detail: failure.map(detail),
        }
    }
}

/// What a status says of a failure; the result tells the rest.
fn detail(failure: &QueueFailure) -> String {
    match failure {
        QueueFailure::Cancelled => RouterError::RequestCancelled.to_string(),
        QueueFailure::WaitedTooLong => RouterError::WaitedTooLong.to_string(),
        QueueFailure::NotDispatched { message, .. } => message.clone(),
        QueueFailure::Failed(_) => {
            "the request failed; response_url answers with the whole error".to_owned()
        }
    }
}

/// The answer to `POST .../requests`; an error among the answers comes with its bucket.
pub(crate) fn submitted(
    submitted: SubmittedRequest,
    links: &Links,
    request: RequestId,
) -> (Response<Body>, Option<Bucket>) {
    let SubmittedRequest { result, delivery } = submitted;
    let bucket = result.as_ref().err().map(RouterError::bucket);
    let response = match result {
        Ok(status) => links.answer(StatusCode::CREATED, &status),
        Err(error) => ApiError::Router(error).into_response(request, links.dialect),
    };
    let response = response.map(|body| delivery::telling(body, delivery));
    (response, bucket)
}

/// `GET .../requests`.
pub(crate) async fn list(
    service: &RouterService,
    asked: &Asked,
    links: &Links,
    query: &str,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let query = Query::read(query);
    let limit: Vec<&str> = query.limit.iter().map(String::as_str).collect();
    let cursor: Vec<&str> = query.cursor.iter().map(String::as_str).collect();
    let router = &service.router;
    let page = router.requests(&asked.caller, asked.segments(), &limit, &cursor, now);
    let page = page.await?;
    let last = page.requests.last().filter(|_| page.has_more);
    let list = QueuedList {
        next_cursor: last.map(|last| last.request.id.to_string()),
        data: page.requests.iter().map(|one| links.status(one)).collect(),
        has_more: page.has_more,
        limit: page.limit,
    };
    Ok(reply::json(StatusCode::OK, &list))
}

/// `GET .../requests/{request}/status`.
pub(crate) async fn status(
    service: &RouterService,
    asked: &Asked,
    links: &Links,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let router = &service.router;
    let status = router.request_status(&asked.caller, asked.segments(), &asked.request, now);
    Ok(links.answer(StatusCode::OK, &status.await?))
}

/// `GET .../requests/{request}`.
pub(crate) async fn result(
    service: &RouterService,
    asked: &Asked,
    links: &Links,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let router = &service.router;
    let result = router.request_result(&asked.caller, asked.segments(), &asked.request, now);
    Ok(match result.await? {
        QueuedResult::Pending(status) => links.answer(StatusCode::ACCEPTED, &status),
        QueuedResult::Answered { answer, serving } => {
            let mut response = reply::forwarded(StatusCode::OK, answer);
            let fields = response.headers_mut();
            headers::served_by(fields, serving.as_deref());
            if asked.dialect == Dialect::Second {
                let cap_cents = asked.caller.tier.router.committed_spend_cents;
                let account = (&asked.caller.account, cap_cents);
                let charged = charged(service, asked).await;
                call::tell_spend(fields, service, account, charged).await;
            }
            response
        }
    })
}

/// What the generation of a queued request was billed. Without it the answer is as good.
async fn charged(service: &RouterService, asked: &Asked) -> Option<u64> {
    let request = asked.request.parse::<Uuid>().ok()?;
    let came = generations::came(request);
    let found = service.usage.find(RequestId(request), came).await;
    found.ok()??.generation?.charge_cents
}

/// `PUT .../requests/{request}/cancel`. The refusal of one that comes too late is the one error without a bucket.
pub(crate) async fn cancel(
    service: &RouterService,
    asked: &Asked,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let router = &service.router;
    let cancelled = router.cancel_request(&asked.caller, asked.segments(), &asked.request, now);
    let (code, status) = match cancelled.await? {
        Cancelled::Withdrawn | Cancelled::Noted => (StatusCode::ACCEPTED, CANCELLATION_REQUESTED),
        Cancelled::TooLate => (StatusCode::CONFLICT, ALREADY_COMPLETED),
    };
    let mut response = reply::json(code, &Cancellation { status });
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

//! Errors become responses: the one table of Family A.
//!
//! What goes out is safe to show to end users; the chain behind a fault of the router goes to the log, once, here.

use std::time::Duration;

use accounts::BudgetWindow;
use asset_http::ContentError;
use asset_store::AssetsError;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_RANGE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper_kit::{Body, BodyError, NoUnits, Refusal, RoomError};
use identity::IdentityError;
use router_core::{
    Answer, Bucket, ModelId, Outcome, Refusal as ContentRefusal, RequestId, RouterError,
};

use crate::dialect::Dialect;
use crate::wire::{ErrorBody, ValidationBody, ValidationDetail};
use crate::{headers, reply};

/// When to try again after a refusal for calls in flight, in seconds: any of them may end at any moment.
const ROOM_AFTER_S: u64 = 1;

/// Everything a request of Family A can be refused for, or fail of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nobody is known to ask.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The router refused or failed.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// No route has this path.
    #[error("no such route")]
    NoRoute,
    /// The path has other methods.
    #[error("the method is not allowed here")]
    MethodNotAllowed(HeaderValue),
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body had no room.
    #[error(transparent)]
    NoRoom(#[from] NoUnits),
    /// The bytes behind a link are not sent.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The plumbing refused the request, or met a panic.
    #[error("{}", .0.message())]
    Refused(Refusal),
}

/// What a client reads of an error.
struct ErrorParts {
    status: StatusCode,
    bucket: Bucket,
    body: Content,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The body of an error.
enum Content {
    /// RouterErrorResponse with this detail.
    Detail(String),
    /// RouterValidationErrorResponse, spelled.
    Validation(Vec<u8>),
    /// A provider's own, as it came.
    Forwarded(Answer),
}

impl ApiError {
    /// The bucket that the error is told and recorded as.
    pub(crate) fn bucket(&self) -> Bucket {
        match self {
            Self::Router(error) => error.bucket(),
            Self::Identity(IdentityError::Unauthorized) => Bucket::Unauthorized,
            Self::Identity(IdentityError::Accounts(_)) => Bucket::ServiceUnavailable,
            Self::NoRoute | Self::MethodNotAllowed(_) | Self::Body(_) => Bucket::InvalidInput,
            Self::NoRoom(bound) => no_room(*bound).bucket(),
            Self::Content(ContentError::BadLink) => Bucket::Forbidden,
            Self::Content(ContentError::Assets(AssetsError::Damaged(_))) => Bucket::InternalError,
            Self::Content(ContentError::Assets(AssetsError::NotFound)) => Bucket::InvalidInput,
            Self::Content(ContentError::Assets(_)) => Bucket::ServiceUnavailable,
            Self::Content(ContentError::Unsatisfiable(_)) => Bucket::InvalidInput,
            Self::Refused(Refusal::Panicked) => Bucket::InternalError,
            Self::Refused(Refusal::UnknownHost) => Bucket::Forbidden,
            Self::Refused(Refusal::TooManyStreams) => Bucket::ConcurrencyLimitExceeded,
            Self::Refused(_) => Bucket::InvalidInput,
        }
    }

    /// The response to a request that ended so; logs the chain of a fault.
    pub(crate) fn into_response(self, request: RequestId, dialect: Dialect) -> Response<Body> {
        let parts = self.parts();
        let word = if let Self::Router(error) = &self {
            dialect.word(error)
        } else {
            parts.bucket.name()
        };
        let buckets = [Bucket::InternalError, Bucket::ServiceUnavailable];
        if buckets.contains(&parts.bucket) && !self.is_meant() {
            let error = hyper_kit::error_chain(&self);
            let bucket = parts.bucket.name();
            tracing::error!(error, bucket, request.id = %request, "request failed through a fault of the router");
        }
        respond(parts, word)
    }

    /// Whether the operator wants it so, or the log has it already.
    fn is_meant(&self) -> bool {
        let wanted = |error: &RouterError| {
            matches!(
                error,
                RouterError::Stopping { .. }
                    | RouterError::TakenOver { .. }
                    | RouterError::SwitchedOff
            )
        };
        matches!(self, Self::Router(error) if wanted(error))
    }

    fn parts(&self) -> ErrorParts {
        let invalid = |status, detail: &str| ErrorParts::of(status, Bucket::InvalidInput, detail);
        match self {
            Self::Identity(IdentityError::Unauthorized) => ErrorParts::of(
                StatusCode::UNAUTHORIZED,
                Bucket::Unauthorized,
                "the credentials are missing or invalid; send `Authorization: Bearer <token or key>`",
            )
            .with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            Self::Identity(IdentityError::Accounts(_)) => ErrorParts::of(
                StatusCode::SERVICE_UNAVAILABLE,
                Bucket::ServiceUnavailable,
                "the service is temporarily unavailable; try again in a moment",
            ),
            Self::Router(error) => of_router(error),
            Self::NoRoute => invalid(
                StatusCode::NOT_FOUND,
                "no such route; GET /v1/openapi.json lists them",
            ),
            Self::MethodNotAllowed(allow) => {
                let methods = allow.to_str().unwrap_or_default();
                let detail = format!("the method is not allowed here; use one of {methods}");
                invalid(StatusCode::METHOD_NOT_ALLOWED, &detail).with(ALLOW, allow.clone())
            }
            Self::Body(BodyError::TooLarge { limit }) => of_router(&RouterError::TooLarge {
                limit_bytes: *limit,
            }),
            Self::Body(error @ BodyError::Idle) => {
                invalid(StatusCode::REQUEST_TIMEOUT, &error.to_string())
            }
            Self::Body(error @ BodyError::Broken(_)) => {
                invalid(StatusCode::BAD_REQUEST, &error.to_string())
            }
            Self::NoRoom(bound) => of_router(&no_room(*bound)),
            Self::Content(error) => of_content(error, self.bucket()),
            Self::Refused(refusal) => {
                let parts = ErrorParts::of(refusal.status(), self.bucket(), refusal.message());
                match refusal {
                    Refusal::TooManyStreams => {
                        parts.with(RETRY_AFTER, HeaderValue::from(ROOM_AFTER_S))
                    }
                    Refusal::MissingHost
                    | Refusal::RepeatedHost
                    | Refusal::BadHost
                    | Refusal::UnknownHost
                    | Refusal::LengthAndEncoding
                    | Refusal::RepeatedLength
                    | Refusal::UnknownTransferEncoding
                    | Refusal::BareLineFeed
                    | Refusal::Panicked => parts,
                }
            }
        }
    }
}

impl From<RoomError> for ApiError {
    fn from(error: RoomError) -> Self {
        match error {
            RoomError::Body(error) => error.into(),
            RoomError::NoRoom(bound) => bound.into(),
        }
    }
}

/// What the router says where bodies have no room.
pub(crate) fn no_room(bound: NoUnits) -> RouterError {
    RouterError::NoRoom {
        by_workspace: bound == NoUnits::Key,
    }
}

fn of_content(error: &ContentError, bucket: Bucket) -> ErrorParts {
    let plain = |status, detail: &str| ErrorParts::of(status, bucket, detail);
    match error {
        ContentError::BadLink => plain(
            StatusCode::FORBIDDEN,
            "the link is invalid or has expired; GET /v1/generations/{request id} gives a fresh one",
        ),
        ContentError::Unsatisfiable(range) => plain(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "the range begins behind the end of the file",
        )
        .with(CONTENT_RANGE, range.clone()),
        ContentError::Assets(AssetsError::NotFound) => {
            plain(StatusCode::NOT_FOUND, "the file is gone")
        }
        ContentError::Assets(AssetsError::Damaged(_)) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, asset_http::DAMAGED)
        }
        ContentError::Assets(_) => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the file cannot be read now; try again in a moment",
        ),
    }
}

fn respond(parts: ErrorParts, word: &'static str) -> Response<Body> {
    let mut response = match parts.body {
        Content::Detail(detail) => reply::json(
            parts.status,
            &ErrorBody {
                detail: &detail,
                error_type: word,
            },
        ),
        Content::Validation(bytes) => reply::json_bytes(parts.status, bytes),
        Content::Forwarded(answer) => reply::forwarded(parts.status, answer),
    };
    let fields = response.headers_mut();
    headers::classify(fields, word);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.extend(parts.headers);
    response
}

fn of_router(error: &RouterError) -> ErrorParts {
    let plain = |status| ErrorParts::of(status, error.bucket(), &error.to_string());
    match error {
        RouterError::Malformed(_) => plain(StatusCode::BAD_REQUEST),
        RouterError::KeyConflict | RouterError::NotReplayable | RouterError::RequestCancelled => {
            plain(StatusCode::CONFLICT)
        }
        RouterError::RequestNotFound | RouterError::CallNotFound => plain(StatusCode::NOT_FOUND),
        RouterError::ResultGone => plain(StatusCode::GONE),
        RouterError::WaitedTooLong => plain(StatusCode::GATEWAY_TIMEOUT),
        RouterError::NotDispatched { bucket, .. } => plain(usual(*bucket)),
        RouterError::BacklogFull { .. } => {
            plain(StatusCode::TOO_MANY_REQUESTS).with(RETRY_AFTER, HeaderValue::from(ROOM_AFTER_S))
        }
        RouterError::TooLarge { .. } => plain(StatusCode::PAYLOAD_TOO_LARGE),
        RouterError::MediaType => plain(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        RouterError::Schema(violations) => ErrorParts {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            bucket: error.bucket(),
            body: validation(violations.iter().map(ValidationDetail::of).collect()),
            headers: Vec::new(),
        },
        RouterError::Ended(outcome) => of_outcome(outcome),
        RouterError::InsufficientCredits => plain(StatusCode::PAYMENT_REQUIRED),
        RouterError::OverBudget(over) => match over.left.window {
            BudgetWindow::Hour | BudgetWindow::Day => {
                plain(StatusCode::TOO_MANY_REQUESTS).with(RETRY_AFTER, seconds(over.retry_after))
            }
            BudgetWindow::Month => plain(StatusCode::PAYMENT_REQUIRED),
        },
        RouterError::Withdrawn => plain(StatusCode::NOT_FOUND),
        RouterError::ModelNotFound { suggestions, lacks } => {
            let detail = match lacks {
                Some(lacks) => format!(
                    "the model is not offered because {lacks}; give the server the partner's credential and start it again"
                ),
                None => not_found(suggestions),
            };
            ErrorParts::of(StatusCode::NOT_FOUND, error.bucket(), &detail)
        }
        RouterError::Forbidden(_) | RouterError::NotEnabled => plain(StatusCode::FORBIDDEN),
        RouterError::TooManyCalls { .. } | RouterError::NoRoom { by_workspace: true } => {
            plain(StatusCode::TOO_MANY_REQUESTS).with(RETRY_AFTER, HeaderValue::from(ROOM_AFTER_S))
        }
        RouterError::NoRoom {
            by_workspace: false,
        } => plain(StatusCode::SERVICE_UNAVAILABLE)
            .with(RETRY_AFTER, HeaderValue::from(ROOM_AFTER_S)),
        RouterError::SpendCap {
            limit_cents,
            current_cents,
            ..
        } => {
            let remaining = limit_cents.saturating_sub(*current_cents);
            plain(StatusCode::TOO_MANY_REQUESTS)
                .with(RETRY_AFTER, HeaderValue::from(ROOM_AFTER_S))
                .with(headers::SPEND_LIMIT, HeaderValue::from(*limit_cents))
                .with(headers::SPEND_CURRENT, HeaderValue::from(*current_cents))
                .with(headers::SPEND_REMAINING, HeaderValue::from(remaining))
        }
        RouterError::InFlight { retry_after } => {
            plain(StatusCode::CONFLICT).with(RETRY_AFTER, seconds(*retry_after))
        }
        RouterError::RateLimited { retry_after, .. } => {
            plain(StatusCode::TOO_MANY_REQUESTS).with(RETRY_AFTER, seconds(*retry_after))
        }
        // Nobody reads it; the status is what the log has.
        RouterError::Disconnected => plain(hyper_kit::api::client_closed_request()),
        RouterError::Deadline { retry_after, .. } => {
            plain(StatusCode::GATEWAY_TIMEOUT).retried(*retry_after)
        }
        RouterError::Stopping { retry_after } | RouterError::TakenOver { retry_after } => {
            plain(StatusCode::SERVICE_UNAVAILABLE).retried(*retry_after)
        }
        RouterError::Internal(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
        RouterError::SwitchedOff | RouterError::Unavailable(_) => {
            plain(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

fn of_outcome(outcome: &Outcome) -> ErrorParts {
    let unprocessable = |bucket, body| ErrorParts {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        bucket,
        body,
        headers: Vec::new(),
    };
    match outcome {
        // A result is no error; that it came here is a fault of ours.
        Outcome::Answered(_) => ErrorParts::of(
            StatusCode::INTERNAL_SERVER_ERROR,
            Bucket::InternalError,
            "the router failed to handle the request",
        ),
        Outcome::Refused(ContentRefusal::Detail(answer)) => {
            unprocessable(Bucket::InvalidInput, Content::Forwarded(answer.clone()))
        }
        Outcome::Refused(ContentRefusal::Content { code, message }) => unprocessable(
            Bucket::InvalidInput,
            validation(vec![ValidationDetail::of_body(code, message)]),
        ),
        Outcome::Policy {
            message,
            detail: None,
        } => ErrorParts::of(
            StatusCode::BAD_REQUEST,
            Bucket::ContentPolicyViolation,
            message,
        ),
        Outcome::Policy {
            detail: Some(answer),
            ..
        } => unprocessable(
            Bucket::ContentPolicyViolation,
            Content::Forwarded(answer.clone()),
        ),
        Outcome::Failed { bucket, message } => ErrorParts::of(usual(*bucket), *bucket, message),
    }
}

/// The status that a bucket usually comes with.
fn usual(bucket: Bucket) -> StatusCode {
    let usual = bucket.statuses().first().copied();
    let status = usual.and_then(|status| StatusCode::from_u16(status).ok());
    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn validation(detail: Vec<ValidationDetail<'_>>) -> Content {
    let bytes = serde_json::to_vec(&ValidationBody { detail });
    Content::Validation(bytes.expect("wire structs have only text keys"))
}

fn not_found(suggestions: &[ModelId]) -> String {
    let similar: Vec<&str> = suggestions.iter().map(ModelId::as_str).collect();
    match similar.as_slice() {
        [] => "there is no such model; GET /v1/models lists those that there are".to_owned(),
        similar => format!(
            "there is no such model; did you mean {}?",
            similar.join(", ")
        ),
    }
}

/// Whole seconds, at least one.
pub(crate) fn seconds(duration: Duration) -> HeaderValue {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    HeaderValue::from(whole.max(1))
}

impl ErrorParts {
    fn of(status: StatusCode, bucket: Bucket, detail: &str) -> Self {
        Self {
            status,
            bucket,
            body: Content::Detail(detail.to_owned()),
            headers: Vec::new(),
        }
    }

    fn retried(self, after: Option<Duration>) -> Self {
        match after {
            Some(after) => self.with(RETRY_AFTER, seconds(after)),
            None => self,
        }
    }

    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

#[cfg(test)]
mod tests;

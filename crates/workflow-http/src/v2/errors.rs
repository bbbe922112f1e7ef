//! Errors become responses: the one table of Family B.
//!
//! What goes out is safe to read by anybody; the chain behind a fault of the service goes to the log, once, here.

mod answer;

use accounts::{AccountsError, Scope};
use asset_http::DAMAGED;
use asset_store::AssetsError;
use http::header::{ALLOW, CONTENT_RANGE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::media::NotJson;
use hyper_kit::multipart::MultipartError;
use hyper_kit::{Body, BodyError, NoUnits, Refusal, RoomError};
use identity::IdentityError;
use serde_json::json;
use uuid::Uuid;
use workflow_core::{GraphError, JobStatus, JobsError};

use answer::{Answer, FAULT, fault, invalid, key_reused, not_found, over_quota, plain, too_large};

use super::problems;
use super::wire::ErrorEnvelope;
use crate::memory::IntakeError;
use crate::uploads::TooManyUploads;

/// Everything a request of Family B can be refused for, or fail of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nobody is known to ask.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The caller may not do this.
    #[error("the credential does not allow this")]
    MissingScope(Scope),
    /// The caller may run nothing new.
    #[error("the subscription is not active")]
    SubscriptionInactive,
    /// Billing is on, and nothing is left.
    #[error("the account has no credits left")]
    InsufficientCredits,
    /// The account store failed.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// A page of another origin asks for a change.
    #[error("the request comes from a page of another origin")]
    ForeignOrigin,
    /// A signed link is forged, changed or over.
    #[error("the link is invalid or has expired")]
    BadLink,
    /// No route has this path.
    #[error("no such route")]
    NoRoute,
    /// The path has other methods.
    #[error("the method is not allowed here")]
    MethodNotAllowed(HeaderValue),
    /// A part of the path names nothing.
    #[error("no such resource")]
    NotFound,
    /// Assets refused or failed.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// Jobs refused or failed.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body, or the tree made of it, would take more memory than there is for it now, or ever.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// The body is no JSON by its content type.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// The body is compressed.
    #[error("a body with `Content-Encoding` is not read; send it without")]
    Encoded,
    /// The form could not be read.
    #[error(transparent)]
    Form(#[from] MultipartError),
    /// The upload is larger than it may be.
    #[error("the upload is too large")]
    UploadTooLarge {
        /// Most bytes of a file.
        limit_bytes: u64,
    },
    /// The body is no JSON.
    #[error("the body is not valid JSON")]
    Syntax(#[source] serde_json::Error),
    /// The body is JSON and no submission; what is missing.
    #[error("the body is no submission")]
    NoSubmission(&'static str),
    /// A field, parameter or header is not as it must be.
    #[error("{name} is not as it must be")]
    Field {
        /// Which.
        name: &'static str,
        /// What it must be.
        must: String,
    },
    /// The labels of a submission break a rule.
    #[error("the labels break a rule")]
    Labels(String),
    /// A filter of a list breaks a rule.
    #[error("a filter breaks a rule")]
    Filter(String),
    /// A filter of a list names no state of a job.
    #[error("there is no such state")]
    Status,
    /// The cursor was not made here for this list.
    #[error("the cursor is not of this list")]
    Cursor,
    /// The range begins behind the end.
    #[error("the range begins behind the end")]
    Unsatisfiable(HeaderValue),
    /// The account has too many streams open.
    #[error("too many streams are open")]
    TooManyStreams,
    /// No place for one more upload became free.
    #[error(transparent)]
    TooManyUploads(#[from] TooManyUploads),
    /// The plumbing refused the request, or met a panic.
    #[error("{}", .0.message())]
    Refused(Refusal),
}

/// When to try again where memory is short, in seconds: any large request may be done at any moment.
const BUSY_RETRY_S: u64 = 1;

impl ApiError {
    /// The response to a request that ended so; logs the chain of a fault.
    pub(crate) fn into_response(self, request_id: Uuid) -> Response<Body> {
        let answer = self.answer();
        if answer.code == FAULT {
            let error = hyper_kit::error_chain(&self);
            tracing::error!(error, request.id = %request_id, "request failed through a fault of the service");
        }
        let envelope = ErrorEnvelope::new(answer.code, answer.message, answer.details);
        let mut response = super::reply::json(answer.status, &envelope);
        if let Some((name, value)) = answer.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn answer(&self) -> Answer {
        match self {
            Self::Identity(IdentityError::Unauthorized) => plain(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "the credentials are missing or invalid; send `Authorization: Bearer <key>`",
            )
            .with(
                http::header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer"),
            ),
            Self::Identity(IdentityError::Accounts(_)) | Self::Accounts(_) => fault(),
            Self::InsufficientCredits => plain(
                StatusCode::PAYMENT_REQUIRED,
                "insufficient_credits",
                "the account has no credits left; add credits and submit again",
            ),
            Self::MissingScope(scope) => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!(
                    "this needs the scope {}; use a key that has it",
                    scope.name()
                ),
            ),
            Self::SubscriptionInactive => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                "the subscription of this account is not active; nothing new runs until it is",
            ),
            Self::ForeignOrigin => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                "a page of another origin may not change anything here; the operator can allow its origin",
            ),
            Self::BadLink => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                "the link is invalid or has expired; fetch the asset or the job again for a fresh one",
            ),
            Self::NoRoute => not_found("no such route; openapi.json below api/v2 lists them"),
            Self::MethodNotAllowed(allow) => plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "invalid_request",
                format!(
                    "the method is not allowed here; use one of {}",
                    allow.to_str().unwrap_or_default()
                ),
            )
            .with(ALLOW, allow.clone()),
            Self::NotFound => not_found("there is nothing of this name"),
            Self::Assets(error) => of_assets(error),
            Self::Jobs(error) => of_jobs(error),
            Self::Body(error) => of_body(error),
            Self::Intake(error) => of_intake(error),
            Self::NotJson(_) | Self::Encoded => {
                invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, self.to_string())
            }
            Self::Form(error) => of_form(error),
            Self::UploadTooLarge { limit_bytes } => too_large(*limit_bytes),
            Self::Syntax(error) => invalid(
                StatusCode::BAD_REQUEST,
                format!("the body is not valid JSON: {error}"),
            ),
            Self::NoSubmission(message) => plain(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid_workflow",
                *message,
            ),
            Self::Field { name, must } => invalid(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("`{name}` must be {must}"),
            )
            .details(json!({ "field": name })),
            Self::Labels(message) => plain(
                StatusCode::UNPROCESSABLE_ENTITY,
                "metadata_invalid",
                message.as_str(),
            ),
            Self::Filter(message) => plain(
                StatusCode::BAD_REQUEST,
                "invalid_metadata_filter",
                message.as_str(),
            ),
            Self::Status => {
                let words: Vec<&str> = JobStatus::ALL.into_iter().map(JobStatus::name).collect();
                let message = format!("`status` must be one of {}", words.join(", "));
                invalid(StatusCode::BAD_REQUEST, message).details(json!({ "field": "status" }))
            }
            Self::Cursor => plain(
                StatusCode::BAD_REQUEST,
                "invalid_cursor",
                "the cursor is not one of this list; start without one, and keep the filters from page to page",
            ),
            Self::Unsatisfiable(content_range) => invalid(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "the range begins behind the end; `Content-Range` has the length",
            )
            .with(CONTENT_RANGE, content_range.clone()),
            Self::TooManyStreams => plain(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_streams",
                "too many event streams are open; close one, or poll the job",
            )
            .with(RETRY_AFTER, HeaderValue::from(1)),
            Self::TooManyUploads(error) => {
                let status = match error {
                    TooManyUploads::OfAccount => StatusCode::TOO_MANY_REQUESTS,
                    TooManyUploads::OfAll => StatusCode::SERVICE_UNAVAILABLE,
                };
                let after = HeaderValue::from(TooManyUploads::RETRY_AFTER_S);
                plain(status, "too_many_uploads", error.to_string()).with(RETRY_AFTER, after)
            }
            Self::Refused(Refusal::Panicked) => fault(),
            Self::Refused(refusal @ Refusal::UnknownHost) => {
                plain(refusal.status(), "forbidden", refusal.message())
            }
            Self::Refused(refusal @ Refusal::TooManyStreams) => {
                plain(refusal.status(), "too_many_streams", refusal.message())
                    .with(RETRY_AFTER, HeaderValue::from(1))
            }
            Self::Refused(refusal) => invalid(refusal.status(), refusal.message()),
        }
    }
}

fn of_assets(error: &AssetsError) -> Answer {
    match error {
        AssetsError::HashMismatch { expected, actual } => plain(
            StatusCode::CONFLICT,
            "hash_mismatch",
            "the bytes that came are not those of `expected_hash`; nothing was kept, send them again",
        )
        .details(json!({ "expected": expected.to_string(), "actual": actual.to_string() })),
        AssetsError::BlobNotFound => plain(
            StatusCode::NOT_FOUND,
            "blob_not_found",
            "no bytes of this hash are here; upload them",
        ),
        AssetsError::NotFound => not_found("no such asset"),
        AssetsError::InUse => plain(
            StatusCode::CONFLICT,
            "asset_in_use",
            "the asset is in use and cannot be deleted now; try again later",
        ),
        AssetsError::KeyReused(id) => key_reused("asset_id", &id.to_string()),
        AssetsError::QuotaExceeded { limit_bytes } => over_quota(*limit_bytes),
        AssetsError::Damaged(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, FAULT, DAMAGED),
        // Uploads of v2 are new records under any name.
        AssetsError::NameTaken | AssetsError::Store(_) => fault(),
    }
}

fn of_jobs(error: &JobsError) -> Answer {
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    match error {
        JobsError::Graph(GraphError::UiFormat) => plain(
            unprocessable,
            "workflow_format_ui",
            GraphError::UiFormat.to_string(),
        ),
        JobsError::Graph(
            error @ (GraphError::NotAnObject
            | GraphError::Empty
            | GraphError::TooManyNodes
            | GraphError::TooLarge(_)
            | GraphError::TextTooLong
            | GraphError::NodeIdTooLong { .. }),
        ) => plain(unprocessable, "invalid_workflow", error.to_string()),
        JobsError::Invalid(validation) => {
            let (message, details) = problems::of_validation(validation);
            plain(unprocessable, "invalid_workflow", message).details(details)
        }
        JobsError::Refused(refusal) => {
            plain(unprocessable, "invalid_workflow", refusal.message.clone())
                .details(problems::of_refusal(refusal))
        }
        JobsError::NoOutputs => plain(
            unprocessable,
            "invalid_workflow",
            JobsError::NoOutputs.to_string(),
        ),
        JobsError::PartnersForbidden { .. } => {
            plain(StatusCode::FORBIDDEN, "forbidden", error.to_string())
        }
        JobsError::MissingAsset(references) => {
            let (message, details) = problems::of_references(references);
            plain(unprocessable, "missing_asset", message).details(details)
        }
        JobsError::KeyReused(id) => key_reused("job_id", &id.to_string()),
        JobsError::QueueFull { retry_after_s } => plain(
            StatusCode::TOO_MANY_REQUESTS,
            "queue_full",
            "the queue is full; try again after the seconds in `Retry-After`",
        )
        .with(RETRY_AFTER, HeaderValue::from(*retry_after_s)),
        JobsError::RateLimited(used_up) => plain(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limited",
            error.to_string(),
        )
        .with(
            RETRY_AFTER,
            HeaderValue::from(used_up.retry_after.as_secs()),
        ),
        JobsError::StorageQuota { limit_bytes } => over_quota(*limit_bytes),
        JobsError::NotReady { retry_after_s } => plain(
            StatusCode::TOO_MANY_REQUESTS,
            "deployment_not_ready",
            "no worker is ready yet; try again after the seconds in `Retry-After`",
        )
        .with(RETRY_AFTER, HeaderValue::from(*retry_after_s)),
        JobsError::Stopped => plain(
            unprocessable,
            "deployment_stopped",
            "the deployment is stopped; its operator has to start it before anything can be submitted",
        ),
        JobsError::NotFound => not_found("no such job"),
        // Ids are made here, so none is taken.
        JobsError::IdTaken
        | JobsError::Store(_)
        | JobsError::Abandoned(_)
        | JobsError::Assets(_) => fault(),
    }
}

fn of_body(error: &BodyError) -> Answer {
    match error {
        BodyError::TooLarge { limit } => too_large(*limit),
        BodyError::Idle => invalid(StatusCode::REQUEST_TIMEOUT, error.to_string()),
        BodyError::Broken(_) => invalid(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

fn of_intake(error: &IntakeError) -> Answer {
    match error {
        IntakeError::Body(RoomError::Body(error)) => of_body(error),
        IntakeError::Body(RoomError::NoRoom(bound)) | IntakeError::NoRoom(bound) => {
            too_busy(*bound)
        }
        IntakeError::TooLarge(_) => invalid(StatusCode::BAD_REQUEST, error.to_string()),
        IntakeError::Abandoned(_) => fault(),
    }
}

fn too_busy(bound: NoUnits) -> Answer {
    let message = match bound {
        NoUnits::Key => {
            "the account has as much in memory as it may; try again when one of its large requests is done"
        }
        NoUnits::Total | NoUnits::Never => {
            "the service has as much in memory as it may; try again after the seconds in `Retry-After`"
        }
    };
    plain(StatusCode::TOO_MANY_REQUESTS, "too_busy", message)
        .with(RETRY_AFTER, HeaderValue::from(BUSY_RETRY_S))
}

fn of_form(error: &MultipartError) -> Answer {
    match error {
        MultipartError::NotMultipart => {
            invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, error.to_string())
        }
        MultipartError::NoBoundary
        | MultipartError::Malformed(_)
        | MultipartError::TooManyParts { .. } => {
            invalid(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
        MultipartError::TooLarge { limit } => too_large(*limit),
        MultipartError::Idle => invalid(StatusCode::REQUEST_TIMEOUT, error.to_string()),
        MultipartError::Broken(_) => invalid(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

#[cfg(test)]
mod tests;

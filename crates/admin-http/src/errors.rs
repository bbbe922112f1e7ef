//! Errors become responses: the one table of admin over HTTP, in the shape of version 2.
//!
//! What a fault was goes to the log, once, here or where the service met it; a client reads that there was one.

use accounts::Scope;
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper_kit::media::NotJson;
use hyper_kit::{Body, BodyError, Refusal};
use identity::IdentityError;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::body;
use crate::wire::{ErrorBody, ErrorEnvelope, Problem, ProblemKind};

/// Everything a request can be refused for, or fail of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nobody is known to ask.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The credential does not operate the installation.
    #[error("the credential lacks the scope admin")]
    NotAdmin,
    /// Nobody is known to ask for webhooks of an account.
    #[error(transparent)]
    Nobody(IdentityError),
    /// The credential does not manage webhooks of its account.
    #[error("the credential lacks a scope for webhooks")]
    NotWebhooks,
    /// The account has no such webhook.
    #[error("no such webhook of the account")]
    NotOwnWebhook,
    /// No route has this path.
    #[error("no such route")]
    NoRoute,
    /// The path has other methods.
    #[error("the method is not allowed here")]
    MethodNotAllowed(HeaderValue),
    /// A part of the path names nothing.
    #[error("no such resource")]
    NotFound,
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body is no JSON by its content type.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// The body is no JSON.
    #[error("the body is not valid JSON")]
    Syntax(#[source] serde_json::Error),
    /// A field is not as it must be.
    #[error("{name} is not as it must be")]
    Field {
        /// Which.
        name: String,
        /// What it must be.
        must: String,
    },
    /// A parameter of the query is not as it must be.
    #[error("{name} is not as it must be")]
    Parameter {
        /// Which.
        name: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// The service refused or failed.
    #[error("{}", .0.message)]
    Problem(Problem),
    /// The work panicked, or the program stops.
    #[error("the work was given up")]
    Abandoned,
    /// There is no randomness for a key.
    #[error("no random bytes can be had")]
    Random(#[source] getrandom::Error),
    /// The plumbing refused the request, or met a panic.
    #[error("{}", .0.message())]
    Refused(Refusal),
}

/// What a client reads of a fault.
const FAULT: &str =
    "the service cannot do this now; try again in a moment, and read its log if that does not help";

/// What a client reads of an error.
struct Answer {
    status: StatusCode,
    kind: &'static str,
    message: String,
    details: Option<Value>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl ApiError {
    /// The response to a request that ended so; logs the chain of a fault.
    pub(crate) fn into_response(self, request_id: Uuid) -> Response<Body> {
        let answer = self.answer();
        if answer.status == StatusCode::INTERNAL_SERVER_ERROR {
            let error = hyper_kit::error_chain(&self);
            tracing::error!(error, request.id = %request_id, "request failed through a fault of the service");
        }
        let envelope = ErrorEnvelope {
            error: ErrorBody {
                code: answer.kind.to_owned(),
                message: answer.message,
                details: answer.details,
            },
        };
        let mut response = body::json(answer.status, &envelope);
        if let Some((name, value)) = answer.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn answer(&self) -> Answer {
        match self {
            Self::Identity(IdentityError::Unauthorized) => Answer {
                header: Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
                ..plain(
                    StatusCode::UNAUTHORIZED,
                    "unauthorized",
                    "the credentials are missing or invalid; send `Authorization: Bearer <key>` with a key that has the \
                     scope admin",
                )
            },
            Self::Nobody(IdentityError::Unauthorized) => Answer {
                header: Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
                ..plain(
                    StatusCode::UNAUTHORIZED,
                    "unauthorized",
                    "the credentials are missing or invalid; send `Authorization: Bearer <key>` with a key of the account",
                )
            },
            Self::Identity(IdentityError::Accounts(_))
            | Self::Nobody(IdentityError::Accounts(_))
            | Self::Abandoned
            | Self::Random(_) => fault(),
            Self::NotAdmin => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!(
                    "this needs an API key or a JSON Web Token with the scope {scope}; on the server's machine, `key add \
                     ACCOUNT --scopes {scope}` makes a key",
                    scope = Scope::Admin.name()
                ),
            ),
            Self::NotWebhooks => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                "this needs a key that may do what webhooks tell of: to look, one with jobs:read or router:run; to change them, \
                 one with jobs:write or router:run",
            ),
            Self::NotOwnWebhook => not_found(
                "the account has no webhook of this id; GET /api/v2/webhooks lists those that it has",
            ),
            Self::NoRoute => not_found("no such route; GET /api/v2/admin/openapi.json lists them"),
            Self::NotFound => not_found("there is nothing of this name"),
            Self::MethodNotAllowed(allow) => Answer {
                header: Some((ALLOW, allow.clone())),
                ..invalid(
                    StatusCode::METHOD_NOT_ALLOWED,
                    format!(
                        "the method is not allowed here; use one of {}",
                        allow.to_str().unwrap_or_default()
                    ),
                )
            },
            Self::Body(BodyError::TooLarge { limit }) => plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload_too_large",
                format!(
                    "the body has more than {limit} bytes, which is more than any request needs"
                ),
            ),
            Self::Body(error @ BodyError::Idle) => {
                invalid(StatusCode::REQUEST_TIMEOUT, error.to_string())
            }
            Self::Body(error @ BodyError::Broken(_)) => {
                invalid(StatusCode::BAD_REQUEST, error.to_string())
            }
            Self::NotJson(error) => invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, error.to_string()),
            Self::Syntax(error) => invalid(
                StatusCode::BAD_REQUEST,
                format!("the body is not valid JSON: {error}"),
            ),
            Self::Field { name, must } => Answer {
                details: Some(json!({ "field": name })),
                ..invalid(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    format!("`{name}` must be {must}"),
                )
            },
            Self::Parameter { name, must } => Answer {
                details: Some(json!({ "field": name })),
                ..invalid(
                    StatusCode::BAD_REQUEST,
                    format!("the parameter `{name}` must be {must}"),
                )
            },
            Self::Problem(problem) => of_problem(problem),
            Self::Refused(Refusal::Panicked) => fault(),
            Self::Refused(refusal @ Refusal::UnknownHost) => {
                plain(refusal.status(), "forbidden", refusal.message())
            }
            Self::Refused(refusal @ Refusal::TooManyStreams) => Answer {
                header: Some((RETRY_AFTER, HeaderValue::from(1))),
                ..plain(refusal.status(), "too_many_streams", refusal.message())
            },
            Self::Refused(refusal) => invalid(refusal.status(), refusal.message()),
        }
    }
}

fn of_problem(problem: &Problem) -> Answer {
    let status = match problem.kind {
        ProblemKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        ProblemKind::Absent => StatusCode::NOT_FOUND,
        ProblemKind::Taken | ProblemKind::Conflict | ProblemKind::InUse => StatusCode::CONFLICT,
        ProblemKind::Fault => return fault(),
    };
    let faults = &problem.faults;
    Answer {
        details: (!faults.is_empty()).then(|| json!({ "faults": faults })),
        ..plain(status, problem.kind.code(), problem.message.as_str())
    }
}

fn plain(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Answer {
    Answer {
        status,
        kind,
        message: message.into(),
        details: None,
        header: None,
    }
}

fn invalid(status: StatusCode, message: impl Into<String>) -> Answer {
    plain(status, ProblemKind::Invalid.code(), message)
}

fn not_found(message: &str) -> Answer {
    plain(StatusCode::NOT_FOUND, ProblemKind::Absent.code(), message)
}

fn fault() -> Answer {
    plain(
        StatusCode::INTERNAL_SERVER_ERROR,
        ProblemKind::Fault.code(),
        FAULT,
    )
}

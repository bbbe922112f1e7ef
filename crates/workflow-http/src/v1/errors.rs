//! Errors become responses: the one table of Family C.
//!
//! Two shapes: what refuses a submission is a prompt error, everything else is a code and a message. What goes out is safe
//! to read by anybody; the chain behind a fault of the service goes to the log, once, here.

use accounts::{AccountsError, Scope};
use asset_http::DAMAGED;
use asset_store::AssetsError;
use http::header::{ALLOW, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper_kit::multipart::MultipartError;
use hyper_kit::{Body, BodyError, NoUnits, NotWebSocket, Refusal, RoomError};
use identity::IdentityError;
use serde_json::{Value, json};
use uuid::Uuid;
use v1_compat::{InvalidView, PromptProblem, PromptRefusal, UserFilesError, validation_problem};
use workflow_core::{GraphError, ImageToolsError, JobsError, Reference};

use super::reply;
use crate::memory::IntakeError;
use crate::uploads::TooManyUploads;

/// Everything a request of Family C can be refused for, or fail of.
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
    /// The account has no credits left.
    #[error("the account has no credits left")]
    InsufficientCredits,
    /// The credits of the account cannot be read.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// A page of another origin asks.
    #[error("the request comes from a page of another origin")]
    ForeignOrigin,
    /// Nothing is there, or it is another account's.
    #[error("nothing of this name")]
    NotFound,
    /// The path has other methods.
    #[error("the method is not allowed here")]
    MethodNotAllowed(HeaderValue),
    /// The body is no submission.
    #[error("the body is no submission")]
    Prompt(Box<PromptProblem>),
    /// Jobs refused or failed.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// Assets refused or failed.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// The records of files cannot be read.
    #[error(transparent)]
    Records(#[from] asset_store::RecordsError),
    /// Settings or saved files were refused or failed.
    #[error(transparent)]
    UserFiles(#[from] UserFilesError),
    /// A picture could not be read or made.
    #[error(transparent)]
    Picture(#[from] ImageToolsError),
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body, or the tree made of it, would take more memory than there is for it now, or ever.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// The form could not be read.
    #[error(transparent)]
    Form(#[from] MultipartError),
    /// The body is no JSON.
    #[error("the body is not valid JSON")]
    Syntax(#[source] serde_json::Error),
    /// A field, parameter or part is not as it must be.
    #[error("{0}")]
    Invalid(String),
    /// The query of a view asks for nothing that can be shown.
    #[error(transparent)]
    View(#[from] InvalidView),
    /// There is one of this name.
    #[error("there is a file of this name")]
    Exists,
    /// The upload is larger than it may be.
    #[error("the upload is too large")]
    UploadTooLarge {
        /// Most bytes of a file.
        limit_bytes: u64,
    },
    /// The request asks for no socket.
    #[error(transparent)]
    NotWebSocket(#[from] NotWebSocket),
    /// The account has too many streams and sockets open.
    #[error("too many streams are open")]
    TooManyStreams,
    /// Too many attempts to sign in.
    #[error("too many attempts to sign in")]
    TooManyAttempts,
    /// No place for one more upload became free.
    #[error(transparent)]
    TooManyUploads(#[from] TooManyUploads),
    /// The plumbing refused the request, or met a panic.
    #[error("{}", .0.message())]
    Refused(Refusal),
}

/// When to try again where memory is short, in seconds: any large request may be done at any moment.
const BUSY_RETRY_S: u64 = 1;

/// The code of whatever is the service's own fault.
const FAULT: &str = "INTERNAL_SERVER_ERROR";

/// What a client reads of an error.
struct Answer {
    status: StatusCode,
    code: &'static str,
    message: String,
    header: Option<(HeaderName, HeaderValue)>,
    /// What a refused submission says in place of code and message.
    problem: Option<Box<PromptProblem>>,
}

impl ApiError {
    /// The response to a request that ended so; logs the chain of a fault. `submits` chooses the shape.
    pub(crate) fn into_response(self, submits: bool, request_id: Uuid) -> Response<Body> {
        let answer = self.answer();
        if answer.code == FAULT {
            let error = hyper_kit::error_chain(&self);
            tracing::error!(error, request.id = %request_id, "request failed through a fault of the service");
        }
        // Every refused credential gets the same words everywhere.
        let outside = answer.status == StatusCode::UNAUTHORIZED;
        let body = match answer.problem {
            Some(problem) => problem.body(),
            None if submits && !outside => {
                PromptProblem::new(answer.code, answer.message, "").body()
            }
            None => json!({"code": answer.code, "message": answer.message}),
        };
        let mut response = reply::json(answer.status, &body);
        if let Some((name, value)) = answer.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn answer(&self) -> Answer {
        match self {
            Self::Identity(IdentityError::Unauthorized) => plain(
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED",
                "the credentials are missing or invalid; send `X-API-Key: <key>`",
            )
            .with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            Self::Identity(IdentityError::Accounts(_)) | Self::Accounts(_) => fault(),
            Self::MissingScope(scope) => plain(
                StatusCode::FORBIDDEN,
                "FORBIDDEN",
                format!(
                    "this needs the scope {}; use a key that has it",
                    scope.name()
                ),
            ),
            Self::SubscriptionInactive => plain(
                StatusCode::TOO_MANY_REQUESTS,
                "SUBSCRIPTION_INACTIVE",
                "the subscription of this account is not active; nothing new runs until it is",
            ),
            Self::InsufficientCredits => plain(
                StatusCode::PAYMENT_REQUIRED,
                "PAYMENT_REQUIRED",
                "the account has no credits left; add credits and submit again",
            ),
            Self::ForeignOrigin => plain(
                StatusCode::FORBIDDEN,
                "FORBIDDEN",
                "a page of another origin may not do this here; the operator can allow its origin",
            ),
            Self::NotFound => not_found(),
            Self::MethodNotAllowed(allow) => plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                format!("use one of {}", allow.to_str().unwrap_or_default()),
            )
            .with(ALLOW, allow.clone()),
            Self::Prompt(problem) => of_problem(StatusCode::BAD_REQUEST, (**problem).clone()),
            Self::Jobs(error) => of_jobs(error),
            Self::Assets(error) => of_assets(error),
            Self::Records(_) => fault(),
            Self::UserFiles(error) => match error {
                UserFilesError::TooLarge { .. } => too_large(error.to_string()),
                UserFilesError::Full => too_large(error.to_string()),
                UserFilesError::Unavailable(_) => fault(),
            },
            Self::Picture(error) => match error {
                ImageToolsError::NotAPicture(_)
                | ImageToolsError::TooLarge(_)
                | ImageToolsError::SizesDiffer { .. } => bad(error.to_string()),
                ImageToolsError::Absent => not_found(),
                ImageToolsError::Damaged => damaged(),
                ImageToolsError::Failed(_) => fault(),
            },
            Self::Body(error) => of_body(error),
            Self::Intake(error) => of_intake(error),
            Self::Form(error) => match error {
                MultipartError::NotMultipart
                | MultipartError::NoBoundary
                | MultipartError::Malformed(_)
                | MultipartError::TooManyParts { .. }
                | MultipartError::Broken(_) => bad(error.to_string()),
                MultipartError::TooLarge { limit } => bad(format!(
                    "a part is larger than the {limit} bytes that are taken; send less"
                )),
                MultipartError::Idle => slow(error.to_string()),
            },
            Self::Syntax(error) => bad(format!("the body is not valid JSON: {error}")),
            Self::Invalid(message) => bad(message.clone()),
            Self::View(error) => bad(error.to_string()),
            Self::Exists => plain(
                StatusCode::CONFLICT,
                "CONFLICT",
                "there is a file of this name; ask for it to be replaced, or choose another name",
            ),
            Self::UploadTooLarge { limit_bytes } => bad(format!(
                "the file is larger than the {limit_bytes} bytes that are taken; send a smaller one"
            )),
            Self::NotWebSocket(error) => plain(
                StatusCode::UPGRADE_REQUIRED,
                "UPGRADE_REQUIRED",
                error.to_string(),
            )
            .with(UPGRADE, HeaderValue::from_static("websocket")),
            Self::TooManyStreams => plain(
                StatusCode::TOO_MANY_REQUESTS,
                "TOO_MANY_STREAMS",
                "too many streams and sockets are open; close one",
            )
            .with(RETRY_AFTER, HeaderValue::from(1)),
            Self::TooManyAttempts => plain(
                StatusCode::TOO_MANY_REQUESTS,
                "TOO_MANY_ATTEMPTS",
                "too many attempts to sign in; try again in a minute",
            )
            .with(RETRY_AFTER, HeaderValue::from(60)),
            Self::TooManyUploads(error) => {
                let status = match error {
                    TooManyUploads::OfAccount => StatusCode::TOO_MANY_REQUESTS,
                    TooManyUploads::OfAll => StatusCode::SERVICE_UNAVAILABLE,
                };
                let after = HeaderValue::from(TooManyUploads::RETRY_AFTER_S);
                plain(status, "TOO_MANY_UPLOADS", error.to_string()).with(RETRY_AFTER, after)
            }
            Self::Refused(Refusal::Panicked) => fault(),
            Self::Refused(refusal @ Refusal::UnknownHost) => {
                plain(refusal.status(), "FORBIDDEN", refusal.message())
            }
            Self::Refused(refusal @ Refusal::TooManyStreams) => {
                plain(refusal.status(), "TOO_MANY_STREAMS", refusal.message())
                    .with(RETRY_AFTER, HeaderValue::from(1))
            }
            Self::Refused(refusal) => plain(refusal.status(), "INVALID_REQUEST", refusal.message()),
        }
    }
}

impl From<PromptRefusal> for ApiError {
    fn from(refusal: PromptRefusal) -> Self {
        Self::Prompt(refusal.0)
    }
}

fn of_body(error: &BodyError) -> Answer {
    match error {
        BodyError::TooLarge { limit } => too_large(format!(
            "the body is larger than the {limit} bytes that are taken; send less"
        )),
        BodyError::Idle => slow(error.to_string()),
        BodyError::Broken(_) => bad(error.to_string()),
    }
}

fn of_intake(error: &IntakeError) -> Answer {
    match error {
        IntakeError::Body(RoomError::Body(error)) => of_body(error),
        IntakeError::Body(RoomError::NoRoom(bound)) | IntakeError::NoRoom(bound) => {
            too_busy(*bound)
        }
        IntakeError::TooLarge(_) => bad(error.to_string()),
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
    plain(StatusCode::TOO_MANY_REQUESTS, "TOO_BUSY", message)
        .with(RETRY_AFTER, HeaderValue::from(BUSY_RETRY_S))
}

fn of_jobs(error: &JobsError) -> Answer {
    let refused = |kind, message: &str, details: String| {
        let problem = PromptProblem::new(kind, message, details);
        of_problem(StatusCode::BAD_REQUEST, problem)
    };
    match error {
        JobsError::Graph(GraphError::NotAnObject) => refused(
            "invalid_json",
            "The request body is not valid JSON",
            "`prompt` cannot be read: it nests too deeply, holds a number or text beyond all range, or has a member called `$serde_json::private::RawValue`; give that another name".to_owned(),
        ),
        // As a graph without outputs: it is one.
        JobsError::Graph(GraphError::Empty) | JobsError::NoOutputs => {
            refused("prompt_no_outputs", "Prompt has no outputs", String::new())
        }
        JobsError::Graph(error @ GraphError::UiFormat) => {
            refused("missing_node_type", &error.to_string(), "Node ID '#nodes'".to_owned())
        }
        JobsError::Graph(error @ (GraphError::TooLarge(_) | GraphError::TextTooLong | GraphError::NodeIdTooLong { .. })) => {
            refused("invalid_prompt", "The prompt is invalid", error.to_string())
        }
        JobsError::Graph(error @ GraphError::TooManyNodes) => {
            let problem = PromptProblem::new("WORKFLOW_TOO_LARGE", error.to_string(), "");
            of_problem(StatusCode::PAYLOAD_TOO_LARGE, problem)
        }
        JobsError::Invalid(validation) => {
            of_problem(StatusCode::BAD_REQUEST, validation_problem(validation))
        }
        JobsError::Refused(refusal) => of_problem(StatusCode::BAD_REQUEST, (&**refusal).into()),
        JobsError::PartnersForbidden { classes, providers } => {
            let mut problem = PromptProblem::new("PARTNER_NODE_DISABLED", error.to_string(), "");
            problem.more.insert("class_types".to_owned(), json!(classes));
            problem.more.insert("providers".to_owned(), json!(providers));
            of_problem(StatusCode::FORBIDDEN, problem)
        }
        JobsError::MissingAsset(references) => {
            of_problem(StatusCode::BAD_REQUEST, missing_assets(references))
        }
        JobsError::IdTaken => refused(
            "invalid_prompt_id",
            "The prompt id is taken",
            "there is a job of this id; choose another, or leave it out".to_owned(),
        ),
        JobsError::QueueFull { retry_after_s } => {
            let message = "the queue is full; try again after the seconds in `Retry-After`";
            let problem = PromptProblem::new("QUEUE_LIMIT", message, "");
            of_problem(StatusCode::TOO_MANY_REQUESTS, problem)
                .with(RETRY_AFTER, HeaderValue::from(*retry_after_s))
        }
        JobsError::RateLimited(used_up) => {
            let problem = PromptProblem::new("RATE_LIMITED", error.to_string(), "");
            of_problem(StatusCode::TOO_MANY_REQUESTS, problem)
                .with(RETRY_AFTER, HeaderValue::from(used_up.retry_after.as_secs()))
        }
        JobsError::StorageQuota { limit_bytes } => {
            let problem =
                PromptProblem::new("STORAGE_QUOTA_EXCEEDED", over_quota(*limit_bytes), "");
            of_problem(StatusCode::PAYLOAD_TOO_LARGE, problem)
        }
        JobsError::NotReady { retry_after_s } => {
            let message = "no worker is ready yet; try again after the seconds in `Retry-After`";
            let problem = PromptProblem::new("PLATFORM_REFUSED", message, "deployment_not_ready");
            of_problem(StatusCode::TOO_MANY_REQUESTS, problem)
                .with(RETRY_AFTER, HeaderValue::from(*retry_after_s))
        }
        JobsError::Stopped => {
            let message = "nothing is taken in any more until the operator starts the deployment again";
            let problem = PromptProblem::new("PLATFORM_REFUSED", message, "deployment_stopped");
            of_problem(StatusCode::SERVICE_UNAVAILABLE, problem)
        }
        JobsError::NotFound => not_found(),
        // v1 submissions have no idempotency keys.
        JobsError::KeyReused(_)
        | JobsError::Store(_)
        | JobsError::Abandoned(_)
        | JobsError::Assets(_) => fault(),
    }
}

fn of_assets(error: &AssetsError) -> Answer {
    match error {
        AssetsError::NotFound | AssetsError::BlobNotFound => not_found(),
        AssetsError::InUse => plain(StatusCode::CONFLICT, "ASSET_IN_USE", error.to_string()),
        AssetsError::QuotaExceeded { limit_bytes } => plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            "STORAGE_QUOTA_EXCEEDED",
            over_quota(*limit_bytes),
        ),
        AssetsError::Damaged(_) => damaged(),
        AssetsError::HashMismatch { .. }
        | AssetsError::KeyReused(_)
        | AssetsError::NameTaken
        | AssetsError::Store(_) => fault(),
    }
}

fn over_quota(limit: u64) -> String {
    format!(
        "files and graphs of the account may have {limit} bytes together, and this does not fit; \
         delete files, or wait until jobs and files expire"
    )
}

/// References to assets that are not there, as errors of the nodes that name them.
fn missing_assets(references: &[Reference]) -> PromptProblem {
    let mut problem = PromptProblem::new(
        "prompt_outputs_failed_validation",
        "Prompt outputs failed validation",
        "",
    );
    for reference in references {
        let error = json!({
            "type": "custom_validation_failed",
            "message": "Custom validation failed for node",
            "details": format!("{} - Invalid asset: {}", reference.field, reference.text),
            "extra_info": {"input_name": reference.field},
        });
        let node = reference.node.as_ref().map(ToString::to_string);
        let node = problem.node_errors.entry(node.unwrap_or_default());
        let node = node
            .or_insert_with(|| json!({"errors": [], "dependent_outputs": [], "class_type": null}));
        if let Some(Value::Array(errors)) = node.get_mut("errors") {
            errors.push(error);
        }
    }
    problem
}

impl Answer {
    fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self {
            header: Some((name, value)),
            ..self
        }
    }
}

fn plain(status: StatusCode, code: &'static str, message: impl Into<String>) -> Answer {
    Answer {
        status,
        code,
        message: message.into(),
        header: None,
        problem: None,
    }
}

fn of_problem(status: StatusCode, problem: PromptProblem) -> Answer {
    Answer {
        problem: Some(Box::new(problem)),
        ..plain(status, "PROMPT", "")
    }
}

fn bad(message: impl Into<String>) -> Answer {
    plain(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
}

fn slow(message: impl Into<String>) -> Answer {
    plain(StatusCode::REQUEST_TIMEOUT, "INVALID_REQUEST", message)
}

fn too_large(message: impl Into<String>) -> Answer {
    plain(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
}

fn not_found() -> Answer {
    plain(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "there is nothing of this name",
    )
}

fn damaged() -> Answer {
    plain(StatusCode::INTERNAL_SERVER_ERROR, FAULT, DAMAGED)
}

fn fault() -> Answer {
    plain(
        StatusCode::INTERNAL_SERVER_ERROR,
        FAULT,
        "the service could not do this now; try again, and quote the request id if this repeats",
    )
}

/// The message of a wrong field.
pub(crate) fn field(name: &str, must: &str) -> ApiError {
    ApiError::Invalid(format!("`{name}` must be {must}"))
}

//! Every way in which a request to the router fails, by what the caller can do about it.

use std::borrow::Cow;
use std::time::Duration;

use accounts::{BudgetWindow, Reservation};

use crate::{Bucket, ModelId, Outcome};

/// One step on the way to an offending field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViolationStep {
    /// The name of a field.
    Field(String),
    /// The index in an array.
    Index(usize),
}

/// One way in which a body breaks its model's schema (RouterValidationErrorDetail).
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The path to the field, outermost first, without the leading `"body"`.
    pub location: Vec<ViolationStep>,
    /// One sentence for people.
    pub message: String,
    /// The kind, from an open vocabulary: `missing`, `string_type`, `greater_than_equal` and so on.
    pub kind: &'static str,
    /// The bound that was broken, by its name; `None` if the kind has none.
    pub context: Option<(&'static str, serde_json::Value)>,
}

/// A call whose caller was answered at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftCall {
    /// It was not dispatched, and will not be.
    NotDispatched,
    /// It goes on, and its key gets the result.
    WithKey,
    /// It goes on, and nobody can ask for its result.
    WithoutKey,
}

/// A request is refused. Messages are safe to show; sources go to the log.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// A part of the request cannot be understood: body, cursor, `limit` or a header. 400.
    #[error("{0}")]
    Malformed(String),
    /// The key stands for another request. 409 `invalid_input`.
    #[error("this Idempotency-Key was used for another request; use a new key")]
    KeyConflict,
    /// The key's result was too large to be kept. 409 `invalid_input`.
    #[error(
        "the result of this Idempotency-Key was too large to be kept; use a new key to run again"
    )]
    NotReplayable,
    /// The body is larger than the router takes. 413.
    #[error("the body is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The body is not sent as JSON. 415.
    #[error("send the body as application/json")]
    MediaType,
    /// The body breaks the model's schema, in document order. 422 `invalid_input`.
    #[error("the body does not match the input schema of the model")]
    Schema(Vec<Violation>),
    /// The generation ended otherwise than with a result.
    #[error("the generation did not end with a result")]
    Ended(Outcome),
    /// The workspace lacks credits. 402.
    #[error("the workspace does not have enough credits for this call; add credits and try again")]
    InsufficientCredits,
    /// The call may cost more than a budget of the workspace has left: over an hour or a day 429 `rate_limited`, over a month
    /// 402.
    #[error(transparent)]
    OverBudget(#[from] accounts::OverBudget),
    /// The id names no model that the caller may run. 404.
    #[error("there is no such model")]
    ModelNotFound {
        /// Similar ids among the models that the caller may view, at most 3, the closest first.
        suggestions: Vec<ModelId>,
        /// What its partner lacks here, if the model exists and the caller operates the installation.
        lacks: Option<String>,
    },
    /// The operator has switched the model off for now. 503.
    #[error("the model is switched off for now; use another model, or try again later")]
    SwitchedOff,
    /// The operator has withdrawn the model, or this version of it. 404.
    #[error("the model was withdrawn; list the models to see those that can be called")]
    Withdrawn,
    /// Valid credentials without permission. 403.
    #[error("{0}")]
    Forbidden(Cow<'static, str>),
    /// The router is not enabled for the caller. 403.
    #[error("the model router is not enabled for this workspace")]
    NotEnabled,
    /// The workspace runs as many calls as it may. 429.
    #[error(
        "the workspace already runs its {limit} concurrent calls; try again when one of them has finished"
    )]
    TooManyCalls {
        /// How many it may run.
        limit: u32,
    },
    /// The call would commit more than the workspace may have committed. 429.
    #[error("{}", no_room_for(*.hold_cents, *.limit_cents))]
    SpendCap {
        /// What the call may cost. If that is over the cap, it never has room.
        hold_cents: u64,
        /// The cap.
        limit_cents: u64,
        /// What calls in flight have committed, without this one.
        current_cents: u64,
    },
    /// Bodies take as much memory as they may: those of the workspace, 429, or all together, 503.
    #[error("{}", if *.by_workspace { OWN_BODIES } else { ALL_BODIES })]
    NoRoom {
        /// Whether the workspace has its share.
        by_workspace: bool,
    },
    /// Another request with this key is in flight. 409 `concurrency_limit_exceeded`.
    #[error("a call with this Idempotency-Key is in flight; try again when it has finished")]
    InFlight {
        /// When to try again.
        retry_after: Duration,
    },
    /// The window's quota is used up. 429.
    #[error("the quota of {quota} requests per {window} is used up; wait for the window to end")]
    RateLimited {
        /// Requests per window.
        quota: u32,
        /// The window in words.
        window: String,
        /// Until the window ends.
        retry_after: Duration,
    },
    /// The caller left. Recorded, never delivered.
    #[error("the caller closed the connection before the result")]
    Disconnected,
    /// The router stopped holding the connection. 504.
    #[error("{}", left_at_deadline(*.left))]
    Deadline {
        /// What becomes of the call.
        left: LeftCall,
        /// Set if a retry with the same key picks up work that runs at the partner.
        retry_after: Option<Duration>,
    },
    /// The router stops while the call runs, and its caller waits. 503.
    #[error("{}", stopping(*.retry_after))]
    Stopping {
        /// Set if a retry with the same key picks the work up.
        retry_after: Option<Duration>,
    },
    /// Another process took the call over while this one was away: how it ends is that one's to say. 503.
    #[error("{}", taken_over(*.retry_after))]
    TakenOver {
        /// Set if a retry with the same key gets what the other process makes of it.
        retry_after: Option<Duration>,
    },
    /// The caller has no queued request of this id and model. 404.
    #[error("there is no request of this id for this model; submit one with POST .../requests")]
    RequestNotFound,
    /// The workspace has no call of this id. 404.
    #[error(
        "this workspace has no call of this id; it is the `X-Service-Request-Id` of its answer, and is forgotten in the end"
    )]
    CallNotFound,
    /// The result of a queued request is not kept any more. 410.
    #[error(
        "the result of this request is not kept any more; results are kept for 24 hours after the submission"
    )]
    ResultGone,
    /// A queued request was cancelled, so there is no result. 409.
    #[error(
        "the request was cancelled and has no result; submit it with a new Idempotency-Key to run it"
    )]
    RequestCancelled,
    /// A queued request waited longer than it may, and was not dispatched. 504.
    #[error(
        "the request waited longer in the queue than it may and was not run; nothing is billed, submit it again"
    )]
    WaitedTooLong,
    /// A queued request ended before it was dispatched.
    #[error("{message}")]
    NotDispatched {
        /// How.
        bucket: Bucket,
        /// Safe to show to end users.
        message: String,
    },
    /// As many requests of the workspace wait as may. 429.
    #[error(
        "{limit} requests wait in the queue, which is as many as may; try again when some of them have finished"
    )]
    BacklogFull {
        /// How many may.
        limit: usize,
    },
    /// The router itself failed. 500.
    #[error("the router failed to handle the request")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Something that the router needs is away for now. 503.
    #[error("the service is temporarily unavailable; try again in a moment")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

const OWN_BODIES: &str =
    "the workspace sends as many large bodies as it may; try again when one of them is done";

const ALL_BODIES: &str = "the service is temporarily unavailable; try again in a moment";

impl From<accounts::UsedUp> for RouterError {
    fn from(used_up: accounts::UsedUp) -> Self {
        Self::RateLimited {
            quota: used_up.quota,
            window: used_up.span,
            retry_after: used_up.retry_after,
        }
    }
}

impl RouterError {
    /// Something is away for now.
    pub(crate) fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Unavailable(Box::new(error))
    }

    /// The error for the caller if credits could not be set aside.
    ///
    /// # Errors
    /// If they are not.
    pub fn of_reservation(reservation: Reservation) -> Result<(), Self> {
        match reservation {
            Reservation::Held => Ok(()),
            Reservation::Insufficient { .. } => Err(Self::InsufficientCredits),
            Reservation::OverBudget(over) => Err(over.into()),
        }
    }

    /// The bucket that it is told as.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        match self {
            Self::Malformed(_)
            | Self::RequestNotFound
            | Self::CallNotFound
            | Self::ResultGone
            | Self::RequestCancelled
            | Self::KeyConflict
            | Self::NotReplayable
            | Self::TooLarge { .. }
            | Self::MediaType
            | Self::Schema(_) => Bucket::InvalidInput,
            // An ended generation that is told as an error is one.
            Self::Ended(outcome) => outcome.bucket().unwrap_or(Bucket::InternalError),
            Self::InsufficientCredits => Bucket::InsufficientCredits,
            Self::OverBudget(over) => match over.left.window {
                BudgetWindow::Hour | BudgetWindow::Day => Bucket::RateLimited,
                BudgetWindow::Month => Bucket::InsufficientCredits,
            },
            Self::ModelNotFound { .. } | Self::Withdrawn => Bucket::ModelNotFound,
            Self::Forbidden(_) => Bucket::Forbidden,
            Self::NotEnabled => Bucket::NotEnabled,
            Self::NotDispatched { bucket, .. } => *bucket,
            Self::TooManyCalls { .. }
            | Self::BacklogFull { .. }
            | Self::SpendCap { .. }
            | Self::NoRoom { by_workspace: true }
            | Self::InFlight { .. } => Bucket::ConcurrencyLimitExceeded,
            Self::RateLimited { .. } => Bucket::RateLimited,
            Self::Disconnected => Bucket::ClientDisconnected,
            Self::Deadline { .. } | Self::WaitedTooLong => Bucket::DeadlineExceeded,
            Self::Internal(_) => Bucket::InternalError,
            Self::NoRoom {
                by_workspace: false,
            }
            | Self::SwitchedOff
            | Self::Stopping { .. }
            | Self::TakenOver { .. }
            | Self::Unavailable(_) => Bucket::ServiceUnavailable,
        }
    }
}

fn no_room_for(hold_cents: u64, limit_cents: u64) -> Cow<'static, str> {
    if hold_cents > limit_cents {
        let text = format!(
            "the call may cost {hold_cents} US cents, and calls in flight may commit {limit_cents} at most; ask for less, or have the cap raised"
        );
        return text.into();
    }
    "the committed spend of the calls in flight leaves no room for this call; try again when one of them has finished".into()
}

fn left_at_deadline(left: LeftCall) -> &'static str {
    match left {
        LeftCall::NotDispatched => {
            "the router stopped waiting at its own limit before this call was dispatched; try again, with the same Idempotency-Key if it has one"
        }
        LeftCall::WithKey => {
            "the router stopped waiting at its own limit; retry with the same Idempotency-Key to get the result"
        }
        LeftCall::WithoutKey => {
            "the router stopped waiting at its own limit; the call continues without its caller and may be billed; send calls with an Idempotency-Key to get their results"
        }
    }
}

fn taken_over(retry_after: Option<Duration>) -> &'static str {
    match retry_after {
        Some(_) => {
            "another server has taken the call over; retry with the same Idempotency-Key to get the result"
        }
        None => {
            "another server has taken the call over, and it continues without its caller; send calls with an Idempotency-Key to get their results"
        }
    }
}

fn stopping(retry_after: Option<Duration>) -> &'static str {
    match retry_after {
        Some(_) => {
            "the router is restarting; retry with the same Idempotency-Key to get the result"
        }
        None => {
            "the router is restarting and the call continues without its caller; send calls with an Idempotency-Key to get results after a restart"
        }
    }
}

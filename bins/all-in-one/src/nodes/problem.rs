//! What goes wrong with a partner node, in the words of a job: which exception, and what people can do about it.

use accounts::Principal;
use engine_native::NodeError;
use router_core::{Bucket, Outcome, Refusal, RouterError, Violation, ViolationStep};
use serde_json::Value;

/// Most characters that are told of what a partner says.
const MOST_TOLD: usize = 2000;

/// An input that no body can hold.
pub(super) fn invalid(message: impl Into<String>) -> NodeError {
    NodeError::new("ValidationError", message)
}

/// The answer is not what the model's definition says.
pub(super) fn unusable(message: impl Into<String>) -> NodeError {
    NodeError::new("ServiceError", message)
}

/// A call that ends in an error.
pub(super) fn of(error: &RouterError, caller: &Principal) -> NodeError {
    match error {
        RouterError::Schema(violations) => invalid(violated(violations)),
        RouterError::Ended(outcome) => ended(outcome),
        RouterError::InsufficientCredits | RouterError::OverBudget(_) => {
            NodeError::new("InsufficientFundsError", error.to_string())
        }
        RouterError::Forbidden(_) if !caller.subscribed => {
            NodeError::new("InactiveSubscriptionError", error.to_string())
        }
        RouterError::Forbidden(_) | RouterError::NotEnabled => {
            NodeError::new("PermissionError", error.to_string())
        }
        RouterError::Malformed(_)
        | RouterError::TooLarge { .. }
        | RouterError::MediaType
        | RouterError::KeyConflict => invalid(error.to_string()),
        RouterError::TooManyCalls { .. }
        | RouterError::SpendCap { .. }
        | RouterError::NoRoom { .. }
        | RouterError::RateLimited { .. } => NodeError::new("RateLimitError", error.to_string()),
        RouterError::ModelNotFound { .. } | RouterError::Withdrawn => {
            unusable("the catalog of this server no longer has this model")
        }
        RouterError::NotReplayable => unusable(
            "the result was made and billed before the server stopped, and was too large to be kept; submit the job again",
        ),
        RouterError::SwitchedOff
        | RouterError::Stopping { .. }
        | RouterError::TakenOver { .. }
        | RouterError::InFlight { .. }
        | RouterError::Disconnected
        | RouterError::Deadline { .. }
        // Only submitted requests end like these.
        | RouterError::RequestNotFound
        | RouterError::CallNotFound
        | RouterError::ResultGone
        | RouterError::RequestCancelled
        | RouterError::WaitedTooLong
        | RouterError::NotDispatched { .. }
        | RouterError::BacklogFull { .. }
        | RouterError::Internal(_)
        | RouterError::Unavailable(_) => unusable(error.to_string()),
    }
}

fn ended(outcome: &Outcome) -> NodeError {
    match outcome {
        Outcome::Answered(_) => unusable("the model's answer cannot be used"),
        Outcome::Refused(Refusal::Content { code, message }) => invalid(format!(
            "the model refuses this ({code}): {}",
            short(message)
        )),
        Outcome::Refused(Refusal::Detail(answer)) => {
            let detail = router_core::read_leniently(&answer.body).unwrap_or(Value::Null);
            invalid(format!(
                "the model refuses this: {}",
                short(&entries(&detail))
            ))
        }
        Outcome::Policy { message, .. } => NodeError::new("ContentPolicyError", short(message)),
        Outcome::Failed { bucket, message } => {
            let exception = if *bucket == Bucket::ProviderTimeout {
                "TimeoutError"
            } else {
                "ServiceError"
            };
            NodeError::new(exception, short(message))
        }
    }
}

/// Each thing that is wrong with a body, and where.
fn violated(violations: &[Violation]) -> String {
    let told = violations.iter().map(|violation| {
        let steps = violation.location.iter().map(|step| match step {
            ViolationStep::Field(name) => name.clone(),
            ViolationStep::Index(index) => index.to_string(),
        });
        let place = steps.collect::<Vec<_>>().join(".");
        format!("{place}: {}", violation.message)
    });
    short(&told.collect::<Vec<_>>().join("; "))
}

/// The entries of a `detail`, as one line.
fn entries(detail: &Value) -> String {
    let entries = detail["detail"].as_array().into_iter().flatten();
    let told = entries.map(|entry| {
        let place = entry["loc"].as_array().into_iter().flatten();
        let place = place.filter(|step| **step != "body").map(|step| {
            step.as_str()
                .map_or_else(|| step.to_string(), str::to_owned)
        });
        let place = place.collect::<Vec<_>>().join(".");
        format!("{place}: {}", entry["msg"].as_str().unwrap_or_default())
    });
    told.collect::<Vec<_>>().join("; ")
}

fn short(text: &str) -> String {
    text.chars().take(MOST_TOLD).collect()
}

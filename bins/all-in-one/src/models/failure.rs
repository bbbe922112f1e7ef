//! What goes wrong with a run, in the router's words.
//!
//! What the caller sent is told field by field, as the schema's own refusals are; what happened here is told without a word
//! about how the model is made.

use bytes::Bytes;
use router_core::{Answer, Charge, Failure, Ran, Refusal};
use serde_json::{Value, json};
use workflow_core::{Job, JobErrorCode, JobsError, StoreError, Validation, ValidationErrorKind};

use super::template::Template;

/// Something about a field of the body, if it can be said which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) field: Option<String>,
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl Complaint {
    /// About a picture.
    pub(super) fn picture(field: &str, message: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            kind: "picture",
            message: message.into(),
        }
    }
}

/// The body cannot be run.
pub(super) fn refused(complaints: &[Complaint]) -> Failure {
    let entry = |complaint: &Complaint| {
        let location = ["body"].into_iter().chain(complaint.field.as_deref());
        json!({
            "loc": location.collect::<Vec<_>>(),
            "msg": complaint.message,
            "type": complaint.kind,
        })
    };
    let entries: Vec<Value> = complaints.iter().map(entry).collect();
    Failure::Refused {
        refusal: Refusal::Detail(Answer {
            content_type: "application/json".to_owned(),
            body: Bytes::from(json!({"detail": entries}).to_string()),
        }),
        charge: Charge::Cents(0),
    }
}

/// The job was not taken in.
pub(super) fn of_submission(error: &JobsError, template: &Template) -> Failure {
    let failed = |ran, message: &str| Failure::Failed {
        ran,
        message: message.to_owned(),
    };
    match error {
        JobsError::Invalid(validation) if lacks_classes(validation) => Failure::Transient {
            message: "the nodes of this model do not run here now; try again later".to_owned(),
        },
        JobsError::Invalid(validation) => refused(&complaints(validation, template)),
        JobsError::Refused(refusal) => failed(Ran::Nothing, &refusal.message),
        JobsError::MissingAsset(references) => {
            let missing = references.iter().map(|reference| {
                let node = reference.node.as_ref();
                let field =
                    node.and_then(|node| template.field_of(node.as_str(), &reference.field));
                Complaint {
                    field: field.map(str::to_owned),
                    kind: "picture",
                    message: "there is no such asset".to_owned(),
                }
            });
            refused(&missing.collect::<Vec<_>>())
        }
        JobsError::QueueFull { .. } | JobsError::Store(StoreError::Busy | StoreError::Full(_)) => {
            Failure::Transient {
                message: "too much is waiting here; try again later".to_owned(),
            }
        }
        JobsError::RateLimited(_) => Failure::Transient {
            message: "the account has submitted as many jobs as it may for now; try again later"
                .to_owned(),
        },
        JobsError::StorageQuota { .. } => failed(Ran::Nothing, STORAGE_QUOTA),
        JobsError::NotReady { .. } | JobsError::Stopped => Failure::Transient {
            message: "nothing can run here yet; try again later".to_owned(),
        },
        JobsError::Abandoned(_) => failed(Ran::Nothing, "the graph was not read to its end"),
        JobsError::Assets(_) => failed(Ran::Nothing, "the pictures cannot be looked up"),
        JobsError::Store(StoreError::Unavailable(_)) => {
            failed(Ran::Perhaps, "it is unknown whether the run was accepted")
        }
        // The template was checked when it was loaded, and the key is the generation's own.
        JobsError::Graph(_)
        | JobsError::NoOutputs
        | JobsError::PartnersForbidden { .. }
        | JobsError::KeyReused(_)
        | JobsError::IdTaken
        | JobsError::NotFound => failed(Ran::Nothing, "the model cannot be run"),
    }
}

/// What an account without room for its files is told.
const STORAGE_QUOTA: &str = "the account has used up the bytes that it may store; delete files, or wait until jobs and files expire";

/// The job ended without a result.
pub(super) fn of_job(job: &Job, template: &Template) -> Failure {
    let failed = |message: String| Failure::Failed {
        ran: Ran::Perhaps,
        message,
    };
    let Some(error) = &job.error else {
        return failed("the run ended without a result".to_owned());
    };
    match error.code {
        JobErrorCode::NodeExecutionError => {
            let node = error.node_id.as_ref();
            match node.and_then(|node| template.picture_of(node.as_str())) {
                Some(field) => refused(&[Complaint::picture(field, &error.message)]),
                None => failed(error.message.clone()),
            }
        }
        JobErrorCode::OutOfMemory => {
            failed("the run needed more memory than it may have".to_owned())
        }
        JobErrorCode::StorageQuotaExceeded => failed(STORAGE_QUOTA.to_owned()),
        JobErrorCode::WorkerLost => failed("the run was lost".to_owned()),
        JobErrorCode::Timeout => failed("the run did not finish in time".to_owned()),
        JobErrorCode::SecretLost | JobErrorCode::InvalidWorkflow | JobErrorCode::EngineError => {
            failed("the run failed".to_owned())
        }
    }
}

/// Whether a class of the graph does not run here now: its workers are away.
fn lacks_classes(validation: &Validation) -> bool {
    let mut errors = validation.errors.values().flat_map(|node| &node.errors);
    errors.any(|error| matches!(error.kind, ValidationErrorKind::MissingNodeType { .. }))
}

/// What the validator says of values that the schema let pass.
fn complaints(validation: &Validation, template: &Template) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (node, errors) in &validation.errors {
        for error in &errors.errors {
            let input = error.input.as_deref();
            let field = input.and_then(|input| template.field_of(node.as_str(), input));
            found.push(Complaint {
                field: field.map(str::to_owned),
                kind: "value_error",
                message: error.reason(),
            });
        }
    }
    found
}

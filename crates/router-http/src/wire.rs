//! The wire structs of Family A, field for field as the specification has them.

use router_core::{ChargesOnPolicyRejection, Model, ModelId, Violation, ViolationStep};
use serde::{Serialize, Serializer};

/// RouterModelListEntry.
#[derive(Debug, Serialize)]
pub(crate) struct ListEntry<'a> {
    id: &'a str,
    provider: &'a str,
    model: &'a str,
    billing: Billing,
}

/// RouterModelBilling.
#[derive(Debug, Serialize)]
struct Billing {
    charges_on_policy_rejection: &'static str,
}

/// RouterModelDetail.
#[derive(Debug, Serialize)]
pub(crate) struct Detail<'a> {
    #[serde(flatten)]
    entry: ListEntry<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema_url: Option<String>,
    /// Told where others serve the model too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    serving_providers: Vec<&'a str>,
}

/// RouterModelListResponse.
#[derive(Debug, Serialize)]
pub(crate) struct List<'a> {
    pub(crate) data: Vec<ListEntry<'a>>,
    pub(crate) has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
    pub(crate) limit: u32,
}

/// RouterEstimate: what a call would cost, in US cents.
#[derive(Debug, Serialize)]
pub(crate) struct EstimateBody {
    pub(crate) source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount_cents: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_cents: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_cents: Option<u64>,
    pub(crate) hold_cents: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pricing_as_of: Option<String>,
}

/// RouterQueuedRequest: how far a submitted request is, and where to go on.
#[derive(Debug, Serialize)]
pub(crate) struct QueuedStatus {
    pub(crate) request_id: String,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_position: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    pub(crate) status_url: String,
    pub(crate) response_url: String,
    pub(crate) cancel_url: String,
}

/// RouterQueuedRequestList.
#[derive(Debug, Serialize)]
pub(crate) struct QueuedList {
    pub(crate) data: Vec<QueuedStatus>,
    pub(crate) has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
    pub(crate) limit: u32,
}

/// RouterCancellation: the answer to a cancellation.
#[derive(Debug, Serialize)]
pub(crate) struct Cancellation {
    pub(crate) status: &'static str,
}

/// RouterErrorResponse.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody<'a> {
    pub(crate) detail: &'a str,
    pub(crate) error_type: &'static str,
}

/// RouterValidationErrorResponse; it has no `error_type`.
#[derive(Debug, Serialize)]
pub(crate) struct ValidationBody<'a> {
    pub(crate) detail: Vec<ValidationDetail<'a>>,
}

/// RouterValidationErrorDetail. The rejected input is not echoed.
#[derive(Debug, Serialize)]
pub(crate) struct ValidationDetail<'a> {
    loc: Location<'a>,
    msg: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ctx: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The path to a field: `"body"`, then the steps.
#[derive(Debug)]
struct Location<'a>(&'a [ViolationStep]);

impl<'a> ListEntry<'a> {
    pub(crate) fn of(model: &'a Model) -> Self {
        let id: &ModelId = model.id();
        let charges = match model.charges_on_policy_rejection() {
            ChargesOnPolicyRejection::Yes => "yes",
            ChargesOnPolicyRejection::No => "no",
            ChargesOnPolicyRejection::Unknown => "unknown",
        };
        Self {
            id: id.as_str(),
            provider: id.provider(),
            model: id.model(),
            billing: Billing {
                charges_on_policy_rejection: charges,
            },
        }
    }
}

impl<'a> Detail<'a> {
    /// The entry of a model, where its schema is served, and who serves it.
    pub(crate) fn of(
        model: &'a Model,
        input_schema_url: Option<String>,
        serving: Vec<&'a str>,
    ) -> Self {
        let has_others = serving.len() > 1;
        Self {
            entry: ListEntry::of(model),
            input_schema_url,
            serving_providers: if has_others { serving } else { Vec::new() },
        }
    }
}

impl<'a> ValidationDetail<'a> {
    /// One way in which a body breaks the schema.
    pub(crate) fn of(violation: &'a Violation) -> Self {
        let context = violation.context.as_ref();
        let ctx = context.map(|(name, bound)| [((*name).to_owned(), bound.clone())]);
        Self {
            loc: Location(&violation.location),
            msg: &violation.message,
            kind: violation.kind,
            ctx: ctx.map(|fields| fields.into_iter().collect()),
        }
    }

    /// What a provider says of the whole body.
    pub(crate) fn of_body(kind: &'a str, msg: &'a str) -> Self {
        Self {
            loc: Location(&[]),
            msg,
            kind,
            ctx: None,
        }
    }
}

impl Serialize for Location<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut steps = serializer.serialize_seq(Some(self.0.len() + 1))?;
        steps.serialize_element("body")?;
        for step in self.0 {
            match step {
                ViolationStep::Field(name) => steps.serialize_element(name)?,
                ViolationStep::Index(index) => steps.serialize_element(index)?,
            }
        }
        steps.end()
    }
}

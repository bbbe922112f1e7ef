//! Who serves a call: the partner of the model itself, or another one that has the same model under other words.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Answer, Bucket, ModelId, ViolationStep};

/// Another model of the catalog that can serve the calls of a model.
#[derive(Clone)]
pub struct Alternate {
    /// Its id. Callers name it by the first segment, so that a model has one alternate of a partner.
    pub model: ModelId,
    /// How bodies and answers are said there.
    pub translation: Arc<dyn Translation>,
}

/// Says the bodies of one model in the words of another one, and the answers the other way.
///
/// **Contract.** Pure: the same input gives the same output. Any JSON has a translation. What cannot be said there is told as
/// dropped or refused and is nowhere else lost.
pub trait Translation: Send + Sync + 'static {
    /// A body in the words of the other model.
    fn body(&self, body: &Value) -> Translated;

    /// An answer of the other model in the words of this one. What is no JSON object stays as it is.
    fn answer(&self, answer: Answer) -> Answer;
}

/// A body in the words of another model.
#[derive(Clone, Debug, PartialEq)]
pub struct Translated {
    /// What is sent.
    pub body: Value,
    /// What the other model does not take, and the call does without.
    pub dropped: Vec<Unsaid>,
    /// What it does not take, and without which the call would be another one.
    pub refused: Vec<Unsaid>,
}

/// A part of a body that another model does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaid {
    /// Where it is.
    pub location: Vec<ViolationStep>,
    /// Why: a clause for people, such as `has no such field`.
    pub why: String,
}

/// Who serves a generation, and who failed to before: what its record says of a call that named its providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The model that runs it, or ran it last.
    pub model: ModelId,
    /// When it was sent there first.
    pub began_at: Timestamp,
    /// What the call is expected to cost there at most, in US cents.
    pub hold_cents: u64,
    /// What of the body is not said there.
    pub dropped: Vec<String>,
    /// The attempts that provably came to nothing before, oldest first.
    pub failed: Vec<FailedAttempt>,
}

/// An attempt to run a generation that provably failed and costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The model that was asked.
    pub model: ModelId,
    /// When it was sent there.
    pub began_at: Timestamp,
    /// When it had failed.
    pub ended_at: Timestamp,
    /// How it failed.
    pub bucket: Bucket,
    /// Safe to show to end users.
    pub message: String,
    /// The partner's own status, if it answered.
    pub upstream_status: Option<u16>,
}

/// Most entries that an answer and a record tell of what was dropped.
const MOST_TOLD: usize = 24;

/// Most bytes of the name of a field in such an entry.
const MOST_NAME: usize = 96;

impl Unsaid {
    /// The field and why it is not said, for a list of what was dropped.
    #[must_use]
    pub fn told(&self, provider: &str) -> String {
        format!("{} ({provider} {})", self.name(), self.why)
    }

    /// Where it is, as people write it: `image_urls[2].url`.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = String::new();
        for step in &self.location {
            match step {
                ViolationStep::Field(field) if name.is_empty() => name.push_str(field),
                ViolationStep::Field(field) => {
                    name.push('.');
                    name.push_str(field);
                }
                ViolationStep::Index(index) => name.push_str(&format!("[{index}]")),
            }
        }
        if name.len() > MOST_NAME {
            let end = (0..=MOST_NAME).rev().find(|at| name.is_char_boundary(*at));
            name.truncate(end.unwrap_or(0));
            name.push('…');
        }
        name
    }
}

/// What was dropped, as it is told: a bounded list, however many fields a body has.
pub(crate) fn told(dropped: &[Unsaid], provider: &str) -> Vec<String> {
    let mut told: Vec<String> = dropped
        .iter()
        .take(MOST_TOLD)
        .map(|one| one.told(provider))
        .collect();
    let more = dropped.len().saturating_sub(MOST_TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told
}

impl Serving {
    /// The provider that served it after others had failed; `None` if the first one did.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        (!self.failed.is_empty()).then(|| self.model.provider())
    }

    /// As a store keeps it.
    #[must_use]
    pub fn write(&self) -> String {
        let failed: Vec<Value> = self.failed.iter().map(FailedAttempt::written).collect();
        json!({
            "model": self.model.as_str(),
            "began_at": self.began_at.as_microsecond(),
            "hold_cents": self.hold_cents,
            "dropped": self.dropped,
            "failed": failed,
        })
        .to_string()
    }

    /// What [`Serving::write`] wrote; `None` of anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let dropped = value["dropped"].as_array()?.iter();
        let dropped = dropped.map(|one| one.as_str().map(str::to_owned));
        let failed = value["failed"].as_array()?.iter().map(FailedAttempt::read);
        Some(Self {
            model: value["model"].as_str()?.parse().ok()?,
            began_at: time(&value["began_at"])?,
            hold_cents: value["hold_cents"].as_u64()?,
            dropped: dropped.collect::<Option<_>>()?,
            failed: failed.collect::<Option<_>>()?,
        })
    }
}

impl FailedAttempt {
    fn written(&self) -> Value {
        json!({
            "model": self.model.as_str(),
            "began_at": self.began_at.as_microsecond(),
            "ended_at": self.ended_at.as_microsecond(),
            "bucket": self.bucket.name(),
            "message": self.message,
            "upstream_status": self.upstream_status,
        })
    }

    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            model: value["model"].as_str()?.parse().ok()?,
            began_at: time(&value["began_at"])?,
            ended_at: time(&value["ended_at"])?,
            bucket: Bucket::named(value["bucket"].as_str()?)?,
            message: value["message"].as_str()?.to_owned(),
            upstream_status: value["upstream_status"]
                .as_u64()
                .and_then(|it| it.try_into().ok()),
        })
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    Timestamp::from_microsecond(value.as_i64()?).ok()
}

impl fmt::Debug for Alternate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alternate({})", self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving() -> Serving {
        Serving {
            model: "fal/flux-2-pro".parse().expect("an id"),
            began_at: Timestamp::from_microsecond(1_790_000_000_000_007).expect("a time"),
            hold_cents: 12,
            dropped: vec!["seed (fal has no such field)".to_owned()],
            failed: vec![FailedAttempt {
                model: "bfl/flux-2-pro".parse().expect("an id"),
                began_at: Timestamp::from_microsecond(1_790_000_000_000_001).expect("a time"),
                ended_at: Timestamp::from_microsecond(1_790_000_000_000_005).expect("a time"),
                bucket: Bucket::ServiceUnavailable,
                message: "the provider \"is\" busy".to_owned(),
                upstream_status: Some(429),
            }],
        }
    }

    #[test]
    fn what_is_kept_reads_back_and_anything_else_does_not() {
        let serving = serving();
        assert_eq!(Serving::read(&serving.write()), Some(serving.clone()));
        assert_eq!(serving.fallback(), Some("fal"));
        let first = Serving {
            failed: Vec::new(),
            ..serving.clone()
        };
        assert_eq!(first.fallback(), None);
        for text in ["", "{}", "null", &serving.write()[1..]] {
            assert_eq!(Serving::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_told_of_dropped_fields_is_bounded() {
        let unsaid = |field: &str| Unsaid {
            location: vec![
                ViolationStep::Field("a".to_owned()),
                ViolationStep::Index(2),
                ViolationStep::Field(field.to_owned()),
            ],
            why: "has no such field".to_owned(),
        };
        assert_eq!(unsaid("b").told("fal"), "a[2].b (fal has no such field)");
        let long = unsaid(&"ü".repeat(500));
        assert!(long.name().len() < 110, "{}", long.name());
        let many = vec![unsaid("b"); 1_000];
        let told = told(&many, "fal");
        assert_eq!((told.len(), told[24].as_str()), (25, "and 976 more"));
    }
}

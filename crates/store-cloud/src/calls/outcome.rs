//! How the outcome of a generation stands in columns; its bytes lie in a table of their own.

use bytes::Bytes;
use router_core::{Answer, Bucket, Ending, Outcome, Refusal};
use tokio_postgres::Row;

use crate::DatabaseError;
use crate::columns::unreadable;

/// The columns of an outcome.
pub(super) struct OutcomeColumns<'a> {
    pub(super) outcome: &'static str,
    pub(super) bucket: Option<&'static str>,
    pub(super) code: Option<&'a [u8]>,
    pub(super) message: Option<&'a [u8]>,
    pub(super) content_type: Option<&'a str>,
}

/// An outcome as its row tells it.
#[derive(Clone, Debug)]
pub(super) struct StoredOutcome {
    outcome: String,
    bucket: Option<Bucket>,
    code: Option<Vec<u8>>,
    message: Option<Vec<u8>>,
    content_type: Option<String>,
    /// How many bytes of the partner are kept; `None` if they were not.
    pub(super) replay_bytes: Option<i64>,
}

/// A column that names no bucket.
#[derive(Debug, thiserror::Error)]
#[error("there is no bucket of this name")]
struct UnknownBucket;

impl<'a> OutcomeColumns<'a> {
    pub(super) fn of(ending: &'a Ending) -> Self {
        let plain = |outcome| Self {
            outcome,
            bucket: ending.bucket().map(Bucket::name),
            code: None,
            message: None,
            content_type: None,
        };
        let outcome = match ending {
            Ending::Released(_) => return plain("released"),
            Ending::Kept { outcome, .. } => outcome,
        };
        let columns = match outcome {
            Outcome::Answered(_) => plain("answered"),
            Outcome::Refused(Refusal::Detail(_)) => plain("refused"),
            Outcome::Refused(Refusal::Content { code, message }) => Self {
                code: Some(code.as_bytes()),
                message: Some(message.as_bytes()),
                ..plain("content")
            },
            Outcome::Policy { message, detail } => Self {
                message: Some(message.as_bytes()),
                ..plain(match detail {
                    Some(_) => "policy_detail",
                    None => "policy",
                })
            },
            Outcome::Failed { message, .. } => Self {
                message: Some(message.as_bytes()),
                ..plain("failed")
            },
        };
        Self {
            content_type: outcome.answer().map(|answer| answer.content_type.as_str()),
            ..columns
        }
    }
}

impl StoredOutcome {
    /// Reads the columns of a row; `None` if there is no outcome.
    pub(super) fn read(row: &Row) -> Result<Option<Self>, DatabaseError> {
        let Some(outcome) = row.get("outcome") else {
            return Ok(None);
        };
        Ok(Some(Self {
            outcome,
            bucket: bucket(row.get("bucket"))?,
            code: row.get("code"),
            message: row.get("message"),
            content_type: row.get("content_type"),
            replay_bytes: row.get("replay_bytes"),
        }))
    }

    /// Whether there is an outcome to tell, which a generation that never ran has not.
    pub(super) fn is_told(&self) -> bool {
        self.outcome != "released"
    }

    /// The outcome with its bytes; `None` if the row is of no kind that this program writes for a key.
    pub(super) fn with_body(self, body: Bytes) -> Option<Outcome> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let message = self.message.map(text).unwrap_or_default();
        let answer = self
            .content_type
            .map(|content_type| Answer { content_type, body });
        Some(match self.outcome.as_str() {
            "answered" => Outcome::Answered(answer?),
            "refused" => Outcome::Refused(Refusal::Detail(answer?)),
            "content" => Outcome::Refused(Refusal::Content {
                code: text(self.code?),
                message,
            }),
            "policy" => Outcome::Policy {
                message,
                detail: None,
            },
            "policy_detail" => Outcome::Policy {
                message,
                detail: Some(answer?),
            },
            "failed" => Outcome::Failed {
                bucket: self.bucket?,
                message,
            },
            _ => return None,
        })
    }
}

/// A column that may name a bucket.
pub(super) fn bucket(name: Option<&str>) -> Result<Option<Bucket>, DatabaseError> {
    let named = |name: &str| Bucket::named(name).ok_or_else(|| unreadable(UnknownBucket));
    name.map(named).transpose()
}

//! How the outcome of a generation and the API key of a call stand in columns; the bytes of an outcome lie elsewhere.

use ::accounts::KeyId;
use bytes::Bytes;
use router_core::{Answer, Bucket, Ending, Outcome, Refusal};
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};

use super::replays::{ReplaySum, SegmentSlice};
use crate::columns::{parse, unreadable};

/// The outcome of what never ran.
pub(super) const RELEASED: &str = "released";

/// Where the bytes of an outcome are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Replay {
    /// There are none.
    NoBody,
    /// In the file of the generation.
    InFile,
    /// Nowhere: there was no key, or there were too many of them.
    NotKept,
    /// With others, at the place that the row names.
    Shared,
}

/// The columns of an outcome.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OutcomeColumns<'a> {
    pub(super) outcome: &'a str,
    pub(super) bucket: Option<&'a str>,
    pub(super) code: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
}

/// An outcome as its row tells it.
#[derive(Debug)]
pub(super) struct StoredOutcome {
    outcome: String,
    bucket: Option<Bucket>,
    code: Option<String>,
    message: Option<String>,
    content_type: Option<String>,
    pub(super) replay: Replay,
    /// Where a shared one lies.
    pub(super) place: Option<SegmentSlice>,
    /// What its bytes sum up to.
    pub(super) sum: Option<ReplaySum>,
}

/// A column that names no bucket.
#[derive(Debug, thiserror::Error)]
#[error("there is no bucket of this name")]
struct UnknownBucket;

impl<'a> OutcomeColumns<'a> {
    pub(super) fn of(ending: &'a Ending) -> Self {
        let plain = |outcome| Self {
            outcome,
            bucket: None,
            code: None,
            message: None,
            content_type: None,
        };
        let outcome = match ending {
            Ending::Released(bucket) => {
                return Self {
                    bucket: Some(bucket.name()),
                    ..plain(RELEASED)
                };
            }
            Ending::Kept { outcome, .. } => outcome,
        };
        let columns = match outcome {
            Outcome::Answered(_) => plain("answered"),
            Outcome::Refused(Refusal::Detail(_)) => plain("refused"),
            Outcome::Refused(Refusal::Content { code, message }) => Self {
                code: Some(code),
                message: Some(message),
                ..plain("content")
            },
            Outcome::Policy { message, detail } => Self {
                message: Some(message),
                ..plain(if detail.is_some() {
                    "policy_detail"
                } else {
                    "policy"
                })
            },
            Outcome::Failed { message, .. } => Self {
                message: Some(message),
                ..plain("failed")
            },
        };
        Self {
            bucket: outcome.bucket().map(Bucket::name),
            content_type: outcome.answer().map(|answer| answer.content_type.as_str()),
            ..columns
        }
    }
}

impl StoredOutcome {
    /// Reads the columns of a row; `None` while the generation runs.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let Some(outcome) = row.get("outcome")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            outcome,
            bucket: bucket(row.get("bucket")?)?,
            code: row.get("code")?,
            message: row.get("message")?,
            content_type: row.get("content_type")?,
            replay: row.get("replay")?,
            place: place(row)?,
            sum: row.get("replay_hash")?,
        }))
    }

    /// Whether there is an outcome to tell, which a generation that never ran has not.
    pub(super) fn is_told(&self) -> bool {
        self.outcome != RELEASED
    }

    /// The outcome with its bytes; `None` if the row is of no kind that this program writes for a key.
    pub(super) fn with_body(self, body: Bytes) -> Option<Outcome> {
        let message = self.message.unwrap_or_default();
        let answer = self
            .content_type
            .map(|content_type| Answer { content_type, body });
        Some(match self.outcome.as_str() {
            "answered" => Outcome::Answered(answer?),
            "refused" => Outcome::Refused(Refusal::Detail(answer?)),
            "content" => Outcome::Refused(Refusal::Content {
                code: self.code?,
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

fn place(row: &Row<'_>) -> rusqlite::Result<Option<SegmentSlice>> {
    let Some(hour) = row.get("replay_hour")? else {
        return Ok(None);
    };
    Ok(Some(SegmentSlice {
        hour,
        offset: row.get("replay_offset")?,
        length: row.get("replay_length")?,
    }))
}

/// The API key of a call, or of the call that began a generation.
pub(super) fn api_key(row: &Row<'_>) -> rusqlite::Result<Option<KeyId>> {
    let key: Option<String> = row.get("api_key")?;
    key.map(|key| parse(&key)).transpose()
}

/// A column that may name a bucket.
pub(super) fn bucket(name: Option<String>) -> rusqlite::Result<Option<Bucket>> {
    let named = |name: String| Bucket::named(&name).ok_or_else(|| unreadable(UnknownBucket));
    name.map(named).transpose()
}

impl ToSql for Replay {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::NoBody => 0,
            Self::InFile => 1,
            Self::NotKept => 2,
            Self::Shared => 3,
        }
        .into())
    }
}

impl FromSql for Replay {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self::NoBody),
            1 => Ok(Self::InFile),
            2 => Ok(Self::NotKept),
            3 => Ok(Self::Shared),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

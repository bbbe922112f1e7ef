//! What a generation ends with, in the form that answers its caller, is kept for its key, and is told again.

use bytes::Bytes;

use crate::Bucket;

/// Most bytes of a result that are kept for its key. A larger one is told once.
pub const REPLAY_CAP_BYTES: usize = 8 << 20;

/// Bytes of a partner, never touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The partner's `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// How a provider rejected the content of a request: a 422.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The provider's own body, which holds a `detail` array; it passes as it is.
    Detail(Answer),
    /// Another provider's content error, to be told as one entry at `["body"]`.
    Content {
        /// The provider's code, the `type` of the entry.
        code: String,
        /// The provider's text, at most 2 KiB, the `msg` of the entry.
        message: String,
    },
}

/// How a generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result: a 200.
    Answered(Answer),
    /// The content was rejected: a 422 `invalid_input`.
    Refused(Refusal),
    /// The provider's policy forbids it: a 400, or a 422 where the provider itself sent a `detail` array.
    Policy {
        /// Safe to show to end users.
        message: String,
        /// The provider's own body, where it holds a `detail` array.
        detail: Option<Answer>,
    },
    /// It failed.
    Failed {
        /// How.
        bucket: Bucket,
        /// Safe to show to end users.
        message: String,
    },
}

impl Outcome {
    /// The bucket of an error; `None` for a result.
    #[must_use]
    pub fn bucket(&self) -> Option<Bucket> {
        match self {
            Self::Answered(_) => None,
            Self::Refused(_) => Some(Bucket::InvalidInput),
            Self::Policy { .. } => Some(Bucket::ContentPolicyViolation),
            Self::Failed { bucket, .. } => Some(*bucket),
        }
    }

    /// The bytes of the partner that it holds, if any.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answered(answer) | Self::Refused(Refusal::Detail(answer)) => Some(answer),
            Self::Policy { detail, .. } => detail.as_ref(),
            Self::Refused(Refusal::Content { .. }) | Self::Failed { .. } => None,
        }
    }

    /// How many bytes of the partner are to be kept if it is to be told again.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.answer().map_or(0, |answer| answer.body.len())
    }
}

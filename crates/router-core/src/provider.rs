//! The port to what runs a model: a partner behind HTTP, or workflows of our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use bytes::Bytes;
use jiff::civil::Date;
use serde_json::Value;

use crate::{
    Answer, AnswerSink, Charge, GenerationId, ModelId, Price, PricedMember, Refusal, Term,
    Violation,
};

/// Most bytes a handle may have: it is a column of a row.
pub const MAX_HANDLE_BYTES: usize = 16 * 1024;

/// What is submitted.
#[derive(Debug)]
pub struct Submission {
    /// The work. The same for every attempt, so it serves as the idempotency key towards the partner.
    pub generation: GenerationId,
    /// Whose call it is.
    pub account: AccountId,
    /// The model.
    pub model: ModelId,
    /// The body, byte for byte as it was received. To be dropped as soon as it is sent.
    pub body: Bytes,
    /// To be told once the whole request has been written to a partner whose answer is the result, and of each answer.
    pub contact: Contact,
    /// Where the answer goes if it comes as a stream; `None` unless the body asks for that, as [`Provider::streams`] says.
    pub stream: Option<AnswerSink>,
}

/// Remembers of a partner that is asked about one piece of work: whether the whole request has been written to one that answers
/// with the result, which has accepted the work then (one that answers with a task has accepted it once the task has a name),
/// and with which status it answered last.
#[derive(Clone, Debug, Default)]
pub struct Contact(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    is_written: AtomicBool,
    /// 0 while there was no answer.
    status: AtomicU16,
}

/// What names the work at the partner: opaque, durable, good after a restart. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle(pub Bytes);

/// How a submission went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The result is here.
    Done(Done),
    /// The partner works on it.
    Accepted {
        /// To collect it with.
        handle: Handle,
        /// The partner's own name of the work, for people and rows.
        task_id: Option<String>,
        /// When to ask first, and how often then: the polling interval.
        poll_after: Duration,
    },
}

/// How the work stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collected {
    /// Not over; also when the partner could not be asked or said something unknown.
    Pending {
        /// When to ask again.
        poll_after: Duration,
    },
    /// The result is here.
    Done(Done),
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The model's own output.
    pub answer: Answer,
    /// What it costs.
    pub charge: Charge,
    /// The partner's own name of the work, if it told one.
    pub task_id: Option<String>,
}

/// Whether work may have run at the partner; what says more of it is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ran {
    /// Provably not: never connected, or turned away before any work.
    Nothing,
    /// It ran, has failed for good, and costs nothing: the partner's own documentation says so of this failure.
    InVain,
    /// It may have, or it did.
    Perhaps,
}

/// How the work ended otherwise than with a result. Every `message` is safe to show to end users: no address, no
/// credential, nothing of the partner's internals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The partner rejected the content with its own 400 or 422.
    Refused {
        /// As it is told.
        refusal: Refusal,
        /// What it costs all the same.
        charge: Charge,
    },
    /// The partner's policy forbids it.
    Policy {
        /// The reason.
        message: String,
        /// The partner's own body, where it holds a `detail` array.
        detail: Option<Answer>,
        /// What it costs all the same.
        charge: Charge,
    },
    /// The partner failed, its answer cannot be interpreted, or its outcome is unknown.
    Failed {
        /// With [`Ran::Perhaps`] the key is consumed.
        ran: Ran,
        /// What happened.
        message: String,
    },
    /// The partner did not answer in time.
    TimedOut {
        /// With [`Ran::Perhaps`] the key is consumed.
        ran: Ran,
        /// What happened.
        message: String,
    },
    /// Our own account at the partner is in trouble (401, 402, 403, quota): never the caller's fault.
    Account {
        /// With [`Ran::Perhaps`] the key is consumed.
        ran: Ran,
        /// What may be said of it.
        message: String,
    },
    /// The partner cannot be reached or is busy, and nothing ran; a later call may go well.
    Transient {
        /// What happened.
        message: String,
    },
    /// It failed after a part of its stream was passed on: whatever the cause says, work ran.
    InStream {
        /// What happened.
        cause: Box<Self>,
        /// What it costs all the same.
        charge: Charge,
    },
}

/// Runs one model.
///
/// **Contract.** `submit` of a model is called at most once for a generation, by anyone, ever, and of another model that serves
/// the generation only after this one provably came to nothing: what it cannot prove not to have run it reports as
/// [`Ran::Perhaps`]. It may try again by itself as long as nothing ran. The body is forwarded as it is and
/// dropped before the answer is awaited; the answer is returned as it is. An answer that comes as a stream goes into
/// [`Submission::stream`] piece by piece; `submit` returns when the stream has ended, with what the sink makes of it, and every
/// failure after its first byte is a [`Failure::InStream`]. A handle holds all that `collect` and `cancel`
/// need, at most [`MAX_HANDLE_BYTES`]; `collect` may be repeated at any time and changes nothing at the partner. Trouble
/// while asking is [`Collected::Pending`]; an error of `collect` is the end of the work. Every wait is bounded. Credentials
/// are in no handle, message or log. Dropping a future stops the waiting, not the work.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Hands the work to the partner.
    async fn submit(&self, submission: Submission) -> Result<Submitted, Failure>;

    /// Asks how the work stands.
    async fn collect(&self, handle: &Handle, contact: &Contact) -> Result<Collected, Failure>;

    /// Asks the partner to stop; a best effort.
    async fn cancel(&self, handle: &Handle);

    /// What keeps a body from being sent at all, though it keeps to the model's schema; nothing if it can be sent. Each body is
    /// asked after before it is submitted, in the form in which it would be. The caller is refused then, and nothing has run.
    fn refuses(&self, _body: &[u8]) -> Vec<Violation> {
        Vec::new()
    }

    /// What a call with this body would cost. Any JSON has a price, also one that the model would reject.
    fn price(&self, body: &Value) -> Price;

    /// The calculation behind [`Provider::price`], in whole cents: for those who show a price before there is a body. `None` where
    /// no member of the body has a say.
    fn priced_by(&self) -> Option<Term<Arc<dyn PricedMember>>> {
        None
    }

    /// Whether a body asks for an answer that comes as a stream, and the model gives such answers.
    fn streams(&self, _body: &Value) -> bool {
        false
    }

    /// Of which day the partner's prices are, if anybody knows.
    fn priced_as_of(&self) -> Option<Date> {
        None
    }
}

impl Ran {
    /// Whether nothing is left of the work that could still come to a result or a bill.
    #[must_use]
    pub fn is_proven(self) -> bool {
        match self {
            Self::Nothing | Self::InVain => true,
            Self::Perhaps => false,
        }
    }
}

impl Contact {
    /// The whole request is out.
    pub fn written(&self) {
        self.0.is_written.store(true, Ordering::Release);
    }

    /// Whether it is.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.0.is_written.load(Ordering::Acquire)
    }

    /// The partner has answered with this status.
    pub fn answered(&self, status: u16) {
        self.0.status.store(status, Ordering::Release);
    }

    /// The status of its last answer, if it gave one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let status = self.0.status.load(Ordering::Acquire);
        (status > 0).then_some(status)
    }

    /// Another partner is asked now, which knows nothing yet.
    pub(crate) fn forget(&self) {
        self.0.is_written.store(false, Ordering::Release);
        self.0.status.store(0, Ordering::Release);
    }
}

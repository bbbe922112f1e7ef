//! The port to requests that wait to be dispatched, and the order in which they are.
//!
//! A queued request is a call that nobody waits for. Its row and its body are durable before its caller has its id. It becomes a
//! generation with that id when its account has room, and from then on it is what every generation with a key is.

mod turns;

use accounts::{AccountId, Fingerprint, KeyId, Labels};
use async_trait::async_trait;
use bytes::Bytes;
use foldhash::HashSet;
use jiff::Timestamp;

use crate::{Bucket, CallsError, GenerationId, KeyDigest, ModelId, Outcome};

pub use turns::{Turns, WaitingCall};

/// A request that is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedCall {
    /// Its id: that of the HTTP request that submitted it, and later of its generation.
    pub id: GenerationId,
    /// Who pays.
    pub account: AccountId,
    /// The model.
    pub model: ModelId,
    /// The query of the submission, as it was sent.
    pub query: String,
    /// Its labels.
    pub labels: Labels,
    /// The API key that submitted it, whose budgets it counts against.
    pub api_key: Option<KeyId>,
    /// Its idempotency key. A request that was submitted without one has [`KeyDigest::of_request`].
    pub key: KeyDigest,
    /// When it came.
    pub received_at: Timestamp,
    /// When its result is forgotten.
    pub expires_at: Timestamp,
    /// The body, byte for byte.
    pub body: Bytes,
}

/// How many requests may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Of one account.
    pub of_account: usize,
    /// Of all accounts together.
    pub of_all: usize,
}

/// What came of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is on disk and waits.
    Waits,
    /// Its key stands for this request, which was submitted before.
    Known(GenerationId),
    /// Its key stands for another request.
    Conflict,
    /// As many requests of the account wait as may; nothing was written.
    Full {
        /// How many may.
        limit: usize,
    },
}

/// A submitted request, as far as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRequest {
    /// Its id.
    pub id: GenerationId,
    /// The model.
    pub model: ModelId,
    /// When it came.
    pub received_at: Timestamp,
    /// When its result is forgotten.
    pub expires_at: Timestamp,
    /// Whether it was submitted with a query, which may name its providers.
    pub has_query: bool,
    /// How far it is.
    pub state: QueueState,
}

/// How far a submitted request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// It waits.
    Waiting {
        /// How many requests are dispatched before it if every account has room.
        ahead: usize,
    },
    /// It is being dispatched, or runs.
    Running,
    /// It is over: with a result, or with this failure.
    Over(Option<QueueFailure>),
}

/// Why a submitted request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueFailure {
    /// Its caller cancelled it.
    Cancelled,
    /// It waited too long, and was not dispatched.
    WaitedTooLong,
    /// It was not dispatched for this reason.
    NotDispatched {
        /// As it is told.
        bucket: Bucket,
        /// Safe to show to end users.
        message: String,
    },
    /// Its generation ended with this bucket; [`CallQueue::outcome`] tells the rest.
    Failed(Bucket),
}

/// What came of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited, and will not be dispatched.
    Withdrawn,
    /// It is being dispatched or runs; the wish is noted.
    Noted,
    /// It was over.
    TooLate,
}

/// Requests that wait to be dispatched.
///
/// **Contract.** Every method but `first` and `waiting` is one transaction, which runs to its end even if the caller stops
/// waiting. What `enqueue`, `cancel` and `end` did is on disk when they return. A key of a request is taken from `enqueue` on, in
/// the key space of [`Calls`](crate::Calls); it is free once the request ended without having been dispatched, unless it was
/// cancelled. A request is dispatched by [`Admissions::admit`](crate::Admissions::admit) with its key, and from then on its state is
/// that of its generation, whose result is kept whatever its size. What waited when the process ended waits again, in its place.
///
/// The order is that of [`Turns`]: accounts take turns, and the requests of one account are dispatched as they came.
#[async_trait]
pub trait CallQueue: Send + Sync + 'static {
    /// What the key of a submission stands for; `None` if it is free.
    async fn known(
        &self,
        account: &AccountId,
        key: KeyDigest,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Enqueued>, CallsError>;

    /// Takes a request in, with its key; `fingerprint` is of method, path, query and body of its submission.
    async fn enqueue(
        &self,
        call: QueuedCall,
        fingerprint: Fingerprint,
        bounds: QueueBounds,
        now: Timestamp,
    ) -> Result<Enqueued, CallsError>;

    /// A request of an account.
    async fn find(
        &self,
        account: &AccountId,
        id: GenerationId,
    ) -> Result<Option<QueuedRequest>, CallsError>;

    /// At most `limit` requests of an account for a model, newest first: those that were submitted before `before`, if that is
    /// given. `None` if `before` is no request of this account for this model, or is forgotten.
    async fn list(
        &self,
        account: &AccountId,
        model: &ModelId,
        before: Option<GenerationId>,
        limit: usize,
    ) -> Result<Option<Vec<QueuedRequest>>, CallsError>;

    /// How the generation of a request ended; `None` if it did not, or its bytes are not there any more.
    async fn outcome(&self, id: GenerationId) -> Result<Option<Outcome>, CallsError>;

    /// Cancels a request of an account: one that waits is over then. `None` if there is none.
    async fn cancel(
        &self,
        account: &AccountId,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<Cancelled>, CallsError>;

    /// The next in turn among those whose accounts are not `blocked`. It stays where it is.
    fn first(&self, blocked: &HashSet<AccountId>) -> Option<WaitingCall>;

    /// Takes a request out of the order to dispatch it, with its body; `None` if it does not wait any more. One whose
    /// cancellation was noted ends here.
    async fn take(
        &self,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<QueuedCall>, CallsError>;

    /// Gives a request that was taken its place back, since there was no room for it.
    fn put_back(&self, waiting: WaitingCall);

    /// A request that was taken is dispatched: its body may go.
    async fn dispatched(&self, id: GenerationId) -> Result<(), CallsError>;

    /// Ends a request that waits or was taken, and was not dispatched.
    async fn end(
        &self,
        id: GenerationId,
        failure: QueueFailure,
        now: Timestamp,
    ) -> Result<(), CallsError>;

    /// At most `limit` requests that wait and were received before a time.
    fn overdue(&self, received_before: Timestamp, limit: usize) -> Vec<GenerationId>;

    /// How many requests wait.
    fn waiting(&self) -> usize;
}

impl KeyDigest {
    /// The key of a request that was submitted without one: nobody else's.
    #[must_use]
    pub fn of_request(id: GenerationId) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("easel queued request v1");
        hasher.update(id.0.as_bytes());
        Self(hasher.finalize().into())
    }
}

impl QueueFailure {
    /// The bucket that a record and the first dialect of the API have for it.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        match self {
            Self::Cancelled => Bucket::InvalidInput,
            Self::WaitedTooLong => Bucket::DeadlineExceeded,
            Self::NotDispatched { bucket, .. } | Self::Failed(bucket) => *bucket,
        }
    }
}

impl QueuedRequest {
    /// Whether its result is forgotten.
    #[must_use]
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        self.expires_at <= now && matches!(self.state, QueueState::Over(_))
    }
}

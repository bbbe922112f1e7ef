//! What was called and what it cost: the record of a call and the port that reads it.

use accounts::{AccountId, KeyId, Labels};
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use jiff::Timestamp;

use crate::{Bucket, CallsError, GenerationId, KeyDigest, ModelId, RequestId, Serving, Unfinished};

/// One HTTP request to run a model, replays and pick-ups included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The request, as its answer names it.
    pub request: RequestId,
    /// Whose.
    pub account: AccountId,
    /// The model it asked for; `None` if the path named none.
    pub model: Option<ModelId>,
    /// Its idempotency key.
    pub key: Option<KeyDigest>,
    /// The generation that it began, picked up or replayed.
    pub generation: Option<GenerationId>,
    /// The API key that it came with; `None` of a token, and of calls that an older program wrote down.
    pub api_key: Option<KeyId>,
    /// Its labels: those of this request, whatever the generation was begun with.
    pub labels: Labels,
    /// The bucket of its error; `None` for a result.
    pub bucket: Option<Bucket>,
    /// Whether its answer was a stored one.
    pub replayed: bool,
    /// When it came.
    pub received_at: Timestamp,
    /// When its answer was there.
    pub answered_at: Timestamp,
    /// Whether the caller got the whole answer.
    pub delivered: bool,
}

/// What is known of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationUsage {
    /// The partner's own name of the work.
    pub task_id: Option<String>,
    /// When it was dispatched.
    pub dispatched_at: Timestamp,
    /// When the partner accepted it.
    pub accepted_at: Option<Timestamp>,
    /// When it ended.
    pub settled_at: Option<Timestamp>,
    /// The bucket of its error; `None` for a result, and while it runs.
    pub bucket: Option<Bucket>,
    /// What was held for it.
    pub hold_cents: u64,
    /// What was billed; `None` while it runs.
    pub charge_cents: Option<u64>,
    /// Who serves it and who failed to before, if its call named its providers.
    pub serving: Option<Box<Serving>>,
}

/// A call with its generation. Several calls may name one generation, which is billed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The call.
    pub call: CallRecord,
    /// Its generation, if it had one.
    pub generation: Option<GenerationUsage>,
    /// Whether the call is on record. A crash loses the record of a call that was not answered, and never a generation: what
    /// stands for such a call is made of its generation.
    pub is_recorded: bool,
}

impl UsageRow {
    /// Whether the call began its generation: then, and then alone, the bill of the generation is this call's.
    #[must_use]
    pub fn began(&self) -> bool {
        self.call.generation == Some(GenerationId::from(self.call.request))
    }

    /// What stands for the call that began a generation, where that call is not on record.
    #[must_use]
    pub fn of_generation(
        id: GenerationId,
        account: AccountId,
        model: ModelId,
        (received_at, api_key, labels): (Timestamp, Option<KeyId>, Labels),
        generation: GenerationUsage,
    ) -> Self {
        let call = CallRecord {
            request: RequestId(id.0),
            account,
            model: Some(model),
            key: None,
            generation: Some(id),
            api_key,
            labels,
            bucket: generation.bucket,
            replayed: false,
            received_at,
            answered_at: generation.settled_at.unwrap_or(received_at),
            delivered: false,
        };
        Self {
            call,
            generation: Some(generation),
            is_recorded: false,
        }
    }
}

/// A position in a page of calls: behind this one, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageCursor {
    /// When the last call of the page came.
    pub received_at: Timestamp,
    /// Which it was.
    pub request: RequestId,
}

/// Which calls are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Whose; `None` for all.
    pub account: Option<AccountId>,
    /// Received at this time or later.
    pub from: Option<Timestamp>,
    /// Received before this time.
    pub until: Option<Timestamp>,
}

/// What totals tell apart besides accounts and models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown<'a> {
    /// API keys.
    pub by_key: bool,
    /// The values of the label with this key.
    pub label: Option<&'a str>,
}

/// What one account used of one model, with one API key and under one value of a label where they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTotal {
    /// Whose.
    pub account: AccountId,
    /// The model.
    pub model: ModelId,
    /// The API key, if they are asked for; `None` for calls without one.
    pub api_key: Option<KeyId>,
    /// The value of the label that is asked for; `None` without one.
    pub label: Option<String>,
    /// HTTP requests.
    pub calls: u64,
    /// Those among them that ended with a result. A submission to the queue does when its generation has, replays of it too.
    pub succeeded: u64,
    /// Generations that they began.
    pub generations: u64,
    /// What these were billed.
    pub charge_cents: u64,
}

/// The read side of what [`Calls`](crate::Calls) writes down.
///
/// **Contract.** Reads what was recorded; a call shows up once it is answered. Times are those at which calls came. A generation
/// that has ended counts once in `totals` and in `export`, with the call that began it or, where that is not on record, by
/// itself: so both agree with what was billed, whenever the process ended.
#[async_trait]
pub trait Usage: Send + Sync + 'static {
    /// At most `limit` calls, newest first (by `received_at`, then id).
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError>;

    /// One line for each account and model, by account, then model. A generation counts, with its bill, for the call that
    /// began it; replays and pick-ups add nothing. What is to be told apart has a line for each API key and for each value of the
    /// label, in their order, behind those of calls which have none.
    async fn totals(
        &self,
        query: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError>;

    /// Every call, oldest first, then what stands for calls that are not on record, by generation; read in bounded pieces while
    /// the stream is polled.
    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>>;

    /// The call of a request, if it came in this span, with its generation. Where it is not on record, what stands for the
    /// generation that it began, whether that runs or has ended.
    async fn find(
        &self,
        request: RequestId,
        came: (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError>;

    /// What runs now: every generation that was dispatched and has not ended, oldest first.
    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError>;
}

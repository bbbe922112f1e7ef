//! The port to the rows that make a call pay once: keys and generations.

use std::time::Duration;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::usage::CallRecord;
use crate::{Bucket, GenerationId, Handle, ModelId, Outcome};

/// Digest of an idempotency key: the only form in which it is ever at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub [u8; 32]);

/// A key and what the request with it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyClaim {
    /// The key's scope.
    pub account: AccountId,
    /// The key.
    pub key: KeyDigest,
    /// Method, path, query and body of the request.
    pub fingerprint: Fingerprint,
    /// What the claim starts if the key is free.
    pub generation: GenerationId,
    /// When a key that is claimed now is forgotten; a later claim does not extend it.
    pub expires_at: Timestamp,
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It was free, and is now this claim's.
    Fresh,
    /// Another request has it and has not been dispatched yet.
    InFlight,
    /// This generation has it and runs: a retry may wait for it.
    PickUp(GenerationId),
    /// This generation had it and is settled: its outcome answers again. A failure among them is a consumed key.
    Replay(GenerationId, Outcome),
    /// This generation had it, and its result was too large to be kept.
    NotReplayable(GenerationId),
    /// It stands for another request.
    Conflict,
}

/// A piece of work that is about to be dispatched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its id.
    pub id: GenerationId,
    /// Who pays.
    pub account: AccountId,
    /// The model.
    pub model: ModelId,
    /// What is held of the account's credits and committed spend until it is settled.
    pub hold_cents: u64,
    /// When the call that begins it came: its record is found by this and the id.
    pub received_at: Timestamp,
    /// When it is dispatched.
    pub dispatched_at: Timestamp,
}

/// How a generation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing ran. Its key is free, nothing is billed; its row, if it was dispatched, tells why.
    Released(Bucket),
    /// It ran, or may have. Its outcome answers its key until that expires.
    Kept {
        /// How it ended.
        outcome: Outcome,
        /// What is billed.
        charge_cents: u64,
    },
}

/// Whether an ending counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It did.
    Now,
    /// The generation had ended before, or is unknown; nothing changed.
    Before,
}

/// A generation that was dispatched and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// What was dispatched.
    pub generation: Generation,
    /// What the partner accepted; `None` if its acceptance was never recorded.
    pub accepted: Option<Acceptance>,
}

/// Work that a partner accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// What to collect it with.
    pub handle: Handle,
    /// When to ask first.
    pub poll_after: Duration,
    /// When it was accepted.
    pub at: Timestamp,
}

/// The rows cannot be read or written now.
#[derive(Debug, thiserror::Error)]
pub enum CallsError {
    /// Too much is waiting to be written.
    #[error("the record of calls is overloaded")]
    Busy,
    /// No room is left; it heals by itself when there is room again.
    #[error("the record of calls is full")]
    Full(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Reading or writing failed.
    #[error("the record of calls is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Keys, generations and calls.
///
/// **Contract.** Every method but `record` is one transaction, and runs to its end even if the caller stops waiting. `dispatch`
/// and `accepted` are on disk when they return, and so is `settle` of a generation with a key; without one, no crash of the
/// process undoes it, and a power cut within a moment leaves a generation whose outcome is unknown. A claim or a record may be
/// lost by a crash, and a lost claim was never dispatched. `settle` bills the account with what ends the generation, and ends the
/// hold on its credits, so that bills and rows never disagree and nothing is billed twice. A key past its expiry is absent,
/// unless its generation still runs. Claims that were not dispatched are void when the store is opened again.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Takes a key if it is free, or tells what it stands for.
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError>;

    /// Writes down that a generation is about to be dispatched, once for its id. The key claimed for it, if any, is its from now on.
    async fn dispatch(&self, generation: Generation) -> Result<(), CallsError>;

    /// Writes down that the partner works on it: how to collect it, the polling interval, and the partner's name of it.
    async fn accepted(
        &self,
        generation: GenerationId,
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError>;

    /// Ends a generation of an account, once; later endings change nothing. An ending of what was claimed and never dispatched only
    /// frees the key. A body over the replay cap is not kept, and its key answers [`Claimed::NotReplayable`].
    async fn settle(
        &self,
        generation: GenerationId,
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError>;

    /// Hands in the record of one HTTP request, once its answer is delivered or given up: it is written soon. Repeating it
    /// changes nothing.
    fn record(&self, call: CallRecord);

    /// Every generation that was dispatched and has not ended, oldest first: to be asked once, at start.
    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError>;

    /// Forgets at most `limit` of each: keys that expired with what they replay, and generations and calls settled before
    /// `keep_from`. Answers how many rows went.
    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError>;
}

//! The port to the rows that make a call pay once: keys and generations.

use std::time::Duration;

use accounts::{AccountId, Fingerprint, KeyId, Labels, lapses_at};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::usage::CallRecord;
use crate::{
    Bucket, GenerationId, Handle, Lease, ModelId, Outcome, OwnerId, Permit, ResultLink,
    RouterError, Serving,
};

/// When to ask again for a key whose call has not been dispatched yet.
pub(crate) const IN_FLIGHT_RETRY: Duration = Duration::from_secs(1);

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
    /// How long the claim stands if the generation is not dispatched: after that the next claim takes the key.
    pub lasts: Duration,
}

/// A key that was claimed before, as a store remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The request that claimed it.
    pub fingerprint: Fingerprint,
    /// When it is forgotten.
    pub expires_at: Timestamp,
    /// How far its generation is.
    pub stage: KeyStage,
}

/// How far the generation of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStage {
    /// It was not dispatched yet, and the claim stands until then.
    Claimed {
        /// [`KeyClaim::stands_until`] of the claim.
        until: Timestamp,
    },
    /// It runs.
    Running,
    /// It has ended.
    Ended,
}

/// What a known key tells a request that claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTells {
    /// The claim takes it.
    Free,
    /// It stands for another request.
    Conflict,
    /// It stands for this request; its stage tells the rest.
    Same,
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

/// Whether a generation was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatched {
    /// It is on disk and its owner's.
    Begun,
    /// The claim of its key lapsed and another request has the key; nothing was written.
    ClaimLost,
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
    /// The API key of the call that begins it.
    pub api_key: Option<KeyId>,
    /// The labels of the call that begins it.
    pub labels: Labels,
    /// Who serves it, if its call names its providers. On the heap, since most do not.
    pub serving: Option<Box<Serving>>,
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
        /// The results that are to be kept: with the end they are written down to be fetched.
        results: Vec<ResultLink>,
    },
}

/// Whether an ending counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It did.
    Now,
    /// It did not, and nothing changed: another process owns the generation, or it had ended before, or is unknown.
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

impl KeyClaim {
    /// Until when the claim stands if its generation is not dispatched.
    #[must_use]
    pub fn stands_until(&self, now: Timestamp) -> Timestamp {
        lapses_at(now, self.lasts)
    }
}

impl KnownKey {
    /// What it tells a request: the rule of every store. A key is free again once it expired, unless its generation runs, and
    /// once the claim lapsed, unless its generation was dispatched.
    #[must_use]
    pub fn tells(&self, fingerprint: &Fingerprint, now: Timestamp) -> KeyTells {
        let is_free = match self.stage {
            KeyStage::Claimed { until } => until <= now || self.expires_at <= now,
            KeyStage::Running => false,
            KeyStage::Ended => self.expires_at <= now,
        };
        if is_free {
            KeyTells::Free
        } else if self.fingerprint == *fingerprint {
            KeyTells::Same
        } else {
            KeyTells::Conflict
        }
    }
}

impl Generation {
    /// The room that it takes.
    #[must_use]
    pub fn permit(&self) -> Permit<'_> {
        Permit {
            account: &self.account,
            generation: self.id,
            hold_cents: self.hold_cents,
        }
    }

    /// The credits that are held for it.
    #[must_use]
    pub fn hold(&self) -> u32 {
        u32::try_from(self.hold_cents).unwrap_or(u32::MAX)
    }
}

impl Dispatched {
    /// The answer for the caller.
    ///
    /// # Errors
    /// If a retry has the key now, since preparing took so long.
    pub fn into_result(self) -> Result<(), RouterError> {
        match self {
            Self::Begun => Ok(()),
            Self::ClaimLost => Err(RouterError::InFlight {
                retry_after: IN_FLIGHT_RETRY,
            }),
        }
    }
}

impl Ending {
    /// The bucket of the row; `None` for a result.
    #[must_use]
    pub fn bucket(&self) -> Option<Bucket> {
        match self {
            Self::Released(bucket) => Some(*bucket),
            Self::Kept { outcome, .. } => outcome.bucket(),
        }
    }

    /// What is billed.
    #[must_use]
    pub fn charge_cents(&self) -> u64 {
        match self {
            Self::Released(_) => 0,
            Self::Kept { charge_cents, .. } => *charge_cents,
        }
    }

    /// What is to be kept of its result.
    #[must_use]
    pub fn results(&self) -> &[ResultLink] {
        match self {
            Self::Released(_) => &[],
            Self::Kept { results, .. } => results,
        }
    }

    /// Whether it frees the key of a generation. `was_dispatched` tells whether there is a row of it, `counts` whether this
    /// ending is the one that ended it.
    #[must_use]
    pub fn frees_key(&self, was_dispatched: bool, counts: bool) -> bool {
        match (counts, self) {
            (true, Self::Released(_)) => true,
            (true, Self::Kept { .. }) => false,
            // An ending of what was never dispatched gives the claim back.
            (false, _) => !was_dispatched,
        }
    }
}

/// Keys, generations and calls.
///
/// **Contract.** It holds for any number of processes over one store. Every method but `record` is one transaction, and runs to
/// its end even if the caller stops waiting. `accepted` is on disk when it returns, and so is `settle` of a
/// generation with a key or with results to keep; otherwise no crash of the process undoes it, and a power cut within a moment leaves a generation
/// whose outcome is unknown. A claim or a record may be lost by a crash, and a lost claim was never dispatched.
///
/// A generation runs from [`Admissions::admit`](crate::Admissions::admit) on, and has one owner, under a lease. Only its owner notes its acceptance and settles it.
/// Once the lease lapsed `take_over` hands it to one process and to no other; until then the owner may renew it, and after that
/// the owner before changes nothing any more. A store that knows an owner to be gone answers its generations as lapsed at once:
/// if one process at a time can have the store, those of the process before. A lease need not outlive the process that holds it.
///
/// `settle` bills the account with what ends the generation, and ends the hold on its credits, so that bills and rows never
/// disagree and nothing is billed twice. After an error nothing was settled, or the store does not know whether it was: then the
/// owner's next `settle` answers [`Settled::Now`] once the end is on disk, and no ending but the first one counts. A key past its
/// expiry is absent, unless its generation still runs. What a known key answers is [`KnownKey::tells`]; claims that were not
/// dispatched may be void when the store is opened again.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Takes a key if it is free, or tells what it stands for.
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError>;

    /// Writes down that the partner works on it: how to collect it, the polling interval, and the partner's name of it. By
    /// another than the owner it changes nothing.
    async fn accepted(
        &self,
        of: (GenerationId, OwnerId),
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError>;

    /// Writes down who serves a generation from now on, that runs and whose call names its providers: the attempts before have
    /// provably failed. It is on disk when this returns. By another than the owner it changes nothing, which is
    /// [`Settled::Before`].
    async fn serve(
        &self,
        of: (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError>;

    /// Who serves a generation, or served it, if its call named its providers.
    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError>;

    /// Ends a generation of an account, once, for its owner; other endings change nothing. An ending of what was claimed and
    /// never dispatched only frees the key. A body over the replay cap is not kept, and its key answers
    /// [`Claimed::NotReplayable`].
    async fn settle(
        &self,
        of: (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError>;

    /// Hands in the record of one HTTP request, once its answer is delivered or given up: it is written soon. Repeating it
    /// changes nothing.
    fn record(&self, call: CallRecord);

    /// Renews the leases of generations. Answers those that the owner does not own: another process took them over, or they
    /// have ended.
    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError>;

    /// Takes over at most `limit` generations whose leases have lapsed, those dispatched first before others: they are the
    /// owner's from now on.
    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError>;
}

/// Forgets what is past its time.
///
/// **Contract.** One transaction for each call; any number of processes may do it at the same time.
#[async_trait]
pub trait CallRetention: Send + Sync + 'static {
    /// Forgets at most `limit` of each: keys that expired with what they replay, and generations, calls and kept results
    /// settled before `keep_from`. Answers how many rows went.
    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError>;
}

//! Keys, generations and calls: what makes a call of a partner's model pay once.
//!
//! What arrives together is one transaction. Dispatches, acceptances and ends are on the disk when they are answered; claims,
//! renewals and records of calls do not wait for it.

mod admission;
mod expiry;
mod facts;
mod kept;
mod keys;
mod labels;
mod outcome;
mod pieces;
mod queue;
mod records;
mod running;
mod servings;
mod settling;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use router_core::{
    CallRecord, CallRetention, Calls, CallsError, Claimed, Ending, GenerationId, Handle, KeyClaim,
    Lease, Outcome, OwnerId, Serving, Settled, Unfinished,
};

use crate::batch::Batches;
use crate::step::Commits;
use crate::{Database, DatabaseError};
use admission::BatchedAdmission;
use keys::Claim;
use outcome::StoredOutcome;
use pieces::Pieces;
use queue::Queue;
use records::Records;
use running::Accepted;
use settling::Settling;

pub use usage::PgUsage;

/// Most items of one transaction; those that end carry results.
const MOST: usize = 256;
const MOST_ENDS: usize = 64;

/// Keys, generations, calls and queued requests in a database. Clones share their batches and their view of the queue.
#[derive(Clone)]
pub struct PgCalls {
    database: Database,
    claims: Batches<(KeyClaim, Timestamp), Claim>,
    admissions: Batches<BatchedAdmission, admission::Answer>,
    acceptances: Batches<Accepted, ()>,
    ends: Batches<Settling, Settled>,
    records: Records,
    queue: Arc<Queue>,
}

impl PgCalls {
    /// The calls in a database; reads which requests wait.
    ///
    /// # Errors
    /// If they cannot be read.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn open(database: &Database) -> Result<Self, DatabaseError> {
        Ok(Self {
            claims: batches(database, MOST, claim_all),
            admissions: batches(database, MOST, |database, all| {
                async move { admission::admit(&database, all).await }.boxed()
            }),
            acceptances: batches(database, MOST, |database, all| {
                async move { running::accept(&database, &all).await }.boxed()
            }),
            ends: ends(database),
            records: Records::start(database.clone()),
            queue: Queue::open(database).await?,
            database: database.clone(),
        })
    }

    /// Waits until the records of calls that were handed in are written, or cannot be for now.
    pub(crate) async fn write_records(&self) {
        self.records.written().await;
    }

    /// The record of calls, with what this process has handed in.
    #[must_use]
    pub fn usage(&self) -> PgUsage {
        PgUsage::of(&self.database, Some(self.records.clone()))
    }

    /// What an outcome was, with its bytes; `None` if they were not kept, or are gone.
    async fn outcome_of(
        &self,
        id: GenerationId,
        stored: StoredOutcome,
    ) -> Result<Option<Outcome>, DatabaseError> {
        let body = match stored.replay_bytes {
            None => return Ok(None),
            Some(0) => Bytes::new(),
            Some(_) => Pieces::Replays.read(&self.database, id).await?,
        };
        let is_whole = stored.replay_bytes == i64::try_from(body.len()).ok();
        Ok(is_whole
            .then_some(body)
            .and_then(|body| stored.with_body(body)))
    }
}

/// The answers of a batch.
type Answers<A> = BoxFuture<'static, Result<Vec<A>, DatabaseError>>;

fn batches<T: Send + 'static, A: Send + 'static>(
    database: &Database,
    most: usize,
    run: fn(Database, Vec<T>) -> Answers<A>,
) -> Batches<T, A> {
    let database = database.clone();
    let turnstile = database.turnstile().clone();
    Batches::in_turn(&turnstile, most, move |all| run(database.clone(), all))
}

fn ends(database: &Database) -> Batches<Settling, Settled> {
    let turnstile = database.turnstile().clone();
    let database = database.clone();
    Batches::weighed(&turnstile, MOST_ENDS, Settling::bytes, move |all| {
        let database = database.clone();
        async move { settling::settle(&database, &all).await }.boxed()
    })
}

fn claim_all(database: Database, claims: Vec<(KeyClaim, Timestamp)>) -> Answers<Claim> {
    async move {
        let connection = database.connection().await?;
        keys::claim(&connection, &claims, Commits::Lazily).await
    }
    .boxed()
}

#[async_trait]
impl Calls for PgCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        let claimed = self.claims.write((claim, now)).await;
        Ok(match claimed.map_err(unavailable)? {
            Claim::Fresh => Claimed::Fresh,
            Claim::InFlight(_) => Claimed::InFlight,
            Claim::Conflict => Claimed::Conflict,
            Claim::Running(id) => Claimed::PickUp(id),
            Claim::Settled(id, stored) => {
                let outcome = self.outcome_of(id, stored).await.map_err(unavailable)?;
                match outcome {
                    Some(outcome) => Claimed::Replay(id, outcome),
                    None => Claimed::NotReplayable(id),
                }
            }
        })
    }

    async fn accepted(
        &self,
        (generation, owner): (GenerationId, OwnerId),
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        let accepted = Accepted {
            generation,
            owner,
            handle: handle.clone(),
            poll_after,
            task_id: task_id.map(str::to_owned),
            at: now,
        };
        self.acceptances.write(accepted).await.map_err(unavailable)
    }

    async fn serve(
        &self,
        of: (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError> {
        let served = servings::follow(self.database.clone(), of, serving.clone());
        to_the_end(served).await.map_err(unavailable)
    }

    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError> {
        let serving = servings::of(&self.database, generation).await;
        serving.map_err(unavailable)
    }

    async fn settle(
        &self,
        (generation, owner): (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let settling = Settling {
            generation,
            owner,
            account: account.clone(),
            ending,
            task_id: task_id.map(str::to_owned),
            gives_room_back: false,
            now,
        };
        self.ends.write(settling).await.map_err(unavailable)
    }

    fn record(&self, call: CallRecord) {
        self.records.add(call);
    }

    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError> {
        let renewed = running::renew(&self.database, generations, lease, now);
        renewed.await.map_err(unavailable)
    }

    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError> {
        if self.database.clocks_apart().is_some() {
            // A lease might seem over that is not.
            return Ok(Vec::new());
        }
        let taken = running::take_over(&self.database, lease, limit, now);
        taken.await.map_err(unavailable)
    }
}

#[async_trait]
impl CallRetention for PgCalls {
    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError> {
        self.write_records().await;
        let expired = expiry::expire(self.database.clone(), now, keep_from, limit);
        to_the_end(expired).await.map_err(unavailable)
    }
}

/// Carries a transaction out, even if the caller stops waiting.
async fn to_the_end<T: Send + 'static>(
    transaction: impl Future<Output = Result<T, DatabaseError>> + Send + 'static,
) -> Result<T, DatabaseError> {
    let ended = tokio::spawn(transaction).await;
    ended.map_err(|_| DatabaseError::Closing)?
}

impl std::fmt::Debug for PgCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgCalls")
    }
}

pub(crate) fn unavailable(error: DatabaseError) -> CallsError {
    if error.is_full() {
        CallsError::Full(Box::new(error))
    } else {
        CallsError::Unavailable(Box::new(error))
    }
}

#[cfg(test)]
mod tests;

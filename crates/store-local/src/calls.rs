//! Keys, generations and calls: what makes a call of a partner's model pay once.
//!
//! A generation is on the disk before its partner is asked, and is billed with what settles it. With a key it is in its row at
//! once; without one it goes through a log ([`log`]). The bytes of a result lie in a file, durable before the row
//! that names it; only results with a key are in one.

mod columns;
mod event;
mod log;
mod replays;
mod rows;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::{AccountId, Cause};
use asset_store::BlobHash;
use async_trait::async_trait;
use bytes::Bytes;
use foldhash::HashMap;
use jiff::Timestamp;
use router_core::{
    CallRecord, Calls, CallsError, Claimed, Ending, Generation, GenerationId, Handle, KeyClaim,
    REPLAY_CAP_BYTES, Settled, Unfinished,
};
use rusqlite::Connection;

use crate::accounts::{Shelf, bill_ahead};
use crate::columns::Hash;
use crate::database::{Database, DatabaseError, Durability, Transaction, Write};
use columns::{Replay, StoredOutcome};
use event::{Accepted, Dispatched, Ended, Event};
use replays::{Kept, MOST_BYTES};

pub(crate) use log::{CallLog, Contents, Fold, Syncer, bring_in, read_log};
pub(crate) use replays::Replays;
pub use usage::SqliteUsage;

/// Keys, generations and calls in the database of a data directory. Clones share them.
#[derive(Clone, Debug)]
pub struct SqliteCalls {
    database: Database,
    replays: Replays,
    accounts: Shelf,
    keyed: Keyed,
    log: CallLog,
}

/// The generations under way that have a key, and whose results are therefore to be kept until it expires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed(Arc<Mutex<HashMap<GenerationId, Timestamp>>>);

/// Where the bytes of an outcome go.
#[derive(Debug)]
enum Keeping {
    /// They are there, with this hash, or are not kept.
    Done(Replay, Option<BlobHash>),
    /// With others, in the transaction that ends the generation; the key expires then.
    Shared(Bytes, BlobHash, Timestamp),
}

/// Makes the claims void that the process before did not dispatch, and answers which generations that run have a key.
pub(crate) fn take_up(rows: &Connection) -> rusqlite::Result<Keyed> {
    rows::void_undispatched(rows)?;
    let keyed = rows::unfinished_with_keys(rows)?;
    Ok(Keyed(Arc::new(Mutex::new(keyed))))
}

impl Keyed {
    fn entries(&self) -> MutexGuard<'_, HashMap<GenerationId, Timestamp>> {
        // Every change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the key of a generation expires, if it has one.
    fn expires_at(&self, generation: GenerationId) -> Option<Timestamp> {
        self.entries().get(&generation).copied()
    }
}

impl SqliteCalls {
    pub(crate) fn new(
        database: Database,
        replays: Replays,
        accounts: Shelf,
        keyed: Keyed,
        log: CallLog,
    ) -> Self {
        Self {
            database,
            replays,
            accounts,
            keyed,
            log,
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        account: Option<&AccountId>,
        how: impl Into<Write>,
        operation: impl FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallsError> {
        let written = self.database.write_of(account, how, operation);
        written.await.map_err(unavailable)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallsError> {
        self.database.catch_up().await;
        self.database.read(query).await.map_err(unavailable)
    }

    /// What a settled generation answers again.
    async fn replay(&self, id: GenerationId, stored: StoredOutcome) -> Result<Claimed, CallsError> {
        let body = match stored.replay {
            Replay::NoBody => Some(Bytes::new()),
            Replay::InFile => self.replays.read(id).await.map_err(failed)?,
            Replay::NotKept => None,
            Replay::Shared => match stored.place {
                Some(place) => self.replays.read_shared(place).await.map_err(failed)?,
                None => None,
            },
        };
        if !is_as_kept(body.as_ref(), &stored) {
            tracing::error!(
                generation = %id.0,
                "a result that a key answers again is damaged or gone; its key is refused; restore its file below `replays` from a backup"
            );
            return Ok(Claimed::NotReplayable(id));
        }
        let outcome = body.and_then(|body| stored.with_body(body));
        Ok(outcome.map_or(Claimed::NotReplayable(id), |outcome| {
            Claimed::Replay(id, outcome)
        }))
    }

    /// Makes the bytes of an outcome durable if they are to be told again and are too many to share a file.
    async fn keep(
        &self,
        id: GenerationId,
        ending: &Ending,
        expires_at: Option<Timestamp>,
    ) -> Result<Keeping, CallsError> {
        let Some(body) = body_of(ending) else {
            return Ok(Keeping::Done(Replay::NoBody, None));
        };
        let body = body.clone();
        let Some(expires_at) = expires_at.filter(|_| body.len() <= REPLAY_CAP_BYTES) else {
            return Ok(Keeping::Done(Replay::NotKept, None));
        };
        let hash = BlobHash::of(&body);
        if body.len() <= MOST_BYTES {
            return Ok(Keeping::Shared(body, hash, expires_at));
        }
        self.replays.put(id, body).await.map_err(failed)?;
        Ok(Keeping::Done(Replay::InFile, Some(hash)))
    }
}

#[async_trait]
impl Calls for SqliteCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        let keyed = self.keyed.clone();
        let (account, how) = (claim.account.clone(), Durability::Lazy.sure().quick());
        let claimed = self.write(Some(&account), how, move |rows| {
            fail::fail_point!("call-claim");
            let claimed = rows::claim(rows, &claim, now)?;
            if matches!(claimed, rows::Claim::Fresh { .. }) {
                rows.after_commit(move || {
                    keyed.entries().insert(claim.generation, claim.expires_at);
                });
            }
            Ok(claimed)
        });
        match claimed.await? {
            rows::Claim::Fresh { expired } => {
                self.replays.forget(expired.into_iter().collect()).await;
                Ok(Claimed::Fresh)
            }
            rows::Claim::InFlight => Ok(Claimed::InFlight),
            rows::Claim::Conflict => Ok(Claimed::Conflict),
            rows::Claim::Running(id) => Ok(Claimed::PickUp(id)),
            rows::Claim::Settled(id, stored) => self.replay(id, stored).await,
        }
    }

    async fn dispatch(&self, generation: Generation) -> Result<(), CallsError> {
        if self.keyed.expires_at(generation.id).is_none() {
            let begun = Event::Dispatched(Dispatched::of(&generation));
            let begun = self.log.begin(generation.id, &generation.account, &begun);
            begun.map_err(unavailable)?;
            self.log_durably().await?;
        } else {
            let (account, how) = (generation.account.clone(), Durability::Now.sure().quick());
            let begun = self.write(Some(&account), how, move |rows| {
                rows::begin(rows, &Dispatched::of(&generation))?;
                fail::fail_point!("call-dispatch");
                rows::dispatch_key(rows, generation.id)
            });
            begun.await?;
        }
        fail::fail_point!("call-dispatched");
        Ok(())
    }

    async fn accepted(
        &self,
        generation: GenerationId,
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        fail::fail_point!("call-accept");
        let accepted = Accepted::of(generation, handle, poll_after, task_id, now);
        if self.log.note(generation, &Event::Accepted(accepted)) {
            self.log_durably().await?;
        } else {
            let (handle, task_id) = (handle.clone(), task_id.map(str::to_owned));
            let catching_up = self.catching_up(generation);
            let how = Durability::Now.end().sure().quick();
            let accepted = self.write(None, how, move |rows| {
                catching_up(rows)?;
                let task_id = task_id.as_deref();
                let accepted = Accepted::of(generation, &handle, poll_after, task_id, now);
                rows::accept(rows, &accepted)
            });
            accepted.await?;
        }
        fail::fail_point!("call-accepted");
        Ok(())
    }

    async fn settle(
        &self,
        generation: GenerationId,
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        fail::fail_point!("call-settle");
        let expires_at = self.keyed.expires_at(generation);
        if expires_at.is_none()
            && let Some(settled) = self.end_in_log((generation, account), &ending, task_id, now)?
        {
            fail::fail_point!("call-settled");
            return Ok(settled);
        }
        let keeping = self.keep(generation, &ending, expires_at).await?;
        let (keyed, accounts) = (self.keyed.clone(), self.accounts.clone());
        let replays = self.replays.clone();
        let (owner, task_id) = (account.clone(), task_id.map(str::to_owned));
        let catching_up = self.catching_up(generation);
        let how = Durability::Now.end().sure().quick();
        let settled = self.write(Some(account), how, move |rows| {
            catching_up(rows)?;
            let of = (generation, &owner);
            let (replay, place, hash) = match keeping {
                Keeping::Done(replay, hash) => (replay, None, hash),
                Keeping::Shared(body, hash, expires_at) => {
                    let place = replays.append(expires_at, &body)?;
                    (Replay::Shared, Some(place), Some(hash))
                }
            };
            let hash = hash.map(Hash);
            let kept = Kept { place, hash };
            let ended = Ended::of(of, &ending, replay, task_id.as_deref(), now);
            let ended = (&ended, kept);
            let settled = rows::settle(rows, &accounts, of, &ending, ended, now)?;
            rows.after_commit(move || {
                keyed.entries().remove(&generation);
            });
            Ok(settled)
        });
        let settled = settled.await?;
        fail::fail_point!("call-settled");
        Ok(settled)
    }

    fn record(&self, call: CallRecord) {
        self.log.record(&call);
        self.tell();
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        self.read(rows::unfinished).await
    }

    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError> {
        self.database.catch_up().await;
        let expired = self.write(None, Durability::Lazy.end(), move |rows| {
            rows::expire(rows, now, keep_from, limit)
        });
        let expired = expired.await?;
        self.replays.forget(expired.generations).await;
        self.replays.sweep_shared(now).await.map_err(failed)?;
        self.sweep(limit).await?;
        Ok(expired.rows)
    }
}

impl SqliteCalls {
    /// Has the writing thread know of what was noted in the log.
    fn tell(&self) {
        if self.log.take_news() {
            self.database.nudge();
        }
    }

    /// Waits until what was noted in the log is on the disk.
    async fn log_durably(&self) -> Result<(), CallsError> {
        self.tell();
        self.log.durable().await.map_err(unavailable)
    }

    /// Ends a generation and bills it, if it runs in the log; otherwise its row tells.
    fn end_in_log(
        &self,
        (id, account): (GenerationId, &AccountId),
        ending: &Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Settled>, CallsError> {
        let replay = body_of(ending).map_or(Replay::NoBody, |_| Replay::NotKept);
        let mut ended = Ended::of((id, account), ending, replay, task_id, now);
        ended.is_billed = self.accounts.knows(account);
        let cents = ended.charge_cents;
        let settled = self.log.end(id, account, &Event::Ended(ended));
        let settled = settled.map_err(unavailable)?;
        if settled == Some(Settled::Now) {
            self.tell();
            bill_ahead(&self.accounts, account, Cause::Generation(id.0), cents);
        }
        Ok(settled)
    }

    /// What has to be done before the row of a generation is looked at: without a key, what happened to it may be in the log.
    fn catching_up(
        &self,
        generation: GenerationId,
    ) -> impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + use<> {
        let log = self.log.clone();
        let may_be_in_log = self.keyed.expires_at(generation).is_none();
        move |rows| match may_be_in_log {
            true => log.fold(rows, Fold::All),
            false => Ok(()),
        }
    }

    /// Removes a few files that no row names: a crash between a file and its row leaves one.
    async fn sweep(&self, limit: usize) -> Result<(), CallsError> {
        let old = self.replays.next_old(limit).await.map_err(failed)?;
        if old.is_empty() {
            return Ok(());
        }
        let unnamed = self
            .read(move |rows| rows::without_replay(rows, old))
            .await?;
        self.replays.forget(unnamed).await;
        Ok(())
    }
}

/// The bytes that an ending has to tell, if it has any.
/// Whether a result is there with the bytes that it had, as far as its row tells.
fn is_as_kept(body: Option<&Bytes>, stored: &StoredOutcome) -> bool {
    match (stored.replay, body, stored.hash) {
        (Replay::NoBody | Replay::NotKept, _, _) | (_, Some(_), None) => true,
        (_, Some(body), Some(Hash(hash))) => BlobHash::of(body) == hash,
        (Replay::InFile | Replay::Shared, None, _) => false,
    }
}

fn body_of(ending: &Ending) -> Option<&Bytes> {
    let answer = match ending {
        Ending::Kept { outcome, .. } => outcome.answer()?,
        Ending::Released(_) => return None,
    };
    Some(&answer.body).filter(|body| !body.is_empty())
}

fn unavailable(error: DatabaseError) -> CallsError {
    match error {
        DatabaseError::Busy => CallsError::Busy,
        error @ DatabaseError::Full(_) => CallsError::Full(Box::new(error)),
        error @ (DatabaseError::Poisoned(_)
        | DatabaseError::Abandoned
        | DatabaseError::Failed(_)) => CallsError::Unavailable(Box::new(error)),
    }
}

fn failed(error: std::io::Error) -> CallsError {
    if error.kind() == std::io::ErrorKind::StorageFull {
        CallsError::Full(Box::new(error))
    } else {
        CallsError::Unavailable(Box::new(error))
    }
}

#[cfg(test)]
mod tests;

//! Keys, generations and calls: what makes a call of a partner's model pay once.
//!
//! A generation is on the disk before its partner is asked, and is billed in the very transaction that settles it. With a key it
//! is in its row at once; without one it goes through a log ([`log`]). The bytes of a result lie in a file, durable before the row
//! that names it; only results with a key have one.

mod columns;
mod event;
mod log;
mod replays;
mod rows;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::{AccountId, Cause};
use async_trait::async_trait;
use bytes::Bytes;
use foldhash::HashSet;
use jiff::Timestamp;
use router_core::{
    CallRecord, Calls, CallsError, Claimed, Ending, Generation, GenerationId, Handle, KeyClaim,
    REPLAY_CAP_BYTES, Settled, Unfinished,
};
use rusqlite::Connection;

use crate::accounts::{Shelf, bill_ahead};
use crate::database::{Database, DatabaseError, Durability, Transaction, Write};
use columns::{Replay, StoredOutcome};
use event::{Accepted, Begun, Ended, Event};

pub(crate) use log::{CallLog, Fold};
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

/// The generations under way that have a key, and whose results are therefore to be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed(Arc<Mutex<HashSet<GenerationId>>>);

/// Makes the claims void that the process before did not dispatch, and answers which generations that run have a key.
pub(crate) fn take_up(rows: &Connection) -> rusqlite::Result<Keyed> {
    rows::void_undispatched(rows)?;
    let keyed = rows::unfinished_with_keys(rows)?;
    Ok(Keyed(Arc::new(Mutex::new(keyed))))
}

impl Keyed {
    fn set(&self) -> MutexGuard<'_, HashSet<GenerationId>> {
        // Every change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        how: impl Into<Write>,
        operation: impl FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallsError> {
        let written = self.database.write(how, operation);
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
        };
        let outcome = body.and_then(|body| stored.with_body(body));
        Ok(outcome.map_or(Claimed::NotReplayable(id), |outcome| {
            Claimed::Replay(id, outcome)
        }))
    }

    /// Makes the bytes of an outcome durable if they are to be told again, and answers where they are.
    async fn keep(
        &self,
        id: GenerationId,
        ending: &Ending,
        has_key: bool,
    ) -> Result<Replay, CallsError> {
        let Ending::Kept { outcome, .. } = ending else {
            return Ok(Replay::NoBody);
        };
        match outcome.answer() {
            Some(answer) if !answer.body.is_empty() => {
                if !has_key || answer.body.len() > REPLAY_CAP_BYTES {
                    return Ok(Replay::NotKept);
                }
                let put = self.replays.put(id, answer.body.clone()).await;
                put.map_err(failed)?;
                Ok(Replay::InFile)
            }
            Some(_) | None => Ok(Replay::NoBody),
        }
    }
}

#[async_trait]
impl Calls for SqliteCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        let keyed = self.keyed.clone();
        let claimed = self.write(Durability::Lazy.quick(), move |rows| {
            let generation = claim.generation;
            let claimed = rows::claim(rows, &claim, now)?;
            if matches!(claimed, rows::Claim::Fresh { .. }) {
                rows.after_commit(move || {
                    keyed.set().insert(generation);
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
        let has_key = self.keyed.set().contains(&generation.id);
        let log = self.log.clone();
        self.write(Durability::Now.sure().quick(), move |rows| {
            let begun = Begun::of(&generation);
            if has_key {
                rows::begin(rows, &begun)?;
                rows::dispatch_key(rows, generation.id)?;
            } else {
                log.begin(generation.id, &generation.account, &Event::Begun(begun));
            }
            Ok(())
        })
        .await
    }

    async fn accepted(
        &self,
        generation: GenerationId,
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        let (handle, task_id) = (handle.clone(), task_id.map(str::to_owned));
        let has_key = self.keyed.set().contains(&generation);
        let log = self.log.clone();
        self.write(Durability::Now.end().sure().quick(), move |rows| {
            let task_id = task_id.as_deref();
            let accepted = Accepted::of(generation, &handle, poll_after, task_id, now);
            if log.whose(generation).is_some() {
                log.note(&Event::Accepted(accepted));
                return Ok(());
            }
            if !has_key {
                // Its end may be in the log alone.
                log.fold(rows, Fold::All)?;
            }
            rows::accept(rows, &accepted)
        })
        .await
    }

    async fn settle(
        &self,
        generation: GenerationId,
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let has_key = self.keyed.set().contains(&generation);
        let replay = self.keep(generation, &ending, has_key).await?;
        let (keyed, accounts, log) = (self.keyed.clone(), self.accounts.clone(), self.log.clone());
        let (account, task_id) = (account.clone(), task_id.map(str::to_owned));
        self.write(Durability::Now.end().sure().quick(), move |rows| {
            let of = (generation, &account);
            let mut ended = Ended::of(of, &ending, replay, task_id.as_deref(), now);
            match log.whose(generation) {
                Some(owner) if owner != account => Ok(Settled::Before),
                Some(_) => {
                    let cause = Cause::Generation(generation.0);
                    let cents = ended.charge_cents;
                    ended.is_billed = bill_ahead(rows, &accounts, &account, cause, cents);
                    log.end(generation, &Event::Ended(ended));
                    Ok(Settled::Now)
                }
                None => {
                    if !has_key {
                        // Its end may be in the log alone.
                        log.fold(rows, Fold::All)?;
                    }
                    let settled = rows::settle(rows, &accounts, of, &ending, &ended, now)?;
                    rows.after_commit(move || {
                        keyed.set().remove(&generation);
                    });
                    Ok(settled)
                }
            }
        })
        .await
    }

    fn record(&self, call: CallRecord) {
        if self.log.hand_in(call) {
            self.database.nudge();
        }
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
        let expired = self.write(Durability::Lazy.end(), move |rows| {
            rows::expire(rows, now, keep_from, limit)
        });
        let expired = expired.await?;
        self.replays.forget(expired.generations).await;
        self.sweep(limit).await?;
        Ok(expired.rows)
    }
}

impl SqliteCalls {
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

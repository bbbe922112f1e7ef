//! Keys, generations and calls: what makes a call of a partner's model pay once.
//!
//! A generation is on the disk before its partner is asked, and is billed with what settles it. It goes through a log ([`log`])
//! into the rows. The bytes of a result lie in a file, durable before the row that names it; only results with a key are in one.

mod columns;
mod event;
mod expiry;
mod facts;
mod failures;
mod kept;
mod kept_rows;
mod key_rows;
mod keyed;
mod labels;
mod log;
mod logged;
mod opening;
mod owned;
mod queue;
mod queue_rows;
mod replays;
mod rows;
mod servings;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use bytes::Bytes;
use foldhash::HashSet;
use jiff::Timestamp;
use router_core::{
    CallRecord, Calls, CallsError, Claimed, Dispatched, Ending, Generation, GenerationId, Handle,
    KeyClaim, KeyDigest, Lease, OwnerId, REPLAY_CAP_BYTES, SequentialCalls, Serving, Settled,
    Unfinished,
};
use rusqlite::Connection;

use crate::accounts::SharedAccounts;
use crate::database::{Database, Durability, Transaction, Write};
use crate::webhooks::Hooks;
use columns::{Replay, StoredOutcome};
use event::{Accepted, Ended, Event};
use failures::failed;
pub(crate) use failures::unavailable;
use kept::Fetching;
use keyed::Keyed;
use log::{CallLog, Flush, Syncer};
use owned::Owned;
use queue::Waiting;
use replays::{Kept, MOST_BYTES, ReplaySum, Replays};

#[cfg(fuzzing)]
pub(crate) use log::fuzzing::entries as fuzz_entries;
pub(crate) use log::{FlushTargets, bring_in};
pub(crate) use opening::{Opening, Recovered};
#[cfg(fuzzing)]
pub(crate) use replays::fuzz_segment;
pub use usage::SqliteUsage;

/// Keys, generations and calls in the database of a data directory. Clones share them.
#[derive(Clone, Debug)]
pub struct SqliteCalls {
    /// The thread of the log. Before the database, whose thread has the last word about the rows.
    _syncer: Arc<Syncer>,
    database: Database,
    replays: Replays,
    accounts: SharedAccounts,
    hooks: Hooks,
    under_way: UnderWay,
    waiting: Waiting,
    fetching: Fetching,
    log: CallLog,
}

/// What is known in memory of the generations under way.
#[derive(Clone, Debug)]
pub(crate) struct UnderWay {
    keyed: Keyed,
    owned: Owned,
}

/// Where the bytes of an outcome go.
#[derive(Debug)]
enum Keeping {
    /// They are there, with this sum, or are not kept.
    Done(Replay, Option<ReplaySum>),
    /// With others, in the transaction that ends the generation; the key expires then.
    Shared(Bytes, ReplaySum, Timestamp),
}

impl SqliteCalls {
    fn new(
        database: Database,
        replays: Replays,
        (accounts, hooks): (SharedAccounts, Hooks),
        (under_way, waiting): (UnderWay, Waiting),
        log: CallLog,
    ) -> Self {
        under_way.owned.keep_holds(&accounts);
        Self {
            _syncer: Arc::new(Syncer::start(&log)),
            database,
            replays,
            accounts,
            hooks,
            under_way,
            waiting,
            fetching: Fetching::default(),
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
        let is_kept = || body.len() <= REPLAY_CAP_BYTES || self.under_way.keyed.is_queued(id);
        let Some(expires_at) = expires_at.filter(|_| is_kept()) else {
            return Ok(Keeping::Done(Replay::NotKept, None));
        };
        let sum = ReplaySum::of(&body);
        if body.len() <= MOST_BYTES {
            return Ok(Keeping::Shared(body, sum, expires_at));
        }
        self.replays.put(id, body).await.map_err(failed)?;
        Ok(Keeping::Done(Replay::InFile, Some(sum)))
    }
}

#[async_trait]
impl SequentialCalls for SqliteCalls {
    async fn dispatch(
        &self,
        generation: Generation,
        key: Option<KeyDigest>,
        lease: Lease,
    ) -> Result<Dispatched, CallsError> {
        if let Some(dispatched) = self.dispatch_in_log(&generation, key, lease).await? {
            crate::faults::fault_point!("call-dispatched");
            return Ok(dispatched);
        }
        let UnderWay { keyed, owned } = self.under_way.clone();
        let (id, now) = (generation.id, generation.dispatched_at);
        // Dispatched once more.
        let log = keyed.is_in_log(id).then(|| self.log.clone());
        let (account, how) = (generation.account.clone(), Durability::Now.sure().quick());
        let dispatched = self.write(Some(&account), how, move |rows| {
            log.map_or(Ok(()), |log| log.flush(rows, Flush::All))?;
            // A call that claimed the key meanwhile, because this took too long, runs in its place.
            if let Some(key) = key
                && !key_rows::dispatch(rows, &generation, key, keyed.claimed(id))?
            {
                return Ok(Dispatched::ClaimLost);
            }
            rows::begin(rows, &generation)?;
            servings::begin(rows, id, generation.serving.as_deref())?;
            labels::begin(rows, &generation)?;
            crate::faults::fault_point!("call-dispatch");
            rows.after_commit(move || {
                owned.lock().begin(id, lease, now);
                keyed.dispatched(id);
            });
            Ok(Dispatched::Begun)
        });
        let dispatched = dispatched.await?;
        crate::faults::fault_point!("call-dispatched");
        Ok(dispatched)
    }
}

#[async_trait]
impl Calls for SqliteCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        loop {
            let (keyed, asked) = (self.under_way.keyed.clone(), claim.clone());
            let how = Durability::Lazy.sure().quick();
            let claimed = self.write(Some(&claim.account), how, move |rows| {
                crate::faults::fault_point!("call-claim");
                key_rows::claim(rows, &keyed, &asked, now)
            });
            return match claimed.await? {
                key_rows::Claim::Fresh { expired } => {
                    self.replays.forget(expired.into_iter().collect()).await;
                    Ok(Claimed::Fresh)
                }
                key_rows::Claim::InFlight => Ok(Claimed::InFlight),
                key_rows::Claim::Conflict => Ok(Claimed::Conflict),
                key_rows::Claim::Running(id) => Ok(Claimed::PickUp(id)),
                key_rows::Claim::Settled(id, stored) => self.replay(id, stored).await,
                key_rows::Claim::Behind => {
                    self.bring_in().await?;
                    continue;
                }
            };
        }
    }

    async fn accepted(
        &self,
        (generation, owner): (GenerationId, OwnerId),
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        crate::faults::fault_point!("call-accept");
        let accepted = Accepted::of(generation, handle, poll_after, task_id, now);
        let is_noted = {
            let owned = self.under_way.owned.lock();
            if !owned.is_of(generation, owner) {
                return Ok(());
            }
            self.log.note(generation, &Event::Accepted(accepted))
        };
        if is_noted {
            self.log_durably().await?;
        } else {
            let (handle, task_id) = (handle.clone(), task_id.map(str::to_owned));
            let owned = self.under_way.owned.clone();
            let catching_up = self.catching_up(generation);
            let accepted = self.write(None, Durability::Now.end().sure().quick(), move |rows| {
                catching_up(rows)?;
                if !owned.lock().is_of(generation, owner) {
                    return Ok(());
                }
                let accepted =
                    Accepted::of(generation, &handle, poll_after, task_id.as_deref(), now);
                rows::accept(rows, &accepted)
            });
            accepted.await?;
        }
        crate::faults::fault_point!("call-accepted");
        Ok(())
    }

    async fn serve(
        &self,
        (generation, owner): (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError> {
        crate::faults::fault_point!("call-serve");
        let (owned, serving) = (self.under_way.owned.clone(), serving.clone());
        let how = Durability::Now.sure().quick();
        let served = self.write(None, how, move |rows| {
            if !owned.lock().is_of(generation, owner) {
                return Ok(Settled::Before);
            }
            servings::follow(rows, generation, &serving)
        });
        let served = served.await?;
        crate::faults::fault_point!("call-served");
        Ok(served)
    }

    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError> {
        self.read(move |rows| servings::of(rows, generation)).await
    }

    async fn settle(
        &self,
        (generation, owner): (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        crate::faults::fault_point!("call-settle");
        let of = (generation, owner);
        let UnderWay { keyed, owned } = self.under_way.clone();
        // The log knows no results that are kept: such an end goes into the rows at once.
        if ending.results().is_empty()
            && let Some(settled) = self.end_in_log(of, account, &ending, task_id, now).await?
        {
            crate::faults::fault_point!("call-settled");
            return Ok(settled);
        }
        let expires_at = keyed.expires_at(generation);
        // The file of a result is its owner's to write. The transaction below decides.
        let is_owner = owned.lock().is_of(generation, owner);
        let keeping = match is_owner {
            true => self.keep(generation, &ending, expires_at).await?,
            false => Keeping::Done(Replay::NotKept, None),
        };
        let (accounts, replays) = (self.accounts.clone(), self.replays.clone());
        let hooks = self.hooks.clone();
        let (payer, task_id) = (account.clone(), task_id.map(str::to_owned));
        let (catching_up, log) = (self.catching_up(generation), self.log.clone());
        let how = Durability::Now.end().sure().quick();
        let settled = self.write(Some(account), how, move |rows| {
            catching_up(rows)?;
            let of = (generation, &payer);
            if !owned.lock().is_of(generation, owner) {
                if rows::free_undispatched(rows, generation, &ending)? {
                    // At once, so that nothing in this transaction dispatches it any more.
                    keyed.end(generation);
                }
                return Ok(Settled::Before);
            }
            let (replay, place, sum) = match keeping {
                Keeping::Done(replay, sum) => (replay, None, sum),
                Keeping::Shared(body, sum, expires_at) => {
                    let place = replays.append(expires_at, &body)?;
                    (Replay::Shared, Some(place), Some(sum))
                }
            };
            let kept = Kept { place, sum };
            let ended = Ended::of(of, &ending, replay, task_id.as_deref(), now);
            let ended = (&ended, kept);
            let settled = rows::settle(rows, &accounts, of, &ending, ended, now)?;
            if settled == Settled::Now {
                facts::ended(rows, &hooks, None, ended.0)?;
                rows.after_commit(move || {
                    keyed.end(generation);
                    log.ended(generation);
                    owned.lock().end(generation);
                });
            }
            Ok(settled)
        });
        let settled = settled.await?;
        crate::faults::fault_point!("call-settled");
        Ok(settled)
    }

    fn record(&self, call: CallRecord) {
        self.log.record(&call);
        self.tell();
    }

    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError> {
        Ok(self.under_way.owned.lock().renew(lease, generations, now))
    }

    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError> {
        let owned = self.under_way.owned.clone();
        if owned.lock().lapsed(now).is_empty() {
            return Ok(Vec::new());
        }
        let log = self.log.clone();
        // On the thread that writes, since no end and no acceptance comes between the look and the taking there.
        let how = Durability::Now.end().sure();
        self.write(None, how, move |rows| {
            log.flush(rows, Flush::All)?;
            let unfinished = rows::unfinished(rows)?.into_iter();
            let ids = unfinished.map(|one| one.generation.id);
            // One that ended in the log since it was brought in is not owned any more.
            let taken = ids.filter(|id| owned.lock().take(*id, lease, now));
            let taken: HashSet<GenerationId> = taken.take(limit).collect();
            if taken.is_empty() {
                return Ok(Vec::new());
            }
            // The owner before may have noted an acceptance until it lost them, and none since.
            log.flush(rows, Flush::All)?;
            let mut unfinished = rows::unfinished(rows)?;
            unfinished.retain(|one| taken.contains(&one.generation.id));
            Ok(unfinished)
        })
        .await
    }
}

/// Whether a result is there with the bytes that it had, as far as its row tells.
fn is_as_kept(body: Option<&Bytes>, stored: &StoredOutcome) -> bool {
    match (stored.replay, body, stored.sum) {
        (Replay::NoBody | Replay::NotKept, _, _) | (_, Some(_), None) => true,
        (_, Some(body), Some(sum)) => sum.fits(body),
        (Replay::InFile | Replay::Shared, None, _) => false,
    }
}

/// The bytes that an ending has to tell, if it has any.
fn body_of(ending: &Ending) -> Option<&Bytes> {
    let answer = match ending {
        Ending::Kept { outcome, .. } => outcome.answer()?,
        Ending::Released(_) => return None,
    };
    Some(&answer.body).filter(|body| !body.is_empty())
}

#[cfg(test)]
mod tests;

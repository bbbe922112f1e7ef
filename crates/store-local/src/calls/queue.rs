//! Requests that wait to be dispatched: rows, and their order in memory.
//!
//! One process has the directory, so whose turn it is needs no row: what waits is read once, at the start, in its order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use bytes::Bytes;
use foldhash::HashSet;
use jiff::Timestamp;
use router_core::{
    Bucket, CallQueue, CallsError, Cancelled, Claimed, Enqueued, GenerationId, KeyDigest, KeyTells,
    ModelId, Outcome, QueueBounds, QueueFailure, QueueState, QueuedCall, QueuedRequest, Turns,
    WaitingCall,
};
use rusqlite::Connection;

use super::columns::StoredOutcome;
use super::facts;
use super::keyed::KeyAnswer;
use super::queue_rows::{self, Found, StoredBody};
use super::replays::MOST_BYTES;
use super::{Flush, Keyed, SqliteCalls, failed, key_rows, rows};
use crate::database::Durability;

/// Who waits. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<Mutex<Turns>>);

impl Waiting {
    pub(super) fn of(calls: Vec<WaitingCall>) -> Self {
        let mut turns = Turns::default();
        calls.into_iter().for_each(|call| turns.push(call));
        Self(Arc::new(Mutex::new(turns)))
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request with its place in the order, if it waits.
    fn placed(&self, found: Found) -> QueuedRequest {
        let Found {
            mut request,
            account,
            seq,
            may_wait,
            is_cancelled: _,
        } = found;
        if may_wait && let Some(ahead) = self.lock().ahead_of(&account, seq) {
            request.state = QueueState::Waiting { ahead };
        }
        request
    }
}

/// What the key of a submission stands for, or the generation of its row, which has expired. `None` if the log tells, once it is
/// in the rows.
fn known(
    rows: &Connection,
    keyed: &Keyed,
    of: &(AccountId, KeyDigest),
    fingerprint: Fingerprint,
    now: Timestamp,
) -> rusqlite::Result<Option<Result<Enqueued, Option<GenerationId>>>> {
    // Memory first: what is dispatched meanwhile has its row before it leaves it.
    match keyed.tells(of, &fingerprint, now) {
        Some((generation, KeyAnswer::Claimed | KeyAnswer::Running)) => {
            Ok(Some(Ok(Enqueued::Known(generation))))
        }
        Some((_, KeyAnswer::Conflict)) => Ok(Some(Ok(Enqueued::Conflict))),
        Some((_, KeyAnswer::Behind)) => Ok(None),
        Some((_, KeyAnswer::Free)) | None => known_in_rows(rows, of, fingerprint, now).map(Some),
    }
}

fn known_in_rows(
    rows: &Connection,
    (account, key): &(AccountId, KeyDigest),
    fingerprint: Fingerprint,
    now: Timestamp,
) -> rusqlite::Result<Result<Enqueued, Option<GenerationId>>> {
    let Some((key, known)) = key_rows::known(rows, account, *key)? else {
        return Ok(Err(None));
    };
    Ok(match key.tells(&fingerprint, now) {
        KeyTells::Free => Err(Some(known.generation())),
        KeyTells::Conflict => Ok(Enqueued::Conflict),
        KeyTells::Same => Ok(Enqueued::Known(known.generation())),
    })
}

#[async_trait]
impl CallQueue for SqliteCalls {
    async fn known(
        &self,
        account: &AccountId,
        key: KeyDigest,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Enqueued>, CallsError> {
        loop {
            let (keyed, of) = (self.under_way.keyed.clone(), (account.clone(), key));
            let read = self.read(move |rows| known(rows, &keyed, &of, fingerprint, now));
            match read.await? {
                Some(known) => return Ok(known.ok()),
                None => self.bring_in().await?,
            }
        }
    }

    async fn enqueue(
        &self,
        call: QueuedCall,
        fingerprint: Fingerprint,
        bounds: QueueBounds,
        now: Timestamp,
    ) -> Result<Enqueued, CallsError> {
        let file = (call.body.len() > MOST_BYTES).then(|| queue_rows::file_of(call.id));
        if let Some(file) = file {
            let put = self.replays.put(file, call.body.clone());
            put.await.map_err(failed)?;
        }
        let (waiting, keyed) = (self.waiting.clone(), self.under_way.keyed.clone());
        let (account, log) = (call.account.clone(), self.log.clone());
        let enqueued = self.write(Some(&account), Durability::Now.sure(), move |rows| {
            crate::faults::fault_point!("call-enqueue");
            let of = (call.account.clone(), call.key);
            let before = loop {
                let known = match known(rows, &keyed, &of, fingerprint, now)? {
                    // A claim that had lapsed was dispatched after all.
                    Some(Err(_)) if !keyed.lose(&of) => continue,
                    Some(known) => known,
                    None => {
                        log.flush(rows, Flush::All)?;
                        known_in_rows(rows, &of, fingerprint, now)?
                    }
                };
                match known {
                    Ok(known) => return Ok(known),
                    Err(before) => break before,
                }
            };
            if let Err(limit) = waiting.lock().admit(&call.account, bounds) {
                return Ok(Enqueued::Full { limit });
            }
            let (withdrawing, account) = (waiting.clone(), call.account.clone());
            rows.on_rollback(move || withdrawing.lock().withdraw(&account));
            if let Some(before) = before {
                rows::forget_replay(rows, before)?;
            }
            let seq = queue_rows::insert(rows, &call, fingerprint, file)?;
            rows.after_commit(move || {
                let QueuedCall {
                    account,
                    id,
                    received_at,
                    ..
                } = call;
                waiting.lock().arrive(WaitingCall {
                    account,
                    id,
                    seq,
                    received_at,
                });
            });
            Ok(Enqueued::Waits)
        });
        let enqueued = enqueued.await;
        if !matches!(enqueued, Ok(Enqueued::Waits)) {
            self.replays.forget(file.into_iter().collect()).await;
        }
        crate::faults::fault_point!("call-enqueued");
        enqueued
    }

    async fn find(
        &self,
        account: &AccountId,
        id: GenerationId,
    ) -> Result<Option<QueuedRequest>, CallsError> {
        let found = self.read(move |rows| queue_rows::find(rows, id)).await?;
        let own = found.filter(|found| found.account == *account);
        Ok(own.map(|found| self.waiting.placed(found)))
    }

    async fn list(
        &self,
        account: &AccountId,
        model: &ModelId,
        before: Option<GenerationId>,
        limit: usize,
    ) -> Result<Option<Vec<QueuedRequest>>, CallsError> {
        let (account, model) = (account.clone(), model.clone());
        let list = move |rows: &Connection| queue_rows::list(rows, &account, &model, before, limit);
        let found = self.read(list).await?;
        let placed = |found: Vec<_>| {
            let found = found.into_iter();
            found.map(|found| self.waiting.placed(found)).collect()
        };
        Ok(found.map(placed))
    }

    async fn outcome(&self, id: GenerationId) -> Result<Option<Outcome>, CallsError> {
        let stored = self.read(move |rows| rows::outcome(rows, id)).await?;
        let Some(stored) = stored.filter(StoredOutcome::is_told) else {
            return Ok(None);
        };
        let replayed = self.replay(id, stored).await?;
        Ok(if let Claimed::Replay(_, outcome) = replayed {
            Some(outcome)
        } else {
            None
        })
    }

    async fn cancel(
        &self,
        account: &AccountId,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<Cancelled>, CallsError> {
        let (waiting, owner) = (self.waiting.clone(), account.clone());
        let hooks = self.hooks.clone();
        let cancelled = self.write(Some(account), Durability::Now.end(), move |rows| {
            let found = queue_rows::find(rows, id)?;
            let Some(found) = found.filter(|found| found.account == owner) else {
                return Ok(None);
            };
            if let QueueState::Over(_) = found.request.state {
                return Ok(Some((Cancelled::TooLate, None)));
            }
            queue_rows::note_cancelled(rows, id, now)?;
            let place = WaitingCall {
                account: found.account,
                id,
                seq: found.seq,
                received_at: found.request.received_at,
            };
            // Out of the order first: nobody dispatches it while this is written.
            if !waiting.lock().remove(&place.account, place.seq) {
                return Ok(Some((Cancelled::Noted, None)));
            }
            rows.on_rollback(move || waiting.lock().push(place));
            let file = queue_rows::end(rows, id, &QueueFailure::Cancelled, now)?;
            facts::withdrawn(rows, &hooks, id, QueueFailure::Cancelled.bucket(), now)?;
            Ok(Some((Cancelled::Withdrawn, file)))
        });
        let Some((cancelled, file)) = cancelled.await? else {
            return Ok(None);
        };
        self.replays.forget(file.into_iter().collect()).await;
        Ok(Some(cancelled))
    }

    fn first(&self, blocked: &HashSet<AccountId>) -> Option<WaitingCall> {
        self.waiting.lock().first(blocked)
    }

    async fn take(
        &self,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<QueuedCall>, CallsError> {
        let read =
            move |rows: &Connection| Ok((queue_rows::find(rows, id)?, queue_rows::call(rows, id)?));
        let (Some(found), Some((mut call, body))) = self.read(read).await? else {
            return Ok(None);
        };
        if found.is_cancelled {
            // It was being dispatched when it was cancelled, and had no room.
            self.cancel(&found.account, id, now).await?;
            return Ok(None);
        }
        call.body = match body {
            StoredBody::Here(body) => Bytes::from(body),
            StoredBody::InFile(file) => match self.replays.read(file).await.map_err(failed)? {
                Some(body) => body,
                None => return self.lost(id, now).await,
            },
            StoredBody::Gone => return self.lost(id, now).await,
        };
        if !self.waiting.lock().take(&found.account, found.seq) {
            return Ok(None);
        }
        self.under_way.keyed.queued(id, call.expires_at);
        Ok(Some(call))
    }

    fn put_back(&self, waiting: WaitingCall) {
        self.under_way.keyed.end(waiting.id);
        self.waiting.lock().put_back(waiting);
    }

    async fn dispatched(&self, id: GenerationId) -> Result<(), CallsError> {
        let how = Durability::Lazy.end();
        let noted = self.write(None, how, move |rows| queue_rows::dispatched(rows, id));
        let file = noted.await?;
        self.replays.forget(file.into_iter().collect()).await;
        Ok(())
    }

    async fn end(
        &self,
        id: GenerationId,
        failure: QueueFailure,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        let (waiting, keyed) = (self.waiting.clone(), self.under_way.keyed.clone());
        let hooks = self.hooks.clone();
        let ended = self.write(None, Durability::Now.end(), move |rows| {
            let Some(found) = queue_rows::find(rows, id)?.filter(|found| found.may_wait) else {
                return Ok(None);
            };
            if !found.is_cancelled {
                key_rows::free(rows, id)?;
            }
            let file = queue_rows::end(rows, id, &failure, now)?;
            facts::withdrawn(rows, &hooks, id, failure.bucket(), now)?;
            rows.after_commit(move || {
                waiting.lock().remove(&found.account, found.seq);
                keyed.end(id);
            });
            Ok(file)
        });
        let file = ended.await?;
        self.replays.forget(file.into_iter().collect()).await;
        Ok(())
    }

    fn overdue(&self, received_before: Timestamp, limit: usize) -> Vec<GenerationId> {
        self.waiting.lock().overdue(received_before, limit)
    }

    fn waiting(&self) -> usize {
        self.waiting.lock().waiting()
    }
}

impl SqliteCalls {
    /// Ends a request whose body is not there.
    async fn lost(
        &self,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<QueuedCall>, CallsError> {
        tracing::error!(
            generation = %id.0,
            "the body of a queued request is gone, so it cannot be run; restore its file below `replays` from a backup"
        );
        let failure = QueueFailure::NotDispatched {
            bucket: Bucket::InternalError,
            message: "the request was lost before it was run; submit it again".to_owned(),
        };
        self.end(id, failure, now).await?;
        Ok(None)
    }
}

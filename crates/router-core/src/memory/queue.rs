//! Requests that wait, kept in memory.

use std::collections::BTreeMap;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use foldhash::HashSet;
use jiff::Timestamp;

use super::{Key, MemoryCalls, Rows};
use crate::{
    CallQueue, CallsError, Cancelled, Enqueued, GenerationId, KeyDigest, KeyTells, ModelId,
    Outcome, QueueBounds, QueueFailure, QueueState, QueuedCall, QueuedRequest, Turns, WaitingCall,
};

/// The submitted requests, and who waits among them.
#[derive(Default)]
pub(super) struct Queued {
    rows: BTreeMap<GenerationId, Row>,
    turns: Turns,
    next_seq: u64,
}

struct Row {
    call: QueuedCall,
    seq: u64,
    is_cancelled: bool,
    failure: Option<QueueFailure>,
}

impl Queued {
    pub(super) fn has(&self, id: GenerationId) -> bool {
        self.rows.contains_key(&id)
    }

    /// Forgets at most `limit` requests whose results were forgotten before; how many.
    pub(super) fn expire(&mut self, keep_from: Timestamp, limit: usize) -> usize {
        let turns = &self.turns;
        let is_old = |row: &Row| {
            let waits = || turns.ahead_of(&row.call.account, row.seq).is_some();
            row.call.expires_at < keep_from && !waits()
        };
        let gone = self.rows.extract_if(.., |_, row| is_old(row));
        gone.take(limit).count()
    }
}

impl Row {
    fn waiting(&self) -> WaitingCall {
        WaitingCall {
            account: self.call.account.clone(),
            id: self.call.id,
            seq: self.seq,
            received_at: self.call.received_at,
        }
    }
}

impl Rows {
    /// What a key tells a submission; `None` if it is free.
    fn known_submission(
        &self,
        place: &(AccountId, KeyDigest),
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Option<Enqueued> {
        let key = self.keys.get(place)?;
        match self.known(key).tells(&fingerprint, now) {
            KeyTells::Free => None,
            KeyTells::Conflict => Some(Enqueued::Conflict),
            KeyTells::Same => Some(Enqueued::Known(key.generation)),
        }
    }

    fn request(&self, row: &Row) -> QueuedRequest {
        let id = row.call.id;
        let ended = self.generations.get(&id).map(|row| row.end.as_ref());
        let state = match (&row.failure, ended) {
            (Some(failure), _) => QueueState::Over(Some(failure.clone())),
            (None, Some(Some(end))) => QueueState::Over(match end.bucket {
                None => None,
                Some(_) if row.is_cancelled && !end.is_refusal() => Some(QueueFailure::Cancelled),
                Some(bucket) => Some(QueueFailure::Failed(bucket)),
            }),
            (None, Some(None)) => QueueState::Running,
            (None, None) => {
                let ahead = self.queued.turns.ahead_of(&row.call.account, row.seq);
                ahead.map_or(QueueState::Running, |ahead| QueueState::Waiting { ahead })
            }
        };
        QueuedRequest {
            id,
            model: row.call.model.clone(),
            received_at: row.call.received_at,
            expires_at: row.call.expires_at,
            has_query: !row.call.query.is_empty(),
            state,
        }
    }
}

impl super::End {
    /// Whether the partner judged the content, which a cancellation never makes it do.
    fn is_refusal(&self) -> bool {
        let refused = |outcome: &Outcome| !matches!(outcome, Outcome::Failed { .. });
        self.outcome.as_ref().is_some_and(refused)
    }
}

#[async_trait]
impl CallQueue for MemoryCalls {
    async fn known(
        &self,
        account: &AccountId,
        key: KeyDigest,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Enqueued>, CallsError> {
        let place = (account.clone(), key);
        Ok(self.rows().known_submission(&place, fingerprint, now))
    }

    async fn enqueue(
        &self,
        call: QueuedCall,
        fingerprint: Fingerprint,
        bounds: QueueBounds,
        now: Timestamp,
    ) -> Result<Enqueued, CallsError> {
        let rows = &mut *self.rows();
        let place = (call.account.clone(), call.key);
        if let Some(known) = rows.known_submission(&place, fingerprint, now) {
            return Ok(known);
        }
        let queued = &mut rows.queued;
        if let Err(limit) = queued.turns.admit(&call.account, bounds) {
            return Ok(Enqueued::Full { limit });
        }
        let key = Key {
            fingerprint,
            generation: call.id,
            expires_at: call.expires_at,
            until: Timestamp::MAX,
        };
        rows.keys.insert(place, key);
        queued.next_seq += 1;
        let row = Row {
            seq: queued.next_seq,
            call,
            is_cancelled: false,
            failure: None,
        };
        queued.turns.arrive(row.waiting());
        queued.rows.insert(row.call.id, row);
        Ok(Enqueued::Waits)
    }

    async fn find(
        &self,
        account: &AccountId,
        id: GenerationId,
    ) -> Result<Option<QueuedRequest>, CallsError> {
        let rows = self.rows();
        let row = rows.queued.rows.get(&id);
        let own = row.filter(|row| row.call.account == *account);
        Ok(own.map(|row| rows.request(row)))
    }

    async fn list(
        &self,
        account: &AccountId,
        model: &ModelId,
        before: Option<GenerationId>,
        limit: usize,
    ) -> Result<Option<Vec<QueuedRequest>>, CallsError> {
        let rows = self.rows();
        let is_own = |row: &&Row| row.call.account == *account && row.call.model == *model;
        let before = match before {
            None => u64::MAX,
            Some(id) => match rows.queued.rows.get(&id).filter(is_own) {
                None => return Ok(None),
                Some(row) => row.seq,
            },
        };
        let own = rows.queued.rows.values().filter(is_own);
        let mut own: Vec<&Row> = own.filter(|row| row.seq < before).collect();
        own.sort_by_key(|row| std::cmp::Reverse(row.seq));
        own.truncate(limit);
        let own = own.into_iter().map(|row| rows.request(row));
        Ok(Some(own.collect()))
    }

    async fn outcome(&self, id: GenerationId) -> Result<Option<Outcome>, CallsError> {
        let rows = self.rows();
        let end = rows.generations.get(&id).and_then(|row| row.end.as_ref());
        Ok(end.and_then(|end| end.outcome.clone()))
    }

    async fn cancel(
        &self,
        account: &AccountId,
        id: GenerationId,
        _now: Timestamp,
    ) -> Result<Option<Cancelled>, CallsError> {
        let rows = &mut *self.rows();
        let Some(row) = rows.queued.rows.get(&id) else {
            return Ok(None);
        };
        if row.call.account != *account {
            return Ok(None);
        }
        let state = rows.request(row).state;
        let Some(row) = rows.queued.rows.get_mut(&id) else {
            return Ok(None);
        };
        Ok(Some(match state {
            QueueState::Over(_) => Cancelled::TooLate,
            QueueState::Running => {
                row.is_cancelled = true;
                Cancelled::Noted
            }
            QueueState::Waiting { .. } => {
                row.is_cancelled = true;
                row.failure = Some(QueueFailure::Cancelled);
                row.call.body.clear();
                let (account, seq) = (row.call.account.clone(), row.seq);
                rows.queued.turns.remove(&account, seq);
                Cancelled::Withdrawn
            }
        }))
    }

    fn first(&self, blocked: &HashSet<AccountId>) -> Option<WaitingCall> {
        self.rows().queued.turns.first(blocked)
    }

    async fn take(
        &self,
        id: GenerationId,
        _now: Timestamp,
    ) -> Result<Option<QueuedCall>, CallsError> {
        let rows = &mut *self.rows();
        let is_dispatched = rows.generations.contains_key(&id);
        let queued = &mut rows.queued;
        let Some(row) = queued.rows.get_mut(&id).filter(|_| !is_dispatched) else {
            return Ok(None);
        };
        if row.is_cancelled {
            // It was being dispatched when it was cancelled, and had no room.
            row.failure.get_or_insert(QueueFailure::Cancelled);
            row.call.body.clear();
            let (account, seq) = (row.call.account.clone(), row.seq);
            queued.turns.remove(&account, seq);
            return Ok(None);
        }
        let is_taken = queued.turns.take(&row.call.account, row.seq);
        Ok(is_taken.then(|| row.call.clone()))
    }

    fn put_back(&self, waiting: WaitingCall) {
        self.rows().queued.turns.put_back(waiting);
    }

    async fn dispatched(&self, id: GenerationId) -> Result<(), CallsError> {
        if let Some(row) = self.rows().queued.rows.get_mut(&id) {
            row.call.body.clear();
        }
        Ok(())
    }

    async fn end(
        &self,
        id: GenerationId,
        failure: QueueFailure,
        _now: Timestamp,
    ) -> Result<(), CallsError> {
        let rows = &mut *self.rows();
        let is_dispatched = rows.generations.contains_key(&id);
        let Some(row) = rows.queued.rows.get_mut(&id) else {
            return Ok(());
        };
        if row.failure.is_some() || is_dispatched {
            return Ok(());
        }
        row.failure = Some(match row.is_cancelled {
            true => QueueFailure::Cancelled,
            false => failure,
        });
        row.call.body.clear();
        let (account, seq, is_cancelled) = (row.call.account.clone(), row.seq, row.is_cancelled);
        rows.queued.turns.remove(&account, seq);
        if !is_cancelled {
            rows.keys.retain(|_, key| key.generation != id);
        }
        Ok(())
    }

    fn overdue(&self, received_before: Timestamp, limit: usize) -> Vec<GenerationId> {
        self.rows().queued.turns.overdue(received_before, limit)
    }

    fn waiting(&self) -> usize {
        self.rows().queued.turns.waiting()
    }
}

//! Keys, generations and calls kept in memory: the twin of every store of them.

mod kept;
mod queue;
mod usage;

use std::collections::{BTreeMap, HashMap, btree_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::{AccountId, CreditLedger, Fingerprint, LedgerRef, MemoryAccounts};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Acceptance, Bucket, CallRecord, CallRetention, Calls, CallsError, Claimed, Dispatched, Ending,
    Generation, GenerationId, Handle, KeyClaim, KeyDigest, KeyStage, KeyTells, KnownKey, Lease,
    MemoryQuota, Outcome, OwnerId, Ownerships, REPLAY_CAP_BYTES, RequestId, SequentialCalls,
    Serving, Settled, Unfinished,
};

/// Forgets everything with the process.
pub struct MemoryCalls {
    ledger: Arc<MemoryAccounts>,
    rows: Arc<Mutex<Rows>>,
}

#[derive(Default)]
struct Rows {
    keys: HashMap<(AccountId, KeyDigest), Key>,
    generations: BTreeMap<GenerationId, Row>,
    owned: Ownerships,
    calls: BTreeMap<(Timestamp, RequestId), CallRecord>,
    queued: queue::Queued,
    kept: kept::Kept,
}

struct Key {
    fingerprint: Fingerprint,
    generation: GenerationId,
    expires_at: Timestamp,
    /// Until when the claim stands if the generation is not dispatched.
    until: Timestamp,
}

struct Row {
    generation: Generation,
    accepted: Option<Acceptance>,
    task_id: Option<String>,
    end: Option<End>,
}

struct End {
    at: Timestamp,
    bucket: Option<Bucket>,
    charge_cents: u64,
    /// `None` if it is too large to be told again.
    outcome: Option<Outcome>,
}

impl MemoryCalls {
    /// No calls yet. What is billed goes into this ledger, which keeps the holds of what runs.
    #[must_use]
    pub fn new(ledger: Arc<MemoryAccounts>) -> Self {
        let rows: Arc<Mutex<Rows>> = Arc::default();
        let of_holds = Arc::clone(&rows);
        ledger.keep_holds_while(move |cause| match cause {
            LedgerRef::Generation(id) => locked(&of_holds).owned.has(GenerationId(id)),
            LedgerRef::Grant(_) => false,
        });
        Self { ledger, rows }
    }

    /// What accounts have in flight beside these calls. Each one is a store of its own.
    #[must_use]
    pub fn quota(&self) -> MemoryQuota {
        let rows = Arc::clone(&self.rows);
        MemoryQuota::new(move |id| locked(&rows).owned.has(id))
    }

    /// No account is locked meanwhile: the accounts ask what runs.
    fn rows(&self) -> MutexGuard<'_, Rows> {
        locked(&self.rows)
    }
}

fn locked(rows: &Mutex<Rows>) -> MutexGuard<'_, Rows> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rows {
    fn known(&self, key: &Key) -> KnownKey {
        let stage = match self.generations.get(&key.generation) {
            None => KeyStage::Claimed { until: key.until },
            Some(Row { end: None, .. }) => KeyStage::Running,
            Some(Row { end: Some(_), .. }) => KeyStage::Ended,
        };
        KnownKey {
            fingerprint: key.fingerprint,
            expires_at: key.expires_at,
            stage,
        }
    }

    /// Ends a generation of an account for its owner; whether the ending counts.
    fn end(
        &mut self,
        (id, owner): (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> bool {
        let is_owner = self.owned.is_of(id, owner);
        let is_queued = self.queued.has(id);
        let row = self.generations.get_mut(&id);
        let was_dispatched = row.is_some();
        let row = row.filter(|row| is_owner && row.generation.account == *account);
        let counts = row.is_some();
        if ending.frees_key(was_dispatched, counts) {
            self.keys.retain(|_, key| key.generation != id);
        }
        if let Some(row) = row {
            row.task_id = task_id.map(str::to_owned).or(row.task_id.take());
            let (bucket, charge_cents) = (ending.bucket(), ending.charge_cents());
            let outcome = match ending {
                Ending::Released(_) => None,
                Ending::Kept {
                    outcome, results, ..
                } => {
                    self.kept.begin(id, account, results, now);
                    Some(outcome)
                }
            };
            row.end = Some(End {
                at: now,
                bucket,
                charge_cents,
                outcome: outcome
                    .filter(|outcome| outcome.stored_bytes() <= REPLAY_CAP_BYTES || is_queued),
            });
            self.owned.end(id);
        }
        counts
    }

    fn unfinished(&self) -> Vec<Unfinished> {
        let running = self.generations.values().filter(|row| row.end.is_none());
        let mut unfinished: Vec<Unfinished> = running
            .map(|row| Unfinished {
                generation: row.generation.clone(),
                accepted: row.accepted.clone(),
            })
            .collect();
        unfinished.sort_by_key(|one| (one.generation.dispatched_at, one.generation.id));
        unfinished
    }
}

#[async_trait]
impl SequentialCalls for MemoryCalls {
    async fn dispatch(
        &self,
        generation: Generation,
        key: Option<KeyDigest>,
        lease: Lease,
    ) -> Result<Dispatched, CallsError> {
        let rows = &mut *self.rows();
        let (id, now) = (generation.id, generation.dispatched_at);
        if let Some(key) = key {
            let known = rows.keys.get(&(generation.account.clone(), key));
            if known.is_none_or(|known| known.generation != id) {
                return Ok(Dispatched::ClaimLost);
            }
        }
        if let btree_map::Entry::Vacant(place) = rows.generations.entry(id) {
            place.insert(Row {
                generation,
                accepted: None,
                task_id: None,
                end: None,
            });
            rows.owned.begin(id, lease, now);
        }
        Ok(Dispatched::Begun)
    }
}

#[async_trait]
impl Calls for MemoryCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        let mut rows = self.rows();
        let until = claim.stands_until(now);
        let place = (claim.account, claim.key);
        let known = rows.keys.get(&place);
        let tells = known.map(|key| rows.known(key).tells(&claim.fingerprint, now));
        let known = match (known, tells) {
            (None, _) | (Some(_), None | Some(KeyTells::Free)) => {
                let key = Key {
                    fingerprint: claim.fingerprint,
                    generation: claim.generation,
                    expires_at: claim.expires_at,
                    until,
                };
                rows.keys.insert(place, key);
                return Ok(Claimed::Fresh);
            }
            (Some(_), Some(KeyTells::Conflict)) => return Ok(Claimed::Conflict),
            (Some(known), Some(KeyTells::Same)) => known,
        };
        let id = known.generation;
        let Some(row) = rows.generations.get(&id) else {
            return Ok(Claimed::InFlight);
        };
        Ok(match &row.end {
            None => Claimed::PickUp(id),
            Some(End {
                outcome: Some(outcome),
                ..
            }) => Claimed::Replay(id, outcome.clone()),
            Some(End { outcome: None, .. }) => Claimed::NotReplayable(id),
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
        let rows = &mut *self.rows();
        let is_owner = rows.owned.is_of(generation, owner);
        let row = rows.generations.get_mut(&generation);
        if let Some(row) = row.filter(|_| is_owner) {
            row.accepted = Some(Acceptance {
                handle: handle.clone(),
                poll_after,
                at: now,
            });
            row.task_id = task_id.map(str::to_owned);
        }
        Ok(())
    }

    async fn serve(
        &self,
        (generation, owner): (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError> {
        let rows = &mut *self.rows();
        let is_owner = rows.owned.is_of(generation, owner);
        let row = rows.generations.get_mut(&generation);
        let row = row.filter(|row| is_owner && row.end.is_none());
        Ok(match row.map(|row| &mut row.generation.serving) {
            Some(place @ Some(_)) => {
                *place = Some(Box::new(serving.clone()));
                Settled::Now
            }
            Some(None) | None => Settled::Before,
        })
    }

    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError> {
        let rows = self.rows();
        let row = rows.generations.get(&generation);
        Ok(row.and_then(|row| row.generation.serving.as_deref().cloned()))
    }

    async fn settle(
        &self,
        of: (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let (was_kept, charge) = (matches!(ending, Ending::Kept { .. }), ending.charge_cents());
        if !self.rows().end(of, account, ending, task_id, now) {
            return Ok(Settled::Before);
        }
        if was_kept {
            let cause = LedgerRef::Generation(of.0.0);
            let charge = u32::try_from(charge).unwrap_or(u32::MAX);
            let billed = if charge > 0 {
                self.ledger
                    .settle(account, cause, charge, now)
                    .await
                    .map(|_| ())
            } else {
                self.ledger.release(account, cause).await
            };
            billed.map_err(|error| CallsError::Unavailable(Box::new(error)))?;
        }
        Ok(Settled::Now)
    }

    fn record(&self, call: CallRecord) {
        let place = (call.received_at, call.request);
        self.rows().calls.entry(place).or_insert(call);
    }

    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError> {
        Ok(self.rows().owned.renew(lease, generations, now))
    }

    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError> {
        let rows = &mut *self.rows();
        let unfinished = rows.unfinished().into_iter();
        let taken = unfinished.filter(|one| rows.owned.take(one.generation.id, lease, now));
        Ok(taken.take(limit).collect())
    }
}

#[async_trait]
impl CallRetention for MemoryCalls {
    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError> {
        let mut rows = self.rows();
        let rows = &mut *rows;
        let over = |key: &Key, generations: &BTreeMap<GenerationId, Row>| {
            let runs = generations
                .get(&key.generation)
                .is_some_and(|row| row.end.is_none());
            key.expires_at <= now && !runs
        };
        let generations = &mut rows.generations;
        let keys = rows.keys.extract_if(|_, key| over(key, generations));
        let expired: Vec<Key> = keys.take(limit).map(|(_, key)| key).collect();
        for key in &expired {
            let row = generations.get_mut(&key.generation);
            if let Some(end) = row.and_then(|row| row.end.as_mut()) {
                end.outcome = None;
            }
        }
        let mut gone = expired.len();
        let kept: Vec<GenerationId> = rows.keys.values().map(|key| key.generation).collect();
        let old = |row: &Row| row.end.as_ref().is_some_and(|end| end.at < keep_from);
        let old_generations = rows
            .generations
            .extract_if(.., |id, row| old(row) && !kept.contains(id));
        gone += old_generations.take(limit).count();
        let old_calls = rows
            .calls
            .extract_if(.., |(received_at, _), _| *received_at < keep_from);
        gone += old_calls.take(limit).count();
        gone += rows.queued.expire(keep_from, limit);
        gone += rows.kept.expire(keep_from, limit);
        Ok(gone)
    }
}

impl std::fmt::Debug for MemoryCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryCalls")
    }
}

#[cfg(test)]
mod tests {
    use accounts::MemoryAccounts;

    use super::*;
    use crate::SequentialAdmissions;
    use crate::contract::{self, Stores};

    fn fresh() -> Stores {
        let accounts = Arc::new(MemoryAccounts::new());
        let calls = Arc::new(MemoryCalls::new(accounts.clone()));
        let quota = calls.quota();
        Stores {
            calls: calls.clone(),
            quota: Arc::new(quota.clone()),
            admissions: Arc::new(SequentialAdmissions {
                accounts: accounts.clone(),
                quota,
                calls: calls.clone(),
            }),
            retention: calls.clone(),
            usage: calls.clone(),
            queue: calls.clone(),
            kept: calls,
            accounts: accounts.clone(),
            admin: accounts,
        }
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        contract::calls(fresh).await;
    }

    #[tokio::test]
    async fn keeps_the_contract_of_replicas() {
        contract::replicas(|| {
            let stores = fresh();
            [stores.clone(), stores]
        })
        .await;
    }
}

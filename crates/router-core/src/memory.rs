//! Keys, generations and calls kept in memory: the twin of every store of them.

mod usage;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::{AccountId, Accounts, Cause, Fingerprint};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Acceptance, Bucket, CallRecord, Calls, CallsError, Claimed, Ending, Generation, GenerationId,
    Handle, KeyClaim, KeyDigest, Outcome, REPLAY_CAP_BYTES, RequestId, Settled, Unfinished,
};

/// Forgets everything with the process.
pub struct MemoryCalls {
    accounts: Arc<dyn Accounts>,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    keys: HashMap<(AccountId, KeyDigest), Key>,
    generations: BTreeMap<GenerationId, Row>,
    calls: BTreeMap<(Timestamp, RequestId), CallRecord>,
}

struct Key {
    fingerprint: Fingerprint,
    generation: GenerationId,
    expires_at: Timestamp,
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
    /// No calls yet; what is billed is billed to these accounts.
    #[must_use]
    pub fn new(accounts: Arc<dyn Accounts>) -> Self {
        Self {
            accounts,
            rows: Mutex::default(),
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn runs(&self, id: GenerationId) -> bool {
        self.generations
            .get(&id)
            .is_some_and(|row| row.end.is_none())
    }

    /// Ends a generation of an account; what is to be billed, if the ending counts.
    fn end(
        &mut self,
        (id, account): (GenerationId, &AccountId),
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Option<u64> {
        let row = self
            .generations
            .get_mut(&id)
            .filter(|row| row.end.is_none() && row.generation.account == *account);
        let was_released = matches!(ending, Ending::Released(_));
        let (bucket, charge_cents, outcome) = match ending {
            Ending::Released(bucket) => (Some(bucket), 0, None),
            Ending::Kept {
                outcome,
                charge_cents,
            } => (outcome.bucket(), charge_cents, Some(outcome)),
        };
        let ended = row.map(|row| {
            row.task_id = task_id.map(str::to_owned).or(row.task_id.take());
            row.end = Some(End {
                at: now,
                bucket,
                charge_cents,
                outcome: outcome.filter(|outcome| outcome.stored_bytes() <= REPLAY_CAP_BYTES),
            });
            charge_cents
        });
        let frees = match &ended {
            Some(_) => was_released,
            None => !self.generations.contains_key(&id),
        };
        if frees {
            self.keys.retain(|_, key| key.generation != id);
        }
        ended
    }
}

#[async_trait]
impl Calls for MemoryCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        let mut rows = self.rows();
        let place = (claim.account, claim.key);
        let known = rows
            .keys
            .get(&place)
            .filter(|key| now < key.expires_at || rows.runs(key.generation));
        let Some(known) = known else {
            let key = Key {
                fingerprint: claim.fingerprint,
                generation: claim.generation,
                expires_at: claim.expires_at,
            };
            rows.keys.insert(place, key);
            return Ok(Claimed::Fresh);
        };
        if known.fingerprint != claim.fingerprint {
            return Ok(Claimed::Conflict);
        }
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

    async fn dispatch(&self, generation: Generation) -> Result<(), CallsError> {
        let row = Row {
            generation,
            accepted: None,
            task_id: None,
            end: None,
        };
        self.rows()
            .generations
            .entry(row.generation.id)
            .or_insert(row);
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
        let mut rows = self.rows();
        let row = rows.generations.get_mut(&generation);
        if let Some(row) = row.filter(|row| row.end.is_none()) {
            row.accepted = Some(Acceptance {
                handle: handle.clone(),
                poll_after,
                at: now,
            });
            row.task_id = task_id.map(str::to_owned);
        }
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
        let was_kept = matches!(ending, Ending::Kept { .. });
        let of = (generation, account);
        let Some(charge) = self.rows().end(of, ending, task_id, now) else {
            return Ok(Settled::Before);
        };
        if was_kept {
            let cause = Cause::Generation(generation.0);
            let charge = u32::try_from(charge).unwrap_or(u32::MAX);
            let billed = if charge > 0 {
                self.accounts
                    .settle(account, cause, charge, now)
                    .await
                    .map(|_| ())
            } else {
                self.accounts.release(account, cause).await
            };
            billed.map_err(|error| CallsError::Unavailable(Box::new(error)))?;
        }
        Ok(Settled::Now)
    }

    fn record(&self, call: CallRecord) {
        let place = (call.received_at, call.request);
        self.rows().calls.entry(place).or_insert(call);
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        let rows = self.rows();
        let running = rows.generations.values().filter(|row| row.end.is_none());
        let mut unfinished: Vec<Unfinished> = running
            .map(|row| Unfinished {
                generation: row.generation.clone(),
                accepted: row.accepted.clone(),
            })
            .collect();
        unfinished.sort_by_key(|one| (one.generation.dispatched_at, one.generation.id));
        Ok(unfinished)
    }

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
    use crate::contract::{self, Stores};

    #[tokio::test]
    async fn keeps_the_contract() {
        contract::calls(|| {
            let accounts = Arc::new(MemoryAccounts::new());
            let calls = Arc::new(MemoryCalls::new(accounts.clone()));
            Stores {
                calls: calls.clone(),
                usage: calls,
                accounts: accounts.clone(),
                admin: accounts,
            }
        })
        .await;
    }
}

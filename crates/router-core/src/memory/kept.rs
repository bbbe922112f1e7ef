//! Results that are kept, in memory.

use std::collections::BTreeMap;

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;

use super::MemoryCalls;
use crate::{
    CallsError, DueResult, GenerationId, KeepOutcome, KeptResult, KeptResults, KeptState, Lease,
    OwnerId, ResultAddress, ResultId, ResultLeases, ResultLink, ResultTurn, Settled,
};

/// The results, and who fetches which.
#[derive(Default)]
pub(super) struct Kept {
    rows: BTreeMap<ResultId, Row>,
    leases: ResultLeases,
}

struct Row {
    result: KeptResult,
    /// Gone once it does not wait any more.
    address: Option<ResultAddress>,
    settled_at: Timestamp,
    due_at: Timestamp,
}

impl Kept {
    /// Writes down what is to be fetched of a generation that ends.
    pub(super) fn begin(
        &mut self,
        generation: GenerationId,
        account: &AccountId,
        links: Vec<ResultLink>,
        now: Timestamp,
    ) {
        for (place, link) in (0..).zip(links) {
            let id = ResultId { generation, place };
            let result = KeptResult {
                id,
                account: account.clone(),
                pointer: link.pointer,
                state: KeptState::Waiting {
                    attempts: 0,
                    reason: None,
                },
            };
            let row = Row {
                result,
                address: Some(link.address),
                settled_at: now,
                due_at: now,
            };
            self.rows.insert(id, row);
        }
    }

    /// Forgets at most `limit` results that were settled before a time; how many.
    pub(super) fn expire(&mut self, keep_from: Timestamp, limit: usize) -> usize {
        let old = self
            .rows
            .extract_if(.., |_, row| row.settled_at < keep_from);
        let gone: Vec<ResultId> = old.take(limit).map(|(id, _)| id).collect();
        for id in &gone {
            self.leases.end(*id);
        }
        gone.len()
    }
}

#[async_trait]
impl KeptResults for MemoryCalls {
    async fn of(&self, generation: GenerationId) -> Result<Vec<KeptResult>, CallsError> {
        let rows = self.rows();
        let of = rows.kept.rows.values();
        let of = of.filter(|row| row.result.id.generation == generation);
        Ok(of.map(|row| row.result.clone()).collect())
    }

    async fn take(
        &self,
        lease: Lease,
        turn: &ResultTurn,
        now: Timestamp,
    ) -> Result<Option<DueResult>, CallsError> {
        let mut rows = self.rows();
        let Kept { rows, leases } = &mut rows.kept;
        let due = rows.values_mut().filter(|row| {
            let is_waiting = row.address.is_some() && row.due_at <= now;
            is_waiting
                && leases.is_free(row.result.id, now)
                && !turn.without.contains(&row.result.account)
        });
        let next = due.min_by_key(|row| {
            let account = row.result.account.clone();
            let had_its_turn = turn.after.as_ref().is_some_and(|after| account <= *after);
            (had_its_turn, account, row.due_at, row.result.id)
        });
        let Some(row) = next else {
            return Ok(None);
        };
        let (KeptState::Waiting { attempts, .. }, Some(address)) =
            (&mut row.result.state, &row.address)
        else {
            return Ok(None);
        };
        *attempts += 1;
        leases.begin(row.result.id, lease, now);
        Ok(Some(DueResult {
            id: row.result.id,
            account: row.result.account.clone(),
            address: address.clone(),
            attempt: *attempts,
        }))
    }

    async fn renew(
        &self,
        results: &[ResultId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<ResultId>, CallsError> {
        Ok(self.rows().kept.leases.renew(results, lease, now))
    }

    async fn note(
        &self,
        (id, owner): (ResultId, OwnerId),
        came: KeepOutcome,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let mut rows = self.rows();
        let Kept { rows, leases } = &mut rows.kept;
        let row = rows.get_mut(&id).filter(|_| leases.is_of(id, owner));
        let Some(row) = row else {
            return Ok(Settled::Before);
        };
        leases.end(id);
        match came {
            KeepOutcome::Kept(file) => row.result.state = KeptState::Kept(file),
            KeepOutcome::Failed { reason } => row.result.state = KeptState::Failed { reason },
            KeepOutcome::Later { reason, due_at } => {
                row.due_at = due_at;
                if let KeptState::Waiting { reason: before, .. } = &mut row.result.state {
                    *before = Some(reason);
                }
            }
            KeepOutcome::GivenBack => {
                row.due_at = now;
                if let KeptState::Waiting { attempts, .. } = &mut row.result.state {
                    *attempts = attempts.saturating_sub(1);
                }
            }
        }
        if !matches!(row.result.state, KeptState::Waiting { .. }) {
            row.address = None;
        }
        Ok(Settled::Now)
    }
}

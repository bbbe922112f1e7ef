//! The queue of the jobs in memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, lapses_at};
use async_trait::async_trait;
use jiff::Timestamp;

use super::MemoryJobs;
use crate::{
    Claim, ClaimRequest, Demand, Epoch, Job, JobId, JobQueue, LeaseNews, QueueDepth, RequirementId,
    StoreError, WaitingJobs, WorkerId,
};

#[async_trait]
impl JobQueue for MemoryJobs {
    async fn demand(&self, now: Timestamp) -> Result<Demand, StoreError> {
        Ok(self.with(|rows, _| Demand {
            sets: rows.fair_queue.sets(),
            workers: Arc::new(rows.workers.now(now)),
        }))
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claim>, StoreError> {
        Ok(self.with(|rows, records| rows.claim(request, records, now)))
    }

    async fn renew(
        &self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<LeaseNews>, StoreError> {
        let until = lapses_at(now, lease);
        Ok(self.with(|rows, _| {
            rows.workers.note(worker, until);
            claims
                .iter()
                .map(|(id, epoch)| rows.renew(worker, *id, *epoch, until))
                .collect()
        }))
    }

    async fn reap(
        &self,
        queued_before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError> {
        Ok(self.with(|rows, records| rows.reap(queued_before, records, now)))
    }

    async fn position(&self, account: &AccountId, id: JobId) -> Result<Option<u64>, StoreError> {
        Ok(self.with(|rows, _| {
            let row = rows
                .jobs
                .get(&id)
                .filter(|row| row.job.account == *account)?;
            rows.fair_queue.position(account, row.queued.order)
        }))
    }

    async fn waiting(&self, sets: &HashSet<RequirementId>) -> Result<WaitingJobs, StoreError> {
        Ok(self.with(|rows, _| {
            let (jobs, oldest) = rows.fair_queue.waiting(sets);
            let oldest = oldest.and_then(|id| rows.jobs.get(&id));
            WaitingJobs {
                jobs,
                oldest: oldest.map(|row| row.job.created_at),
            }
        }))
    }

    async fn depth(&self) -> Result<QueueDepth, StoreError> {
        Ok(self.with(|rows, _| rows.fair_queue.depth()))
    }
}

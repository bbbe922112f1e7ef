//! Jobs whose put-off saves nobody sees before the next one, and whose changes come late, coalesced and with gaps.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use installation::JobRows;
use jiff::Timestamp;
use workflow_core::{
    Change, ChangeKind, ChangeNumber, Changes, ChangesSince, Claim, ClaimRequest, Demand,
    Durability, Epoch, InsertJob, InsertJobOutcome, Job, JobBody, JobChange, JobId, JobLog,
    JobQuery, JobQueue, JobStore, LeaseNews, QueueDepth, RequirementId, SaveJob, SaveOutcome,
    StoreError, WaitingJobs, WorkerId,
};

use crate::jitter::Jitter;

/// What readers see of jobs of which a save was put off.
pub(crate) type PutOff = Arc<Mutex<HashMap<JobId, Arc<Job>>>>;

pub(crate) struct OddJobs {
    pub(crate) inner: JobRows,
    pub(crate) jitter: Jitter,
    pub(crate) put_off: PutOff,
}

impl OddJobs {
    fn put_off(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Job>>> {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job as readers see it.
    fn shown(&self, job: Arc<Job>) -> Arc<Job> {
        self.put_off().get(&job.id).cloned().unwrap_or(job)
    }
}

#[async_trait]
impl JobStore for OddJobs {
    async fn insert(
        &self,
        insert: InsertJob,
        now: Timestamp,
    ) -> Result<InsertJobOutcome, StoreError> {
        let inserted = self.inner.store.insert(insert, now);
        self.jitter.around(inserted).await
    }

    async fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(Fingerprint, Arc<Job>)>, StoreError> {
        let claimed = self.inner.store.claimed(account, digest, now);
        let claimed = self.jitter.around(claimed).await?;
        Ok(claimed.map(|(fingerprint, job)| (fingerprint, self.shown(job))))
    }

    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError> {
        let loaded = self.inner.store.load(account, id, now);
        let loaded = self.jitter.around(loaded).await?;
        Ok(loaded.map(|job| self.shown(job)))
    }

    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError> {
        self.jitter.pause().await;
        let (id, is_put_off) = (save.job.id, save.durability == Durability::WithNext);
        let (account, now) = (save.job.account.clone(), save.job.updated_at);
        let before = self.inner.store.load(&account, id, now).await?;
        let outcome = self.inner.store.save(save).await?;
        match (&outcome, before) {
            (SaveOutcome::Saved(_), Some(before)) if is_put_off => {
                self.put_off().entry(id).or_insert(before);
            }
            // Whoever meets a save that was put off has to find it.
            (SaveOutcome::Saved(_) | SaveOutcome::Conflict, _) => {
                self.put_off().remove(&id);
            }
            (SaveOutcome::QuotaExceeded, _) => {}
        }
        self.jitter.pause().await;
        Ok(outcome)
    }

    async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<Vec<Arc<Job>>, StoreError> {
        let listed = self.inner.store.list(query, now);
        let listed = self.jitter.around(listed).await?.into_iter();
        Ok(listed.map(|job| self.shown(job)).collect())
    }

    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, StoreError> {
        let body = self.inner.store.body(account, id, now);
        self.jitter.around(body).await
    }

    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, StoreError> {
        self.jitter
            .around(self.inner.store.log(account, id, now))
            .await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.jitter
            .around(self.inner.store.expire(now, limit))
            .await
    }
}

#[async_trait]
impl JobQueue for OddJobs {
    async fn demand(&self, now: Timestamp) -> Result<Demand, StoreError> {
        let demand = self.jitter.around(self.inner.queue.demand(now)).await?;
        let mut sets = demand.sets.to_vec();
        self.jitter.shuffle(&mut sets);
        Ok(Demand {
            sets: sets.into(),
            ..demand
        })
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claim>, StoreError> {
        let claimed = self.inner.queue.claim(request, now);
        self.jitter.around(claimed).await
    }

    async fn renew(
        &self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<LeaseNews>, StoreError> {
        let renewed = self.inner.queue.renew(worker, claims, lease, now);
        self.jitter.around(renewed).await
    }

    async fn reap(
        &self,
        queued_before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError> {
        self.jitter.pause().await;
        let mut reaped = self.inner.queue.reap(queued_before, now).await?;
        for job in &reaped {
            self.put_off().remove(&job.id);
        }
        self.jitter.shuffle(&mut reaped);
        self.jitter.pause().await;
        Ok(reaped)
    }

    async fn position(&self, account: &AccountId, id: JobId) -> Result<Option<u64>, StoreError> {
        let position = self.inner.queue.position(account, id);
        self.jitter.around(position).await
    }

    async fn waiting(&self, sets: &HashSet<RequirementId>) -> Result<WaitingJobs, StoreError> {
        self.jitter.around(self.inner.queue.waiting(sets)).await
    }

    async fn depth(&self) -> Result<QueueDepth, StoreError> {
        self.jitter.around(self.inner.queue.depth()).await
    }
}

#[async_trait]
impl Changes for OddJobs {
    async fn since(&self, after: Option<ChangeNumber>) -> Result<ChangesSince, StoreError> {
        // Not behind it: who stops waiting then loses nothing, since the answer is not remembered.
        self.jitter.pause().await;
        let since = self.inner.changes.since(after).await?;
        Ok(match since {
            ChangesSince::Changes(changes, next) => ChangesSince::Changes(coalesced(changes), next),
            missed @ ChangesSince::Missed(_) => missed,
        })
    }

    fn publish(&self, job: JobId, account: &AccountId, change: &JobChange) {
        // Some reports are left out.
        if self.jitter.roll(8) > 0 {
            self.inner.changes.publish(job, account, change);
        }
    }

    fn has_others(&self) -> bool {
        self.inner.changes.has_others()
    }
}

/// Lets one revision stand for those of its job directly before it.
fn coalesced(changes: Vec<Change>) -> Vec<Change> {
    let mut last: HashMap<JobId, usize> = HashMap::new();
    let mut kept: Vec<Option<Change>> = Vec::new();
    for change in changes {
        let is_saved = |change: &Change| matches!(change.kind, ChangeKind::Saved { .. });
        if let Some(place) = last.insert(change.job, kept.len())
            && is_saved(&change)
            && kept[place].as_ref().is_some_and(is_saved)
        {
            kept[place] = None;
        }
        kept.push(Some(change));
    }
    kept.into_iter().flatten().collect()
}

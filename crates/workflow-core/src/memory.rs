//! Jobs and their queue in memory, over the records of assets in memory: the twin of every job store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use accounts::{AccountId, Fingerprint};
use asset_store::{Asset, AssetId, AssetQuery, Hold, MemoryRecords, RecordRows};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Claim, ClaimRequest, Demand, Epoch, FairQueue, InsertJob, InsertJobOutcome, Job, JobBody,
    JobEvent, JobId, JobLog, JobOutput, JobQuery, JobQueue, JobStatus, JobStore, LeaseNews,
    NewOutput, OutputName, PresentWorkers, QueueDepth, QueuedAs, SaveJob, SaveOutcome, StoreError,
    WorkerId,
};

/// A job store and queue that forget everything with the process.
#[derive(Debug)]
pub struct MemoryJobs {
    records: MemoryRecords,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    jobs: HashMap<JobId, Row>,
    keys: HashMap<(AccountId, [u8; 32]), ClaimedKey>,
    counters: HashMap<(AccountId, String), u64>,
    fair_queue: FairQueue,
    workers: PresentWorkers,
}

#[derive(Debug)]
struct Row {
    queued: QueuedAs,
    job: Arc<Job>,
    body: Arc<JobBody>,
    inputs: Vec<AssetId>,
    log: Option<JobLog>,
    lease_until: Timestamp,
}

#[derive(Debug)]
struct ClaimedKey {
    fingerprint: Fingerprint,
    job: JobId,
    expires_at: Timestamp,
}

impl MemoryJobs {
    /// A store of no jobs, whose outputs become records of `records`.
    #[must_use]
    pub fn new(records: MemoryRecords) -> Self {
        Self {
            records,
            rows: Mutex::default(),
        }
    }

    /// Runs one transaction over jobs and records.
    fn with<R>(&self, transaction: impl FnOnce(&mut Rows, &mut RecordRows) -> R) -> R {
        // A panic inside can leave half a change of a store that dies with its process; going on is better than hanging.
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        self.records.with(|records| transaction(&mut rows, records))
    }
}

impl Rows {
    fn insert(
        &mut self,
        insert: InsertJob,
        records: &mut RecordRows,
        now: Timestamp,
    ) -> InsertJobOutcome {
        let InsertJob {
            job,
            body,
            claim,
            inputs,
            bounds,
        } = insert;
        let account = job.account.clone();
        if let Some(claim) = &claim
            && let Some(key) = self.keys.get(&(account.clone(), claim.digest))
            && let Some(known) = self.live(&account, key.job, now)
        {
            return match key.fingerprint == claim.fingerprint {
                true => InsertJobOutcome::Replayed(known.job.clone()),
                false => InsertJobOutcome::KeyReused(key.job),
            };
        }
        if self.jobs.contains_key(&job.id) {
            return InsertJobOutcome::IdTaken;
        }
        let queued = self.fair_queue.queued(&account);
        if queued >= bounds.account as usize
            || self.fair_queue.depth().queued >= u64::from(bounds.total)
        {
            return InsertJobOutcome::QueueFull;
        }
        let body_bytes = body.stored_bytes();
        let (stored, most) = (records.stored_bytes(&account), body.placement.stored_bytes);
        if most.is_some_and(|most| stored + body_bytes > most) {
            return InsertJobOutcome::QuotaExceeded;
        }
        if let Some(gone) = inputs
            .iter()
            .find(|id| records.get(&account, **id, now).is_none())
        {
            return InsertJobOutcome::InputGone(*gone);
        }

        records.add_stored(&account, body_bytes);
        let id = job.id;
        for input in &inputs {
            records.hold(*input, Hold::Input(id.0), true);
        }
        if let Some(claim) = claim {
            let key = ClaimedKey {
                fingerprint: claim.fingerprint,
                job: id,
                expires_at: claim.expires_at,
            };
            self.keys.insert((account, claim.digest), key);
        }
        let queued = QueuedAs {
            order: self.fair_queue.number(),
            requirements: body.placement.requirements.clone(),
            account_room: body.placement.account_room,
        };
        let job = Arc::new(job);
        self.fair_queue.note(None, &job, &queued);
        let row = Row {
            queued,
            job: job.clone(),
            body: Arc::new(body),
            inputs,
            log: None,
            lease_until: now,
        };
        self.jobs.insert(id, row);
        InsertJobOutcome::Inserted(job)
    }

    fn save(&mut self, save: SaveJob, records: &mut RecordRows) -> SaveOutcome {
        let SaveJob {
            mut job,
            outputs,
            log,
            durability: _,
        } = save;
        if self
            .jobs
            .get(&job.id)
            .is_none_or(|row| row.job.revision != job.revision)
        {
            return SaveOutcome::Conflict;
        }
        let is_new = |output: &NewOutput| {
            let known =
                |known: &JobOutput| known.node_id == output.node_id && known.index == output.index;
            !job.outputs.iter().any(known)
        };
        let most = self
            .jobs
            .get(&job.id)
            .and_then(|row| row.body.placement.stored_bytes);
        if outputs.iter().any(is_new)
            && most.is_some_and(|most| records.stored_bytes(&job.account) >= most)
        {
            return SaveOutcome::QuotaExceeded;
        }
        for output in outputs {
            let known =
                |known: &JobOutput| known.node_id == output.node_id && known.index == output.index;
            if !job.outputs.iter().any(known) {
                let output = self.commit(&job, output, records);
                job.outputs.push(output);
            }
        }
        if let (Some(row), Some(log)) = (self.jobs.get_mut(&job.id), log) {
            row.log = Some(log);
        }
        SaveOutcome::Saved(self.put(job, records))
    }

    fn commit(&mut self, job: &Job, output: NewOutput, records: &mut RecordRows) -> JobOutput {
        let path = loop {
            let number = match &output.name {
                OutputName::Counted { counter, .. } => {
                    let next = self
                        .counters
                        .entry((job.account.clone(), counter.clone()))
                        .or_default();
                    *next += 1;
                    *next
                }
                OutputName::Fixed(_) => 0,
            };
            let path = output
                .name
                .path(number)
                .expect("a sink refuses a name that is no path");
            let taken = records
                .find(
                    &job.account,
                    &AssetQuery::Path(path.clone()),
                    job.updated_at,
                )
                .is_some();
            if number == 0 || !taken {
                break path;
            }
        };
        let output = output.committed(path);
        records.insert_output(Asset {
            id: output.asset,
            account: job.account.clone(),
            hash: output.hash,
            size_bytes: output.size_bytes,
            content_type: output.content_type.clone(),
            file_path: Some(output.path.clone()),
            tags: Vec::new(),
            created_at: job.updated_at,
            // Until the job ends it cannot expire, and neither can what it made.
            expires_at: None,
            job_id: Some(job.id.0),
        });
        records.hold(output.asset, Hold::Output(job.id.0), true);
        output
    }

    /// Puts the next revision of a job in the place of the one before, and settles what follows from its status.
    fn put(&mut self, mut job: Job, records: &mut RecordRows) -> Arc<Job> {
        job.revision += 1;
        let job = Arc::new(job);
        if let Some(row) = self.jobs.get_mut(&job.id) {
            let before = std::mem::replace(&mut row.job, job.clone());
            self.fair_queue.note(Some(before.status), &job, &row.queued);
            if job.status.is_terminal() {
                for input in row.inputs.drain(..) {
                    records.hold(input, Hold::Input(job.id.0), false);
                }
                for output in &job.outputs {
                    records.expire_output(output.asset, job.expires_at);
                }
            }
        }
        job
    }

    fn live(&self, account: &AccountId, id: JobId, now: Timestamp) -> Option<&Row> {
        self.jobs
            .get(&id)
            .filter(|row| row.job.account == *account && !row.job.is_expired(now))
    }

    fn claim(
        &mut self,
        request: &ClaimRequest,
        records: &mut RecordRows,
        now: Timestamp,
    ) -> Option<Claim> {
        let next = self.fair_queue.next(&request.sets, &request.rooms)?;
        let row = self.jobs.get_mut(&next.job)?;
        row.lease_until = after(now, request.lease);
        let (mut job, body) = (Job::clone(&row.job), row.body.clone());
        job.apply(
            JobEvent::Claimed {
                worker: request.worker,
            },
            now,
        )
        .ok()?;
        Some(Claim {
            job: self.put(job, records),
            body,
        })
    }

    fn renew(
        &mut self,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        lease_until: Timestamp,
    ) -> LeaseNews {
        let held = |row: &&mut Row| row.job.epoch == epoch && row.job.worker == Some(worker);
        match self.jobs.get_mut(&id).filter(held) {
            Some(row) => {
                row.lease_until = lease_until;
                if row.job.status == JobStatus::Canceling {
                    LeaseNews::CancelWanted
                } else {
                    LeaseNews::Renewed
                }
            }
            None => LeaseNews::Lost,
        }
    }

    fn reap(
        &mut self,
        queued_before: Timestamp,
        records: &mut RecordRows,
        now: Timestamp,
    ) -> Vec<Arc<Job>> {
        let mut changed = Vec::new();
        let found: Vec<(Arc<Job>, JobEvent)> = self
            .jobs
            .values()
            .filter_map(|row| {
                let event = match row.job.status {
                    JobStatus::Running | JobStatus::Canceling if row.lease_until <= now => {
                        JobEvent::LeaseLost {
                            epoch: row.job.epoch,
                        }
                    }
                    JobStatus::Queued if row.job.created_at < queued_before => JobEvent::TimedOut {
                        epoch: row.job.epoch,
                    },
                    JobStatus::Queued
                    | JobStatus::Running
                    | JobStatus::Canceling
                    | JobStatus::Succeeded
                    | JobStatus::Canceled
                    | JobStatus::Failed
                    | JobStatus::Expired => return None,
                };
                Some((row.job.clone(), event))
            })
            .collect();
        for (job, event) in found {
            let mut job = Job::clone(&job);
            if job.apply(event, now).is_ok() {
                changed.push(self.put(job, records));
            }
        }
        changed
    }

    fn expire(&mut self, records: &mut RecordRows, now: Timestamp, limit: usize) -> usize {
        let over = self
            .jobs
            .values()
            .filter(|row| row.job.is_expired(now))
            .take(limit);
        let ids: Vec<JobId> = over.map(|row| row.job.id).collect();
        for id in &ids {
            if let Some(row) = self.jobs.remove(id) {
                records.take_stored(&row.job.account, row.body.stored_bytes());
            }
            records.release(Hold::Output(id.0));
        }
        let jobs = &self.jobs;
        self.keys
            .retain(|_, key| key.expires_at > now || jobs.contains_key(&key.job));
        ids.len()
    }
}

fn after(now: Timestamp, span: Duration) -> Timestamp {
    now.saturating_add(span).unwrap_or(Timestamp::MAX)
}

#[async_trait]
impl JobStore for MemoryJobs {
    async fn insert(
        &self,
        insert: InsertJob,
        now: Timestamp,
    ) -> Result<InsertJobOutcome, StoreError> {
        Ok(self.with(|rows, records| rows.insert(insert, records, now)))
    }

    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError> {
        Ok(self.with(|rows, _| rows.live(account, id, now).map(|row| row.job.clone())))
    }

    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError> {
        Ok(self.with(|rows, records| rows.save(save, records)))
    }

    async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<Vec<Arc<Job>>, StoreError> {
        let mut found = self.with(|rows, _| {
            let fits = |job: &&Arc<Job>| {
                let behind = query
                    .after
                    .is_none_or(|after| (job.created_at, job.id) < (after.created_at, after.id));
                let labelled = query
                    .labels
                    .iter()
                    .all(|(key, value)| job.metadata.get(key) == Some(value));
                let stands = query
                    .over
                    .is_none_or(|over| job.status.is_terminal() == over);
                let stands =
                    stands && (query.statuses.is_empty() || query.statuses.contains(&job.status));
                let seen = job.account == query.account && !job.is_expired(now);
                seen && behind && labelled && stands
            };
            rows.jobs
                .values()
                .map(|row| &row.job)
                .filter(fits)
                .cloned()
                .collect::<Vec<_>>()
        });
        found.sort_unstable_by_key(|job| std::cmp::Reverse((job.created_at, job.id)));
        query.cut(&mut found);
        Ok(found)
    }

    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, StoreError> {
        Ok(self.with(|rows, _| rows.live(account, id, now).map(|row| row.body.clone())))
    }

    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, StoreError> {
        Ok(self.with(|rows, _| rows.live(account, id, now).and_then(|row| row.log.clone())))
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        Ok(self.with(|rows, records| rows.expire(records, now, limit)))
    }
}

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
        let until = after(now, lease);
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

    async fn depth(&self) -> Result<QueueDepth, StoreError> {
        Ok(self.with(|rows, _| rows.fair_queue.depth()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn memory_jobs_keep_the_contract() {
        contract::job_store(|| {
            let records = MemoryRecords::new();
            let jobs = Arc::new(MemoryJobs::new(records.clone()));
            contract::Stores {
                jobs: jobs.clone(),
                queue: jobs,
                records: Arc::new(records),
            }
        })
        .await;
    }
}

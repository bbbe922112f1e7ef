//! Jobs and their queue in memory, over the records of assets in memory: the twin of every job store.

mod changes;
mod queue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use accounts::{AccountId, Fingerprint, lapses_at};
use asset_store::{AssetId, AssetQuery, Hold, MemoryRecords, RecordRows};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Claim, ClaimRequest, Epoch, FairQueue, InsertFacts, InsertJob, InsertJobOutcome, Job, JobBody,
    JobEvent, JobId, JobLog, JobOutput, JobQuery, JobStore, LeaseNews, NewOutput, OutputName,
    PresentWorkers, QueuedAs, Report, SaveJob, SaveOutcome, StoreError, WorkerId, overdue,
};

use changes::{ChangeLog, ReplicaNumber};

/// A job store and queue that forget everything with the process: the handle of one replica.
#[derive(Debug)]
pub struct MemoryJobs {
    replica: ReplicaNumber,
    shared: Arc<Shared>,
}

/// What all handles have.
#[derive(Debug)]
struct Shared {
    records: MemoryRecords,
    rows: Mutex<Rows>,
    changes: ChangeLog,
}

#[derive(Debug, Default)]
struct Rows {
    /// Jobs that the transaction under way has saved, and what is reported before each.
    saved: Vec<(Vec<Report>, Arc<Job>)>,
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
        let shared = Shared {
            records,
            rows: Mutex::default(),
            changes: ChangeLog::default(),
        };
        Self {
            replica: shared.changes.next_replica(),
            shared: Arc::new(shared),
        }
    }

    /// The handle of another replica over the same jobs.
    #[must_use]
    pub fn of_another_replica(&self) -> Self {
        Self {
            replica: self.shared.changes.next_replica(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Makes a job what it was, as a crash of a database does with what was not on disk.
    #[cfg(test)]
    pub(crate) fn take_back(&self, earlier: &Arc<Job>) {
        self.with(|rows, _| {
            let row = rows.jobs.get_mut(&earlier.id).expect("the job is there");
            let lost = std::mem::replace(&mut row.job, Arc::clone(earlier));
            rows.fair_queue
                .note(Some(lost.status), earlier, &row.queued);
        });
    }

    /// Runs one transaction over jobs and records.
    fn with<R>(&self, transaction: impl FnOnce(&mut Rows, &mut RecordRows) -> R) -> R {
        // A panic inside can leave half a change of a store that dies with its process; going on is better than hanging.
        let rows = self.shared.rows.lock();
        let mut rows = rows.unwrap_or_else(PoisonError::into_inner);
        let records = &self.shared.records;
        let done = records.with(|records| transaction(&mut rows, records));
        // With the rows locked, so that the changes come in their order.
        self.shared
            .changes
            .saved(self.replica, rows.saved.drain(..));
        done
    }
}

impl Rows {
    fn insert(
        &mut self,
        insert: InsertJob,
        records: &mut RecordRows,
        now: Timestamp,
    ) -> InsertJobOutcome {
        if let Some(refusal) = insert.refusal(&self.facts(&insert, records, now)) {
            return refusal;
        }
        let InsertJob {
            job,
            body,
            claim,
            inputs,
            ..
        } = insert;
        let account = job.account.clone();
        records.add_stored(&account, body.stored_bytes());
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
        self.saved.push((Vec::new(), Arc::clone(&job)));
        InsertJobOutcome::Inserted(job)
    }

    fn facts(&self, insert: &InsertJob, records: &RecordRows, now: Timestamp) -> InsertFacts {
        let account = &insert.job.account;
        let claim = insert.claim.as_ref();
        let known_key = claim.and_then(|claim| self.claimed(account, &claim.digest, now));
        let mut inputs = insert.inputs.iter();
        InsertFacts {
            known_key,
            id_is_taken: self.jobs.contains_key(&insert.job.id),
            queued: self.fair_queue.queued(account) as u64,
            queued_in_all: self.fair_queue.depth().queued,
            stored_bytes: records.stored_bytes(account),
            missing_input: inputs
                .find(|id| records.get(account, **id, now).is_none())
                .copied(),
        }
    }

    fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Option<(Fingerprint, Arc<Job>)> {
        let key = self.keys.get(&(account.clone(), *digest))?;
        let known = self.live(account, key.job, now)?;
        Some((key.fingerprint, Arc::clone(&known.job)))
    }

    fn save(&mut self, save: SaveJob, records: &mut RecordRows) -> SaveOutcome {
        let known = self.jobs.get(&save.job.id);
        let Some(row) = known.filter(|row| save.follows(&row.job)) else {
            return SaveOutcome::Conflict;
        };
        let most = row.body.placement.stored_bytes;
        if save.exceeds(records.stored_bytes(&save.job.account), most) {
            return SaveOutcome::QuotaExceeded;
        }
        let SaveJob {
            mut job,
            outputs,
            log,
            reports,
            durability: _,
        } = save;
        for output in outputs {
            if !job.has(&output) {
                let output = self.commit(&job, output, records);
                job.outputs.push(output);
            }
        }
        if let (Some(row), Some(log)) = (self.jobs.get_mut(&job.id), log) {
            row.log = Some(log);
        }
        SaveOutcome::Saved(self.put(job, reports, records))
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
        records.insert_output(job.record_of(&output));
        records.hold(output.asset, Hold::Output(job.id.0), true);
        output
    }

    /// Puts the next revision of a job in the place of the one before, and settles what follows from its status.
    fn put(&mut self, mut job: Job, reports: Vec<Report>, records: &mut RecordRows) -> Arc<Job> {
        job.revision += 1;
        let job = Arc::new(job);
        self.saved.push((reports, Arc::clone(&job)));
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
        row.lease_until = lapses_at(now, request.lease);
        let (mut job, body) = (Job::clone(&row.job), row.body.clone());
        job.apply(
            JobEvent::Claimed {
                worker: request.worker,
            },
            now,
        )
        .ok()?;
        Some(Claim {
            job: self.put(job, Vec::new(), records),
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
        let row = self.jobs.get_mut(&id);
        let news = LeaseNews::of(row.as_ref().map(|row| &*row.job), worker, epoch);
        if let Some(row) = row.filter(|_| news != LeaseNews::Lost) {
            row.lease_until = lease_until;
        }
        news
    }

    fn reap(
        &mut self,
        queued_before: Timestamp,
        records: &mut RecordRows,
        now: Timestamp,
    ) -> Vec<Arc<Job>> {
        let mut changed = Vec::new();
        let found = self.jobs.values().filter_map(|row| {
            let event = overdue(&row.job, row.lease_until, queued_before, now)?;
            Some((Arc::clone(&row.job), event))
        });
        let found: Vec<(Arc<Job>, JobEvent)> = found.collect();
        for (job, event) in found {
            let mut job = Job::clone(&job);
            if job.apply(event, now).is_ok() {
                changed.push(self.put(job, Vec::new(), records));
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

#[async_trait]
impl JobStore for MemoryJobs {
    async fn insert(
        &self,
        insert: InsertJob,
        now: Timestamp,
    ) -> Result<InsertJobOutcome, StoreError> {
        Ok(self.with(|rows, records| rows.insert(insert, records, now)))
    }

    async fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(Fingerprint, Arc<Job>)>, StoreError> {
        Ok(self.with(|rows, _| rows.claimed(account, digest, now)))
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
            let jobs = rows.jobs.values().map(|row| &row.job);
            let found = jobs.filter(|job| query.fits(job, now));
            found.cloned().collect::<Vec<_>>()
        });
        query.arrange(&mut found);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changes;
    use crate::contract::{self, Stores};

    fn fresh() -> (Stores, Arc<MemoryJobs>) {
        let records = MemoryRecords::new();
        let jobs = Arc::new(MemoryJobs::new(records.clone()));
        (faces(&jobs, &records), jobs)
    }

    fn faces(jobs: &Arc<MemoryJobs>, records: &MemoryRecords) -> Stores {
        Stores {
            jobs: jobs.clone(),
            queue: jobs.clone(),
            records: Arc::new(records.clone()),
        }
    }

    fn replicas() -> [(Stores, Arc<dyn Changes>); 2] {
        let (stores, jobs) = fresh();
        let other = Arc::new(jobs.of_another_replica());
        let others = faces(&other, &jobs.shared.records);
        [(stores, jobs), (others, other)]
    }

    #[tokio::test]
    async fn memory_jobs_keep_the_contract() {
        contract::job_store(|| fresh().0).await;
    }

    #[tokio::test]
    async fn memory_jobs_keep_the_contract_of_replicas() {
        contract::replicas(|| replicas().map(|(stores, _)| stores)).await;
    }

    #[tokio::test]
    async fn memory_jobs_tell_other_replicas_what_changed() {
        contract::changes(replicas).await;
    }
}

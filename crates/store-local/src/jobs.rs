//! Jobs: rows that last, and the live jobs in memory, which requests read.
//!
//! A live job is always among the live jobs in memory, so polling it costs no query however many jobs are stored. Every change goes through
//! the writing thread, row first; the live jobs show it once it is committed.

mod documents;
mod insert;
mod lists;
mod live_jobs;
mod outputs;
mod reports;
pub(crate) mod requirements;
mod rows;
mod side_tables;

use std::sync::Arc;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;
use webhooks::{Event, EventKind, JobFact};
use workflow_core::{
    Durability, InsertJob, InsertJobOutcome, Job, JobBody, JobCursor, JobEvent, JobId, JobLog,
    JobQuery, JobStatus, JobStore, SaveJob, SaveOutcome, StoreError,
};

use crate::blobs::journal::MOST_BYTES as JOURNALED_BYTES;
use crate::database::{self, Database, DatabaseError, Transaction, Write};
use crate::webhooks::Hooks;
use live_jobs::{DeferredSave, Live, LiveJobs};

pub(crate) use live_jobs::SharedLiveJobs;

/// The limits of a small write of a job, beside its row: bytes and further rows. Its caller may commit it, without the writing thread.
const MOST_QUICK_BYTES: u64 = 64 << 10;
const MOST_QUICK_ROWS: usize = 16;

/// Jobs and their queue in the database of a data directory. Clones share them.
#[derive(Clone)]
pub struct SqliteJobs {
    pub(crate) database: Database,
    pub(crate) live_jobs: SharedLiveJobs,
}

/// Takes up the jobs that a process before left: the claims of its workers ended with it.
pub(crate) fn recover(
    rows: &Connection,
    hooks: &Hooks,
    now: Timestamp,
) -> rusqlite::Result<SharedLiveJobs> {
    let mut live_jobs = LiveJobs::default();
    for (seq, mut job, placement) in rows::live(rows)? {
        let queued = requirements::queued_as(seq, &placement);
        if matches!(job.status, JobStatus::Running | JobStatus::Canceling) {
            let epoch = job.epoch;
            job.apply(JobEvent::LeaseLost { epoch }, now)
                .expect("a job that runs can lose its claim");
            job = rows::as_it_reads_back(job);
            job.revision += 1;
            crate::faults::fault_point!("job-take-up");
            rows::update(rows, &job, 0)?;
            tracing::info!(job.id = %job.id, job.status = job.status.name(), "recovered a job that was running");
        }
        if job.status.is_terminal() {
            outputs::settle_end(rows, &job)?;
            publish_end(rows, hooks, &job)?;
            continue;
        }
        let job = Arc::new(job);
        live_jobs.add(Live {
            newest: Arc::clone(&job),
            committed: Some(job),
            queued,
            stored_bytes: placement.stored_bytes,
            body: None,
            lease_until: now,
            deferred: DeferredSave::default(),
        });
    }
    for (account, claim) in requirements::claims(rows)? {
        live_jobs.note_claim(&account, claim);
    }
    live_jobs.continue_after(rows::latest_seq(rows)?);
    Ok(SharedLiveJobs::new(live_jobs, hooks.clone()))
}

impl SqliteJobs {
    pub(crate) fn new(database: Database, live_jobs: SharedLiveJobs) -> Self {
        Self {
            database,
            live_jobs,
        }
    }

    /// Runs an operation over rows and live jobs in a transaction of the writing thread.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        how: impl Into<Write>,
        operation: impl FnOnce(&mut Transaction<'_>, &SharedLiveJobs) -> rusqlite::Result<T>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let live_jobs = self.live_jobs.clone();
        let written = self
            .database
            .write(how, move |rows| operation(rows, &live_jobs));
        written.await.map_err(unavailable)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.database.read(query).await.map_err(unavailable)
    }
}

/// Writes the next revision of a job with what follows from it; `None` if another one was written since it was loaded.
pub(crate) fn change(
    rows: &mut Transaction<'_>,
    live_jobs: &SharedLiveJobs,
    save: SaveJob,
) -> rusqlite::Result<Option<Arc<Job>>> {
    fault(&save);
    let mut job = rows::as_it_reads_back(save.job);
    let deferred = live_jobs.lock().deferred(job.id);
    job.revision += 1;
    let Some(seq) = rows::update(rows, &job, deferred.saves)? else {
        return Ok(None);
    };
    outputs::put_again(rows, seq, &job, deferred.outputs)?;
    for output in save.outputs {
        if let Some(output) = outputs::named(rows, &job, output)? {
            outputs::put_next(rows, seq, &mut job, output)?;
        }
    }
    if let Some(log) = &save.log {
        side_tables::put_log(rows, seq, log)?;
    }
    if job.status.is_terminal() {
        outputs::settle_end(rows, &job)?;
        let was_live = live_jobs.lock().newest(job.id).is_some();
        if was_live {
            publish_end(rows, &live_jobs.hooks, &job)?;
        }
    }

    let job = Arc::new(job);
    stage(rows, live_jobs, &job, DeferredSave::default());
    let (live_jobs, committed) = (live_jobs.clone(), Arc::clone(&job));
    rows.after_commit(move || live_jobs.lock().publish(committed));
    Ok(Some(job))
}

/// Takes the next revision of a live job in and leaves its row as it is; `None` if it is none any more and its row has another one.
fn deferred(
    rows: &mut Transaction<'_>,
    live_jobs: &SharedLiveJobs,
    save: SaveJob,
) -> rusqlite::Result<Option<Arc<Job>>> {
    let mut deferred = live_jobs.lock().deferred(save.job.id);
    let is_live = live_jobs.lock().newest(save.job.id).is_some();
    if !is_live || save.log.is_some() || save.job.status.is_terminal() {
        return change(rows, live_jobs, save);
    }
    fault(&save);
    let mut job = rows::as_it_reads_back(save.job);
    job.revision += 1;
    let first = match deferred.outputs.is_empty() {
        true => job.outputs.len(),
        false => deferred.outputs.start,
    };
    for output in save.outputs {
        let output = outputs::named(rows, &job, output)?;
        job.outputs.extend(output);
    }
    deferred.saves += 1;
    deferred.outputs = first..job.outputs.len();
    let job = Arc::new(job);
    stage(rows, live_jobs, &job, deferred);
    Ok(Some(job))
}

/// Writes the newest state of a job into its row, if anything of it was put off.
fn write_put_off(
    rows: &mut Transaction<'_>,
    live_jobs: &SharedLiveJobs,
    id: JobId,
) -> rusqlite::Result<()> {
    let (deferred, newest) = {
        let live_jobs = live_jobs.lock();
        (live_jobs.deferred(id), live_jobs.newest(id).cloned())
    };
    let Some(job) = newest.filter(|_| deferred.saves > 0) else {
        return Ok(());
    };
    if let Some(seq) = rows::update(rows, &job, deferred.saves - 1)? {
        outputs::put_again(rows, seq, &job, deferred.outputs)?;
    }
    stage(rows, live_jobs, &job, DeferredSave::default());
    let live_jobs = live_jobs.clone();
    rows.after_commit(move || live_jobs.lock().publish(job));
    Ok(())
}

/// Writes the end of a job down for the webhooks that want it.
fn publish_end(rows: &Connection, hooks: &Hooks, job: &Job) -> rusqlite::Result<()> {
    hooks.publish(rows, &job.account, EventKind::JobEnded, || {
        Event::job_ended(JobFact {
            account: &job.account,
            id: job.id.0,
            status: job.status.name(),
            at: job.completed_at.unwrap_or(job.updated_at),
        })
    })
}

/// Whether a live job has another state than the one that a save began with.
fn is_behind(live_jobs: &SharedLiveJobs, save: &SaveJob) -> bool {
    let live_jobs = live_jobs.lock();
    let newest = live_jobs.newest(save.job.id);
    newest.is_some_and(|newest| !save.follows(newest))
}

/// Makes a state the newest, until this is rolled back.
fn stage(
    rows: &mut Transaction<'_>,
    live_jobs: &SharedLiveJobs,
    job: &Arc<Job>,
    deferred: DeferredSave,
) {
    let before = live_jobs.lock().stage(Arc::clone(job), deferred);
    if let Some((before, deferred)) = before {
        let live_jobs = live_jobs.clone();
        rows.on_rollback(move || {
            live_jobs.lock().stage(before, deferred);
        });
    }
}

/// The fault points of the steps of a job after its submission and its claim.
fn fault(save: &SaveJob) {
    match save.job.status {
        JobStatus::Canceling | JobStatus::Canceled => crate::faults::fault_point!("job-cancel"),
        JobStatus::Succeeded | JobStatus::Failed | JobStatus::Expired => {
            crate::faults::fault_point!("job-end");
        }
        JobStatus::Queued | JobStatus::Running if !save.outputs.is_empty() => {
            crate::faults::fault_point!("job-output");
        }
        JobStatus::Queued | JobStatus::Running => crate::faults::fault_point!("job-progress"),
    }
}

pub(crate) fn quick_if(is_little: bool, how: Write) -> Write {
    match is_little {
        true => how.quick(),
        false => how,
    }
}

/// A change that commits no output and keeps no log.
pub(crate) fn plain(job: Job) -> SaveJob {
    SaveJob {
        job,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    }
}

/// A live job's body, from memory or its row.
pub(crate) fn take_body(
    rows: &Connection,
    live_jobs: &SharedLiveJobs,
    id: JobId,
) -> rusqlite::Result<Option<Arc<JobBody>>> {
    let (body, seq) = {
        let mut live_jobs = live_jobs.lock();
        (live_jobs.take_body(id), live_jobs.seq(id))
    };
    match (body, seq) {
        (Some(body), _) => Ok(Some(body)),
        (None, Some(seq)) => Ok(side_tables::body(rows, seq)?.map(Arc::new)),
        (None, None) => Ok(None),
    }
}

#[async_trait]
impl JobStore for SqliteJobs {
    async fn insert(&self, new: InsertJob, now: Timestamp) -> Result<InsertJobOutcome, StoreError> {
        let (account, live_jobs) = (new.job.account.clone(), self.live_jobs.clone());
        // It looks at everything before it writes anything.
        let is_little =
            new.body.stored_bytes() <= MOST_QUICK_BYTES && new.inputs.len() <= MOST_QUICK_ROWS;
        let how = quick_if(is_little, database::Durability::Now.sure());
        let inserted = self.database.write_of(Some(&account), how, move |rows| {
            insert::insert(rows, &live_jobs, new, now)
        });
        inserted.await.map_err(unavailable)
    }

    async fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(Fingerprint, Arc<Job>)>, StoreError> {
        let (of, digest) = (account.clone(), *digest);
        let claimed = self.read(move |rows| side_tables::claimed_key(rows, &of, &digest, now));
        let Some(claimed) = claimed.await? else {
            return Ok(None);
        };
        let job = self.load(account, claimed.job, now).await?;
        Ok(job.map(|job| (claimed.fingerprint, job)))
    }

    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError> {
        let at_hand = self.live_jobs.lock().committed(id);
        let job = match at_hand {
            Some(job) => Some(job),
            None => {
                let read = self.read(move |rows| rows::load(rows, id)).await?;
                let job = read.map(Arc::new);
                // Only what is over: a live job is in memory already, or will be when it is committed.
                if let Some(job) = job.as_ref().filter(|job| job.status.is_terminal()) {
                    self.live_jobs.lock().remember(Arc::clone(job));
                }
                job
            }
        };
        Ok(job.filter(|job| job.account == *account && !job.is_expired(now)))
    }

    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError> {
        let (id, durability) = (save.job.id, save.durability);
        let on_disk = match durability {
            Durability::Now => database::Durability::Now,
            // Readers will see what was put off as well.
            Durability::Lazy if self.live_jobs.lock().deferred(id).saves > 0 => {
                database::Durability::Now
            }
            Durability::WithNext | Durability::Lazy => database::Durability::Lazy,
        };
        let log_bytes = save.log.as_ref().map_or(0, |log| log.text.len());
        let (outputs, new) = (save.job.outputs.iter(), save.outputs.iter());
        let sizes = outputs
            .map(|it| it.size_bytes)
            .chain(new.map(|it| it.size_bytes));
        // Small files go along in the journal.
        let journaled = sizes.filter(|size| *size <= JOURNALED_BYTES as u64);
        let bytes = log_bytes as u64 + journaled.sum::<u64>();
        let is_little = save.job.outputs.len() + save.outputs.len() <= MOST_QUICK_ROWS
            && bytes <= MOST_QUICK_BYTES;
        // Only another revision can be in its way, and that shows in its first statement.
        let how = quick_if(is_little, on_disk.end().sure());
        let saved = self.write(how, move |rows, live_jobs| {
            if is_behind(live_jobs, &save) {
                return Ok(None);
            }
            if outputs::is_quota_used_up(rows, live_jobs, &save)? {
                return Ok(Some(SaveOutcome::QuotaExceeded));
            }
            let saved = match durability {
                Durability::WithNext => deferred(rows, live_jobs, save),
                Durability::Now | Durability::Lazy => change(rows, live_jobs, save),
            };
            Ok(saved?.map(SaveOutcome::Saved))
        });
        if let Some(outcome) = saved.await? {
            return Ok(outcome);
        }
        if self.live_jobs.lock().deferred(id).saves > 0 {
            // The loser looks again, and has to find what it lost to.
            let written = self.write(database::Durability::Now.end(), move |rows, live_jobs| {
                write_put_off(rows, live_jobs, id)
            });
            written.await?;
        }
        Ok(SaveOutcome::Conflict)
    }

    async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<Vec<Arc<Job>>, StoreError> {
        let (mut query, live_jobs) = (query.clone(), self.live_jobs.clone());
        let is_in_flight = query.over == Some(false);
        if is_in_flight && query.labels.is_empty() && query.statuses.is_empty() {
            return Ok(self.live_jobs.lock().in_flight(&query, now));
        }
        let wanted = query.limit;
        self.read(move |rows| {
            let (mut jobs, mut outputs) = (Vec::new(), 0);
            loop {
                let ids = lists::ids(rows, &query, now)?;
                let is_last = ids.is_empty() || ids.len() < query.limit;
                for id in ids {
                    let at_hand = live_jobs.lock().committed(id);
                    let job = match at_hand {
                        Some(job) => Some(job),
                        None => rows::load(rows, id)?.map(Arc::new),
                    };
                    let Some(job) = job else { continue };
                    query.after = Some(JobCursor {
                        created_at: job.created_at,
                        id: job.id,
                    });
                    if query.statuses.is_empty() || query.statuses.contains(&job.status) {
                        let is_enough = outputs >= query.outputs;
                        outputs += job.outputs.len();
                        jobs.push(job);
                        if is_enough || jobs.len() == wanted {
                            return Ok(jobs);
                        }
                    }
                }
                // Jobs that are not over may be in another state than asked for: then more are read to fill the page.
                if is_last || query.statuses.is_empty() {
                    return Ok(jobs);
                }
            }
        })
        .await
    }

    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, StoreError> {
        let account = account.clone();
        self.read(move |rows| {
            let seq = rows::find(rows, &account, id, now)?;
            let body = seq.map(|seq| side_tables::body(rows, seq)).transpose()?;
            Ok(body.flatten().map(Arc::new))
        })
        .await
    }

    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, StoreError> {
        let account = account.clone();
        self.read(move |rows| {
            let seq = rows::find(rows, &account, id, now)?;
            let log = seq.map(|seq| side_tables::log(rows, seq)).transpose()?;
            Ok(log.flatten())
        })
        .await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.write(database::Durability::Now.end(), move |rows, live_jobs| {
            let ids = rows::expire(rows, now, limit)?;
            let (live_jobs, count) = (live_jobs.clone(), ids.len());
            rows.after_commit(move || live_jobs.lock().forget(&ids));
            Ok(count)
        })
        .await
    }
}

pub(crate) fn unavailable(error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Busy => StoreError::Busy,
        error @ DatabaseError::Full(_) => StoreError::Full(Box::new(error)),
        error @ (DatabaseError::Poisoned(_)
        | DatabaseError::Abandoned
        | DatabaseError::Failed(_)) => StoreError::Unavailable(Box::new(error)),
    }
}

impl std::fmt::Debug for SqliteJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteJobs")
    }
}

#[cfg(test)]
mod tests;

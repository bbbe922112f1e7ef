//! The queue of jobs, in memory.
//!
//! Order, room, leases and who is present are in memory: one process has the directory, and when it ends every claim ends with
//! it. What a claim changes of a job, and the turn that it takes of its account, is written without waiting for the disk.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, lapses_at};
use async_trait::async_trait;
use jiff::Timestamp;
use workflow_core::{
    Claim, ClaimRequest, Demand, Epoch, Job, JobEvent, JobId, JobQueue, LeaseNews, QueueDepth,
    RequirementId, StoreError, WaitingJobs, WorkerId, overdue,
};

use crate::database::{Durability, Transaction};
use crate::jobs::{self, SharedLiveJobs, SqliteJobs, requirements};

fn claim(
    rows: &mut Transaction<'_>,
    live_jobs: &SharedLiveJobs,
    request: &ClaimRequest,
    now: Timestamp,
) -> rusqlite::Result<Option<Claim>> {
    let Some((next, number)) = live_jobs.lock().next(request) else {
        return Ok(None);
    };
    let mut job = Job::clone(&next);
    let worker = request.worker;
    job.apply(JobEvent::Claimed { worker }, now)
        .expect("a job in the line-up is queued");
    crate::faults::fault_point!("job-claim");
    // The body first: a row without one is a defect, of which nobody else is to hear.
    let body = jobs::take_body(rows, live_jobs, next.id)?;
    let body = body.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let claimed = jobs::change(rows, live_jobs, jobs::plain(job))?;
    let job = claimed.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    requirements::put_claim(rows, &job.account, number)?;
    crate::faults::fault_point!("job-claimed");
    live_jobs
        .lock()
        .lease(job.id, lapses_at(now, request.lease));
    Ok(Some(Claim { job, body }))
}

#[async_trait]
impl JobQueue for SqliteJobs {
    async fn demand(&self, now: Timestamp) -> Result<Demand, StoreError> {
        Ok(self.live_jobs.lock().demand(now))
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claim>, StoreError> {
        let lacks_bodies = {
            let live_jobs = self.live_jobs.lock();
            // An idle worker looks often, and need not wake the writing thread.
            if live_jobs.depth().queued == 0 {
                return Ok(None);
            }
            live_jobs.lacks_bodies()
        };
        // On a full disk jobs rather wait than run and fail.
        let request = request.clone();
        // What is claimed is picked from the live jobs, which know each row; whatever else is wrong shows before a row changes.
        let how = jobs::quick_if(!lacks_bodies, Durability::Lazy.sure());
        self.write(how, move |rows, live_jobs| {
            claim(rows, live_jobs, &request, now)
        })
        .await
    }

    async fn renew(
        &self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<LeaseNews>, StoreError> {
        let until = lapses_at(now, lease);
        let mut live_jobs = self.live_jobs.lock();
        live_jobs.present(worker, until);
        Ok(claims
            .iter()
            .map(|(id, epoch)| live_jobs.renew(worker, *id, *epoch, until))
            .collect())
    }

    async fn reap(
        &self,
        queued_before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError> {
        let pick = move |live_jobs: &SharedLiveJobs| {
            live_jobs
                .lock()
                .pick(|job, lease_until| overdue(job, lease_until, queued_before, now))
        };
        if pick(&self.live_jobs).is_empty() {
            return Ok(Vec::new());
        }
        self.write(Durability::Now.end(), move |rows, live_jobs| {
            let mut changed = Vec::new();
            for (job, event) in pick(live_jobs) {
                let mut job = Job::clone(&job);
                job.apply(event, now)
                    .expect("what is overdue takes the event");
                changed.extend(jobs::change(rows, live_jobs, jobs::plain(job))?);
            }
            Ok(changed)
        })
        .await
    }

    async fn position(&self, account: &AccountId, id: JobId) -> Result<Option<u64>, StoreError> {
        Ok(self.live_jobs.lock().position(account, id))
    }

    async fn waiting(&self, sets: &HashSet<RequirementId>) -> Result<WaitingJobs, StoreError> {
        Ok(self.live_jobs.lock().waiting(sets))
    }

    async fn depth(&self) -> Result<QueueDepth, StoreError> {
        Ok(self.live_jobs.lock().depth())
    }
}

//! The changes of jobs in memory: one log that all handles write, and each handle reads what the others wrote.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::AccountId;
use async_trait::async_trait;
use tokio::sync::watch;

use super::MemoryJobs;
use crate::{
    Change, ChangeKind, ChangeNumber, Changes, ChangesSince, Job, JobChange, JobId, Report,
    StoreError,
};

/// How many changes are kept for replicas that are slow. One that falls out of them reads rows again.
const MOST_KEPT: usize = 4096;

/// Numbers the handles of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaNumber(u32);

#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    kept: Mutex<Kept>,
    /// The number of the newest change: wakes readers.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    replicas: u32,
    /// The number of the newest change; those of the others are consecutive.
    newest: u64,
    changes: VecDeque<(ReplicaNumber, Change)>,
}

impl ChangeLog {
    /// The number of another handle.
    pub(super) fn next_replica(&self) -> ReplicaNumber {
        let mut kept = self.kept();
        kept.replicas += 1;
        ReplicaNumber(kept.replicas)
    }

    /// Takes note of jobs that a replica saved, each behind what is reported before it.
    pub(super) fn saved(
        &self,
        by: ReplicaNumber,
        jobs: impl Iterator<Item = (Vec<Report>, Arc<Job>)>,
    ) {
        for (reports, job) in jobs {
            for report in reports {
                let kind = ChangeKind::Reported(report);
                self.push(by, job.id, &job.account, kind);
            }
            let kind = ChangeKind::Saved {
                revision: job.revision,
                status: job.status,
            };
            self.push(by, job.id, &job.account, kind);
        }
    }

    fn push(&self, by: ReplicaNumber, job: JobId, account: &AccountId, kind: ChangeKind) {
        let mut kept = self.kept();
        if kept.replicas < 2 {
            // Nobody will read it: another handle begins with the rows.
            return;
        }
        let account = account.clone();
        kept.newest += 1;
        kept.changes.push_back((by, Change { job, account, kind }));
        if kept.changes.len() > MOST_KEPT {
            kept.changes.pop_front();
        }
        self.newest.send_replace(kept.newest);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics between the changes of one push.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// What others than a replica changed behind a number.
    fn since(&self, replica: ReplicaNumber, after: Option<ChangeNumber>) -> ChangesSince {
        let newest = ChangeNumber(self.newest);
        let first = self.newest - self.changes.len() as u64;
        let Some(seen) = after
            .and_then(|ChangeNumber(after)| after.checked_sub(first))
            .and_then(|seen| usize::try_from(seen).ok())
        else {
            return ChangesSince::Missed(newest);
        };
        let behind = self.changes.iter().skip(seen);
        let others = behind.filter(|(by, _)| *by != replica);
        let others = others.map(|(_, change)| change.clone()).collect();
        ChangesSince::Changes(others, newest)
    }
}

#[async_trait]
impl Changes for MemoryJobs {
    async fn since(&self, mut after: Option<ChangeNumber>) -> Result<ChangesSince, StoreError> {
        let log = &self.shared.changes;
        let mut newest = log.newest.subscribe();
        loop {
            newest.borrow_and_update();
            let since = log.kept().since(self.replica, after);
            match since {
                // What this replica changed itself is passed over.
                ChangesSince::Changes(changes, next) if changes.is_empty() => after = Some(next),
                told @ (ChangesSince::Changes(..) | ChangesSince::Missed(_)) => return Ok(told),
            }
            if newest.changed().await.is_err() {
                // The log lives as long as this handle.
                std::future::pending::<()>().await;
            }
        }
    }

    fn publish(&self, job: JobId, account: &AccountId, change: &JobChange) {
        if let Some(report) = Report::of(change) {
            let kind = ChangeKind::Reported(report);
            self.shared.changes.push(self.replica, job, account, kind);
        }
    }

    fn has_others(&self) -> bool {
        self.shared.changes.kept().replicas > 1
    }
}

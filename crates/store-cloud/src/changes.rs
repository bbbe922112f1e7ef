//! What replicas change, for the hubs of the others.
//!
//! A transaction that saves jobs adds rows to `job_changes`. Reports of a run are written with the next save of its job. If no save
//! comes, they are written in a batch of their own. Each replica has one task that reads new rows and keeps them in memory for
//! all its readers. A notification that is sent outside of transactions wakes it. It also looks every quarter of a second. The positions
//! that it hands out are its own.

mod documents;
mod doorbell;
mod kept;
mod packed;
mod reports;
mod tail;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use accounts::AccountId;
use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use uuid::Uuid;
use workflow_core::{
    ChangeNumber, Changes, ChangesSince, Job, JobChange, JobId, Report, StoreError,
};

use crate::{Database, DatabaseError, form};
use kept::Kept;
use packed::JobNews;
pub(crate) use reports::{Passed, TakenAlong};
use reports::{Reported, Reports};

/// The changes of a replica and those of the others. Clones are the same replica; its tasks end with the last of them.
#[derive(Clone, Debug)]
pub struct PgChanges {
    shared: Arc<Shared>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

/// What the tasks of a replica have.
#[derive(Debug)]
struct Shared {
    database: Database,
    replica: Uuid,
    kept: Kept,
    reports: Reports,
    /// Whether rows may tell of several jobs.
    is_packed: AtomicBool,
    /// There may be new changes of others.
    look: Notify,
    /// There are new changes of this replica.
    ring: Notify,
    is_followed: AtomicBool,
    /// When every change of the others was known last.
    caught_up: Mutex<Option<Instant>>,
}

impl PgChanges {
    /// The handle of a replica over a database. It begins to follow the others when it is asked first.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn start(database: Database) -> Self {
        let shared = Arc::new(Shared {
            database,
            replica: Uuid::new_v4(),
            kept: Kept::default(),
            reports: Reports::default(),
            is_packed: AtomicBool::new(false),
            look: Notify::new(),
            ring: Notify::new(),
            is_followed: AtomicBool::new(false),
            caught_up: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(watch_form(Arc::clone(&shared)));
        tasks.spawn(reports::pass_on(Arc::clone(&shared)));
        tasks.spawn(doorbell::ring(Arc::clone(&shared)));
        Self {
            shared,
            tasks: Arc::new(Mutex::new(tasks)),
        }
    }

    /// Names the replica among those of the database.
    pub(crate) fn replica(&self) -> Uuid {
        self.shared.replica
    }

    /// How long ago every change of the others was known; `None` before they are followed.
    pub(crate) fn behind(&self) -> Option<Duration> {
        let caught_up = *self.shared.caught_up();
        caught_up.map(|then| then.elapsed())
    }

    /// Wakes other replicas: a transaction with changes is committed.
    pub(crate) fn ring(&self) {
        self.shared.ring.notify_one();
    }

    /// Takes the reports that wait here of jobs that are about to be saved. Their saves write them.
    pub(crate) async fn take_along(&self, jobs: Vec<JobId>) -> TakenAlong {
        reports::take_along(&self.shared, jobs).await
    }

    fn follow(&self) {
        if !self.shared.is_followed.swap(true, Ordering::Relaxed) {
            let tasks = self.tasks.lock();
            let mut tasks = tasks.unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(tail::follow(Arc::clone(&self.shared)));
            tasks.spawn(doorbell::listen(Arc::clone(&self.shared)));
        }
    }
}

/// Waits until rows of changes may be packed.
async fn watch_form(shared: Arc<Shared>) {
    form::is_written(&shared.database, form::PACKED_CHANGES).await;
    shared.is_packed.store(true, Ordering::Relaxed);
}

impl Shared {
    fn is_packed(&self) -> bool {
        self.is_packed.load(Ordering::Relaxed)
    }

    fn caught_up(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics while it is locked.
        self.caught_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds revisions of jobs to the changes, in the transaction that saves them, each behind what its run reported before it.
pub(crate) async fn note(
    transaction: &impl GenericClient,
    changes: &PgChanges,
    jobs: &[(&Job, &[Passed])],
) -> Result<(), DatabaseError> {
    let told = jobs
        .iter()
        .map(|(job, reports)| JobNews::saved(job, reports));
    let (told, is_packed) = (told.collect::<Vec<_>>(), changes.shared.is_packed());
    packed::write(transaction, changes.replica(), is_packed, &told).await
}

#[async_trait]
impl Changes for PgChanges {
    async fn since(&self, after: Option<ChangeNumber>) -> Result<ChangesSince, StoreError> {
        self.follow();
        Ok(self.shared.kept.since(after).await)
    }

    fn publish(&self, job: JobId, account: &AccountId, change: &JobChange) {
        let Some(report) = Report::of(change) else {
            return;
        };
        if let Some(report) = Passed::of(&report) {
            self.shared.reports.push(Reported {
                job,
                account: account.clone(),
                report,
            });
        }
    }

    fn has_others(&self) -> bool {
        // Whoever knows the database may start one at any time.
        true
    }
}

#[cfg(test)]
mod tests;

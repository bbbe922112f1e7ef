//! What replicas change, for the hubs of the others.
//!
//! A transaction that saves jobs adds rows to `job_changes`; what runs report is added in batches of its own. Each replica has one
//! task that reads new rows and keeps them in memory for whoever asks. A notification outside of transactions wakes it, and it looks
//! by itself every quarter of a second. The positions that it hands out are its own.

mod documents;
mod doorbell;
mod kept;
mod tail;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use accounts::AccountId;
use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;
use workflow_core::{
    ChangeNumber, Changes, ChangesSince, Job, JobChange, JobId, Report, StoreError,
};

use crate::jobs::documents::write as write_document;
use crate::statements::execute;
use crate::{Database, DatabaseError};
use documents::ReportDocument;
use kept::Kept;

/// How many reports may wait to be passed on; those beyond are lost.
const WAITING_REPORTS: usize = 2_048;

/// How many reports are written together.
const TOGETHER: usize = 256;

/// The largest report that is passed on, in bytes.
const MOST_REPORT_BYTES: usize = 64 << 10;

/// The changes of a replica and those of the others. Clones are the same replica; its tasks end with the last of them.
#[derive(Clone, Debug)]
pub struct PgChanges {
    shared: Arc<Shared>,
    reports: mpsc::Sender<Waiting>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

/// What the tasks of a replica have.
#[derive(Debug)]
struct Shared {
    database: Database,
    replica: Uuid,
    kept: Kept,
    /// There may be new changes of others.
    look: Notify,
    /// There are new changes of this replica.
    ring: Notify,
    is_followed: AtomicBool,
    /// When every change of the others was known last.
    caught_up: Mutex<Option<Instant>>,
}

/// What a run reported.
struct Reported {
    job: JobId,
    account: AccountId,
    report: String,
    is_progress: bool,
}

/// What waits to be passed on.
enum Waiting {
    Report(Reported),
    /// Somebody asks whether all before it is.
    Question(oneshot::Sender<()>),
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
            look: Notify::new(),
            ring: Notify::new(),
            is_followed: AtomicBool::new(false),
            caught_up: Mutex::default(),
        });
        let (reports, arriving) = mpsc::channel(WAITING_REPORTS);
        let mut tasks = JoinSet::new();
        tasks.spawn(pass_on(Arc::clone(&shared), arriving));
        tasks.spawn(doorbell::ring(Arc::clone(&shared)));
        Self {
            shared,
            reports,
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

    /// Waits until what runs have reported here so far is passed on, or lost: what is saved after it is told after it, too.
    pub(crate) async fn reports_passed(&self) {
        let (answer, passed) = oneshot::channel();
        if self.reports.send(Waiting::Question(answer)).await.is_ok() {
            // An answer or none: nothing waits any more.
            let _ = passed.await;
        }
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

impl Shared {
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
    replica: Uuid,
    jobs: &[(&Job, &[Report])],
) -> Result<(), DatabaseError> {
    let (mut ids, mut accounts, mut revisions) = (vec![], vec![], vec![]);
    let (mut statuses, mut texts) = (vec![], vec![]);
    for (job, reports) in jobs {
        let newest = reports.iter().rposition(is_progress);
        let reports = reports.iter().enumerate();
        let reports = reports.filter(|(n, report)| !is_progress(report) || Some(*n) == newest);
        let reports = reports.filter_map(|(_, report)| text_of(report)).map(Some);
        for report in reports.chain([None]) {
            let is_revision = report.is_none();
            let revision = i64::try_from(job.revision).unwrap_or(i64::MAX);
            ids.push(job.id.0);
            accounts.push(job.account.as_str());
            revisions.push(is_revision.then_some(revision));
            statuses.push(is_revision.then(|| job.status.name()));
            texts.push(report);
        }
    }
    // Numbered in this order.
    let sql = "INSERT INTO job_changes (replica, job, account, revision, status, report)
        SELECT $1::uuid, n.*
        FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::text[]) AS n";
    execute(
        transaction,
        sql,
        &[&replica, &ids, &accounts, &revisions, &statuses, &texts],
    )
    .await?;
    Ok(())
}

/// A report as it is passed on; `None` if it is too large for that.
fn text_of(report: &Report) -> Option<String> {
    let report = write_document(&ReportDocument::from(report));
    (report.len() <= MOST_REPORT_BYTES).then_some(report)
}

fn is_progress(report: &Report) -> bool {
    matches!(report, Report::Progress(_))
}

/// Leaves of each job's progress what it came to: whoever is told of all of it at once sees no more.
fn newest_progress(reports: &mut Vec<Reported>) {
    let mut told = HashSet::new();
    reports.reverse();
    reports.retain(|one| !one.is_progress || told.insert(one.job));
    reports.reverse();
}

/// Writes reports as they arrive. What cannot be written is lost.
async fn pass_on(shared: Arc<Shared>, mut arriving: mpsc::Receiver<Waiting>) {
    let mut together = Vec::with_capacity(TOGETHER);
    while arriving.recv_many(&mut together, TOGETHER).await > 0 {
        let (mut reports, mut questions) = (Vec::new(), Vec::new());
        for waiting in together.drain(..) {
            match waiting {
                Waiting::Report(report) => reports.push(report),
                Waiting::Question(answer) => questions.push(answer),
            }
        }
        newest_progress(&mut reports);
        if !reports.is_empty() {
            match write(&shared, &reports).await {
                Ok(()) => shared.ring.notify_one(),
                Err(error) => {
                    tracing::warn!(error = %error, "reports of runs were not passed on");
                }
            }
        }
        for answer in questions {
            // Who asked may have gone.
            let _ = answer.send(());
        }
    }
}

async fn write(shared: &Shared, reports: &[Reported]) -> Result<(), DatabaseError> {
    let (mut ids, mut accounts, mut texts) = (vec![], vec![], vec![]);
    for reported in reports {
        ids.push(reported.job.0);
        accounts.push(reported.account.as_str());
        texts.push(reported.report.as_str());
    }
    let mut connection = shared.database.connection().await?;
    let transaction = connection.transaction().await?;
    crate::jobs::may_be_lost(&transaction).await?;
    let sql = "INSERT INTO job_changes (replica, job, account, report)
        SELECT $1::uuid, n.* FROM unnest($2::uuid[], $3::text[], $4::text[]) AS n";
    execute(
        &transaction,
        sql,
        &[&shared.replica, &ids, &accounts, &texts],
    )
    .await?;
    transaction.commit().await?;
    Ok(())
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
        if let Some(text) = text_of(&report) {
            // It is lost if too many wait.
            let _ = self.reports.try_send(Waiting::Report(Reported {
                job,
                account: account.clone(),
                report: text,
                is_progress: is_progress(&report),
            }));
        }
    }

    fn has_others(&self) -> bool {
        // Whoever knows the database may start one at any time.
        true
    }
}

#[cfg(test)]
mod tests;

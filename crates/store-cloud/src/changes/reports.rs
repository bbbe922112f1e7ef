//! What runs report, on its way to other replicas: it waits a moment for what comes next.
//!
//! A save of a job takes along what waits of it, so that a short job tells all that it reported with its end. Until that is committed,
//! or given up, what the job reports besides waits behind it: reports of a job stay in their order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::AccountId;
use tokio::sync::Notify;
use tokio::time::Instant;
use workflow_core::{JobId, Report};

use super::packed::{self, JobNews};
use super::{Shared, documents::ReportDocument};
use crate::DatabaseError;
use crate::jobs::documents::write as write_document;

/// How many reports may wait to be passed on; those beyond are lost.
const WAITING: usize = 2_048;

/// The same for those of jobs that are being saved, which wait for the saves: one that hangs costs other jobs no report.
const HELD: usize = 2_048;

/// How long reports wait for others after the last ones were written. The first after a pause are written at once.
const APART: Duration = Duration::from_millis(10);

/// The largest report that is passed on, in bytes.
const MOST_BYTES: usize = 64 << 10;

/// A report as it is passed on.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(super) text: String,
    pub(super) is_progress: bool,
}

/// What a run reported.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) job: JobId,
    pub(super) account: AccountId,
    pub(super) report: Passed,
}

/// Reports that wait.
#[derive(Debug, Default)]
pub(super) struct Reports {
    queue: Mutex<Queue>,
    /// There is something to write.
    arrived: Notify,
    /// What was being written is.
    written: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Reported>,
    /// Those of jobs that are being saved, each behind what waits of its job.
    held: VecDeque<Reported>,
    /// Jobs of which something is being written.
    writing: HashSet<JobId>,
    /// Jobs of which a save is under way that took along what waited.
    saving: HashSet<JobId>,
}

/// What waited of jobs that are saved. Dropped, it waits again, but for what is told by then.
pub(crate) struct TakenAlong {
    shared: Arc<Shared>,
    jobs: HashSet<JobId>,
    reports: HashMap<JobId, Vec<Reported>>,
}

impl Passed {
    /// `None` if the report is too large to be passed on.
    pub(crate) fn of(report: &Report) -> Option<Self> {
        let text = write_document(&ReportDocument::from(report));
        (text.len() <= MOST_BYTES).then_some(Self {
            text,
            is_progress: matches!(report, Report::Progress(_)),
        })
    }
}

impl Reports {
    /// Has a report passed on. It is lost if too many wait.
    pub(super) fn push(&self, reported: Reported) {
        {
            let mut queue = self.queue();
            let (place, most) = match queue.saving.contains(&reported.job) {
                true => (&mut queue.held, HELD),
                false => (&mut queue.waiting, WAITING),
            };
            if place.len() >= most {
                return;
            }
            place.push_back(reported);
        }
        self.arrived.notify_one();
    }

    /// What is to be written now.
    pub(super) fn begin(&self) -> Vec<Reported> {
        let mut queue = self.queue();
        let Queue {
            waiting,
            writing,
            saving,
            held: _,
        } = &mut *queue;
        let (mut now, mut later) = (Vec::with_capacity(waiting.len()), VecDeque::new());
        for reported in waiting.drain(..) {
            match saving.contains(&reported.job) {
                true => later.push_back(reported),
                false => now.push(reported),
            }
        }
        *waiting = later;
        writing.extend(now.iter().map(|reported| reported.job));
        now
    }

    /// What was begun is written.
    pub(super) fn end(&self) {
        self.queue().writing.clear();
        self.written.notify_waiters();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics in the middle of a change.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes what waits of jobs that are about to be saved, once what was taken before is written.
pub(super) async fn take_along(shared: &Arc<Shared>, jobs: Vec<JobId>) -> TakenAlong {
    let reports = &shared.reports;
    let mut along = TakenAlong {
        shared: Arc::clone(shared),
        jobs: HashSet::with_capacity(jobs.len()),
        reports: HashMap::new(),
    };
    {
        // From here on nothing more of them is begun, so the wait ends with what is being written now.
        let saving = &mut reports.queue().saving;
        along
            .jobs
            .extend(jobs.into_iter().filter(|job| saving.insert(*job)));
    }
    loop {
        let written = reports.written.notified();
        tokio::pin!(written);
        written.as_mut().enable();
        {
            let mut queue = reports.queue();
            if along.jobs.is_disjoint(&queue.writing) {
                let Queue { waiting, held, .. } = &mut *queue;
                for place in [waiting, held] {
                    for reported in extract(place, &along.jobs) {
                        let of_job = along.reports.entry(reported.job);
                        of_job.or_default().push(reported);
                    }
                }
                break;
            }
        }
        written.await;
    }
    along
}

/// Takes what is of these jobs.
fn extract(place: &mut VecDeque<Reported>, jobs: &HashSet<JobId>) -> Vec<Reported> {
    let all = std::mem::take(place).into_iter();
    let (of_them, others): (Vec<_>, Vec<_>) = all.partition(|one| jobs.contains(&one.job));
    *place = others.into();
    of_them
}

impl TakenAlong {
    /// What waited of a job.
    pub(crate) fn of(&self, job: JobId) -> Vec<Passed> {
        let reports = self.reports.get(&job).into_iter().flatten();
        reports.map(|reported| reported.report.clone()).collect()
    }

    /// Says that what waited of these jobs is told.
    pub(crate) fn told(&mut self, jobs: impl Iterator<Item = JobId>) {
        for job in jobs {
            self.reports.remove(&job);
        }
    }
}

impl Drop for TakenAlong {
    fn drop(&mut self) {
        let reports = &self.shared.reports;
        {
            let mut queue = reports.queue();
            for job in &self.jobs {
                queue.saving.remove(job);
            }
            let Queue { waiting, held, .. } = &mut *queue;
            let mut again: Vec<Reported> = self.reports.drain().flat_map(|(_, of)| of).collect();
            again.extend(extract(held, &self.jobs));
            // What is too much is theirs, and the last of it: other jobs find room.
            again.truncate((WAITING / 2).saturating_sub(waiting.len()));
            for reported in again.into_iter().rev() {
                waiting.push_front(reported);
            }
        }
        reports.arrived.notify_one();
    }
}

/// Leaves of each job's progress what it came to: whoever is told of all of it at once sees no more.
pub(super) fn newest_progress(reports: &mut Vec<Reported>) {
    let mut told = HashSet::new();
    reports.reverse();
    reports.retain(|one| !one.report.is_progress || told.insert(one.job));
    reports.reverse();
}

/// Writes reports as they arrive. What cannot be written is lost.
pub(super) async fn pass_on(shared: Arc<Shared>) {
    loop {
        shared.reports.arrived.notified().await;
        let began = Instant::now();
        let mut together = shared.reports.begin();
        newest_progress(&mut together);
        // All that arrived may be of jobs that are saved.
        if !together.is_empty() {
            let written = write(&shared, &together).await;
            shared.reports.end();
            match written {
                Ok(()) => shared.ring.notify_one(),
                Err(error) => tracing::warn!(error = %error, "reports of runs were not passed on"),
            }
        }
        tokio::time::sleep_until(began + APART).await;
    }
}

async fn write(shared: &Shared, reports: &[Reported]) -> Result<(), DatabaseError> {
    let mut places = HashMap::new();
    let mut told: Vec<JobNews<'_>> = Vec::new();
    for Reported {
        job,
        account,
        report,
    } in reports
    {
        let place = *places.entry(*job).or_insert(told.len());
        if place == told.len() {
            told.push(JobNews {
                job: *job,
                account,
                reports: Vec::new(),
                saved: None,
            });
        }
        told[place].reports.push(report);
    }
    let mut connection = shared.database.connection().await?;
    let transaction = connection.transaction().await?;
    crate::jobs::may_be_lost(&transaction).await?;
    packed::write(&transaction, shared.replica, shared.is_packed(), &told).await?;
    transaction.commit().await?;
    Ok(())
}

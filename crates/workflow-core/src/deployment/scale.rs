//! What is to be done next for a deployment, from its row and what was seen of its workers. Pure.
//!
//! Workers are counted by revision. Those of the current one follow the jobs that wait, between the least and the most; the next
//! one gets workers beside it and takes its place once one of them is ready; those of every other revision end their jobs and
//! stop. No worker is stopped with a job.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Bounds, Deployment, DeploymentChange, Revision, RevisionNumber, WorkerSource};

/// So many failures in a row end a revision, or the deployment.
pub const MOST_FAILURES: u32 = 5;

/// A worker that stopped answering for so long is started anew.
const HUNG_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Pauses before a worker is started again: after the first failure, and the longest.
const PAUSE_S: (u64, u64) = (1, 60);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The row.
    pub deployment: &'a Deployment,
    /// All of its workers.
    pub workers: &'a [SeenWorker],
    /// What waits for them.
    pub load: Load,
    /// How revisions failed lately.
    pub failures: &'a BTreeMap<RevisionNumber, Failures>,
    /// Whether somebody asked for a worker although nothing waits, because it is not known what workers have.
    pub is_woken: bool,
    /// How many jobs a worker may have.
    pub places: u32,
    /// Now.
    pub now: Timestamp,
}

/// A worker, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenWorker {
    /// Its number among those of the deployment.
    pub number: u32,
    /// Its revision.
    pub revision: RevisionNumber,
    /// How it is.
    pub phase: WorkerPhase,
    /// Whether it gets no more jobs.
    pub is_draining: bool,
    /// Jobs that it has.
    pub jobs: u32,
}

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPhase {
    /// It has not answered yet, since it was started.
    Starting(Timestamp),
    /// It answers; since when it has no job, if it has none.
    Ready(Option<Timestamp>),
    /// It answered once and does not now, since then.
    Away(Timestamp),
}

/// Jobs that wait for a worker, of accounts that may run them now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub waiting: u64,
    /// How long the oldest has waited.
    pub longest: Duration,
}

/// How the workers of a revision failed since one was last ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How often in a row.
    pub in_row: u32,
    /// When last.
    pub last_at: Timestamp,
    /// Why.
    pub why: String,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make this change of the row.
    Change(DeploymentChange),
    /// Start a worker of this revision.
    Start(RevisionNumber),
    /// Give this worker no more jobs.
    Drain(u32),
    /// Stop this worker, which has no job.
    Stop(u32),
    /// Stop this worker whatever it does: it failed, for this reason.
    Fail(u32, String),
}

impl Failures {
    /// When a worker may be started again.
    #[must_use]
    pub fn over_at(&self) -> Timestamp {
        let doublings = self.in_row.saturating_sub(1).min(16);
        let pause = (PAUSE_S.0 << doublings).min(PAUSE_S.1);
        let pause = SignedDuration::from_secs(pause.cast_signed());
        self.last_at.saturating_add(pause).unwrap_or(Timestamp::MAX)
    }
}

/// What is to be done next. A change of the row comes alone: it is decided anew after it.
#[must_use]
pub fn decide(seen: &Seen<'_>) -> Vec<Step> {
    let deployment = seen.deployment;
    if deployment.is_stopped() {
        return seen.workers.iter().filter_map(wind_down).collect();
    }
    if let Some(change) = seen.outcome() {
        return vec![Step::Change(change)];
    }
    let next = deployment.next.map(|next| next.number);
    let mut steps = Vec::new();
    for worker in seen.workers {
        let is_in_use =
            Some(worker.revision) == deployment.current || Some(worker.revision) == next;
        match seen.failure_of(worker) {
            Some(why) => steps.push(Step::Fail(worker.number, why)),
            None if !is_in_use => steps.extend(wind_down(worker)),
            None => {}
        }
    }
    if let Some(revision) = next.and_then(|number| deployment.revision(number)) {
        let least = match &revision.definition.source {
            // All of them are connected to: which one answers first is not known.
            WorkerSource::Urls(_) => deployment.bounds_of(revision).min,
            WorkerSource::Command(_) => deployment.bounds_of(revision).min.max(1),
        };
        steps.extend(seen.starts(revision, least));
    }
    if let Some(revision) = deployment
        .current
        .and_then(|number| deployment.revision(number))
    {
        let bounds = deployment.bounds_of(revision);
        steps.extend(seen.starts(revision, seen.wanted(revision, bounds)));
        if matches!(revision.definition.source, WorkerSource::Command(_)) {
            steps.extend(seen.surplus(revision, bounds));
        }
    }
    steps
}

/// What leads to the end of a worker that is of no more use.
fn wind_down(worker: &SeenWorker) -> Option<Step> {
    match (worker.jobs, worker.is_draining) {
        (0, _) => Some(Step::Stop(worker.number)),
        (_, false) => Some(Step::Drain(worker.number)),
        (_, true) => None,
    }
}

impl Seen<'_> {
    /// What became of the revisions.
    fn outcome(&self) -> Option<DeploymentChange> {
        let deployment = self.deployment;
        let Some(next) = deployment.next else {
            let current = deployment.current?;
            let failures = self.failures.get(&current);
            let failures = failures.filter(|failures| failures.in_row >= MOST_FAILURES)?;
            let why = format!(
                "its workers failed {} times in a row: {}; mend it, then `deployment start` or `deployment apply`",
                failures.in_row, failures.why
            );
            return Some(DeploymentChange::WorkersFailed(why));
        };
        let is_ready = |worker: &SeenWorker| {
            worker.revision == next.number && matches!(worker.phase, WorkerPhase::Ready(_))
        };
        if self.workers.iter().any(is_ready) {
            return Some(DeploymentChange::RevisionReady(next.number));
        }
        let limit_s = deployment.revision(next.number)?.definition.start_limit_s;
        let failures = self.failures.get(&next.number);
        if let Some(failures) = failures.filter(|failures| failures.in_row >= MOST_FAILURES) {
            let why = format!(
                "its workers failed {} times in a row: {}",
                failures.in_row, failures.why
            );
            return Some(DeploymentChange::RevisionFailed(next.number, why));
        }
        if self.now.duration_since(next.since) <= SignedDuration::from_secs(limit_s.into()) {
            return None;
        }
        let why = match failures {
            Some(failures) => format!("no worker was ready within {limit_s} s: {}", failures.why),
            None => format!("no worker was ready within {limit_s} s"),
        };
        Some(DeploymentChange::RevisionFailed(next.number, why))
    }

    /// Why a worker is to be started anew, if it is. Those with addresses are none of ours to start.
    fn failure_of(&self, worker: &SeenWorker) -> Option<String> {
        let definition = &self.deployment.revision(worker.revision)?.definition;
        if matches!(definition.source, WorkerSource::Urls(_)) {
            return None;
        }
        let limit = SignedDuration::from_secs(definition.start_limit_s.into());
        match worker.phase {
            WorkerPhase::Starting(since) if self.now.duration_since(since) > limit => Some(
                format!("it did not answer within {} s", definition.start_limit_s),
            ),
            WorkerPhase::Away(since) if self.now.duration_since(since) > HUNG_AFTER => {
                Some(format!("it did not answer for {} s", HUNG_AFTER.as_secs()))
            }
            WorkerPhase::Starting(_) | WorkerPhase::Ready(_) | WorkerPhase::Away(_) => None,
        }
    }

    /// The workers of a revision that take jobs, or will.
    fn live(&self, revision: &Revision) -> impl Iterator<Item = &SeenWorker> {
        let number = revision.number;
        let workers = self.workers.iter();
        workers.filter(move |worker| worker.revision == number && !worker.is_draining)
    }

    /// How many workers the current revision should have.
    fn wanted(&self, revision: &Revision, bounds: Bounds) -> u32 {
        let waiting = u32::try_from(self.load.waiting).unwrap_or(u32::MAX);
        let is_late =
            self.load.longest >= Duration::from_secs(revision.definition.scale_after_s.into());
        let ready = self
            .live(revision)
            .filter(|worker| matches!(worker.phase, WorkerPhase::Ready(_)));
        let ready = u32::try_from(ready.count()).unwrap_or(u32::MAX);
        let wanted = match waiting {
            0 => u32::from(self.is_woken),
            _ if is_late => ready.saturating_add(waiting.div_ceil(self.places.max(1))),
            // The first one is not waited for.
            _ => 1,
        };
        wanted.clamp(bounds.min, bounds.max)
    }

    /// Starts what is missing of so many workers, unless the last ones failed a moment ago.
    fn starts(&self, revision: &Revision, wanted: u32) -> Vec<Step> {
        let failures = self.failures.get(&revision.number);
        if failures.is_some_and(|failures| self.now < failures.over_at()) {
            return Vec::new();
        }
        let live = u32::try_from(self.live(revision).count()).unwrap_or(u32::MAX);
        let missing = wanted.saturating_sub(live);
        (0..missing).map(|_| Step::Start(revision.number)).collect()
    }

    /// Ends the workers of the current revision that are too many, or idle for long.
    fn surplus(&self, revision: &Revision, bounds: Bounds) -> Vec<Step> {
        let mut live: Vec<&SeenWorker> = self.live(revision).collect();
        let count = u32::try_from(live.len()).unwrap_or(u32::MAX);
        if count > bounds.max {
            live.sort_by_key(|worker| worker.jobs);
            let surplus = live.into_iter().take((count - bounds.max) as usize);
            return surplus.filter_map(wind_down).collect();
        }
        if self.load.waiting > 0 {
            return Vec::new();
        }
        let window = SignedDuration::from_secs(revision.definition.idle_window_s.into());
        let mut idle: Vec<(Timestamp, u32)> = live
            .iter()
            .filter(|worker| worker.jobs == 0)
            .filter_map(|worker| match worker.phase {
                WorkerPhase::Ready(since) => Some((since?, worker.number)),
                WorkerPhase::Starting(_) | WorkerPhase::Away(_) => None,
            })
            .filter(|(since, _)| self.now.duration_since(*since) >= window)
            .collect();
        idle.sort_unstable();
        let surplus = count.saturating_sub(bounds.min) as usize;
        idle.into_iter()
            .take(surplus)
            .map(|(_, number)| Step::Stop(number))
            .collect()
    }
}

#[cfg(test)]
mod tests;

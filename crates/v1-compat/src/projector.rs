//! What one socket hears: the events of an account's jobs, as the frames that v1 clients know, in the order they know.
//!
//! Holds what a run told so far, for `progress_state` is cumulative, and which jobs are not over, for every change of their
//! number is told. Both begin anew from a snapshot, so nothing here need outlive a slow reader.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use workflow_core::{
    AccountEvent, AccountNews, Job, JobId, JobStatus, NodeEvent, NodeId, RunReport,
};

use crate::{Frame, frames, prompt_id};

/// The class whose pictures clients expect between the two words of its progress.
const HANDS_PICTURES_OVER: &str = "SaveImageWebsocket";

/// How long a job waits before its client is told so. A slot that is free takes a job in a few milliseconds.
const WAITS_UNTOLD: SignedDuration = SignedDuration::from_secs(5);

/// Credits below this many US cents are low. It pays for a few generations of most partners.
const LOW_CREDITS_CENTS: i64 = 100;

/// The view of one socket.
#[derive(Debug, Default)]
pub struct Projector {
    /// Whether the client reads what a picture shows.
    metadata: bool,
    /// Jobs that are not over.
    live: BTreeSet<JobId>,
    /// Jobs that wait, and whose clients were not told so: what the client calls each, and since when it waits.
    untold: BTreeMap<JobId, (JobId, Timestamp)>,
    /// What the client calls the job that last began or ended to run, until the credits after it were looked at.
    spender: Option<JobId>,
    /// Whether the credits were low when they were last looked at.
    is_low: bool,
    runs: HashMap<JobId, Run>,
}

/// A run that the client was told of.
#[derive(Debug)]
struct Run {
    /// What the client calls the job.
    called: JobId,
    /// When it began, which every socket of the account is told alike.
    started_ms: i64,
    report: RunReport,
    /// A word of progress that waits for its picture.
    held: Option<Frame>,
}

impl Projector {
    /// A view of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes down whether the client reads metadata of pictures.
    pub fn set_metadata(&mut self, metadata: bool) {
        self.metadata = metadata;
    }

    /// Begins, or begins again after some news were missed: what is not over, and what runs told so far. The first frame is
    /// the queue's status, with the socket's id in its first message.
    pub fn begin(
        &mut self,
        in_flight: &[Arc<Job>],
        reports: Vec<(JobId, RunReport)>,
        sid: Option<&str>,
    ) -> Vec<Frame> {
        let before = std::mem::take(&mut self.runs);
        // What runs as part of something else is nothing that the client submitted.
        let in_flight = || in_flight.iter().filter(|job| !job.is_part());
        self.live = in_flight().map(|job| job.id).collect();
        let waiting = in_flight().filter(|job| job.status == JobStatus::Queued);
        let waiting = waiting.map(|job| (job.id, (prompt_id(job), job.updated_at)));
        self.untold = waiting.collect();
        let mut told = vec![frames::status(self.live.len(), sid)];
        // What ended unseen has to end for the client, too.
        let mut ended: Vec<(JobId, Run)> = before.into_iter().collect();
        ended.retain(|(id, _)| !self.live.contains(id));
        ended.sort_unstable_by_key(|(id, _)| *id);
        told.extend(
            ended
                .into_iter()
                .map(|(_, run)| frames::executing_nothing(run.called)),
        );

        let reports: HashMap<JobId, RunReport> = reports.into_iter().collect();
        let runs = in_flight().filter(|job| runs(job.status));
        for job in runs {
            let report = reports.get(&job.id).cloned().unwrap_or_default();
            let mut run = Run::of(job);
            let (called, started_ms) = (run.called, run.started_ms);
            told.push(frames::moment("execution_start", called, started_ms));
            if let Some(cached) = &report.cached {
                let data = frames::cached_data(called, cached, started_ms);
                told.push(frames::text("execution_cached", &data));
            }
            if !report.nodes.is_empty() {
                told.push(frames::progress_state(called, &report));
            }
            if let Some((node, _)) = report.current() {
                told.push(frames::executing(called, node));
            }
            run.report = report;
            self.runs.insert(job.id, run);
        }
        told
    }

    /// When [`Projector::waiting`] has something to tell, if nothing else happens before.
    #[must_use]
    pub fn tells_at(&self) -> Option<Timestamp> {
        let since = self.untold.values().map(|(_, since)| *since).min()?;
        since.checked_add(WAITS_UNTOLD).ok()
    }

    /// What the client is told of jobs that wait for a slot since some time.
    pub fn waiting(&mut self, now: Timestamp) -> Vec<Frame> {
        let mut told = Vec::new();
        self.untold.retain(|_, (called, since)| {
            if now.duration_since(*since) < WAITS_UNTOLD {
                return true;
            }
            told.push(notification(*called, "The job waits for a free slot."));
            false
        });
        told
    }

    /// Whether credits may have changed since [`Projector::credits`] was told of them.
    #[must_use]
    pub fn asks_credits(&self) -> bool {
        self.spender.is_some()
    }

    /// What the client is told of the US cents that its account can still spend: only that they became few.
    pub fn credits(&mut self, available_cents: i64) -> Option<Frame> {
        let spender = self.spender.take()?;
        let is_low = available_cents < LOW_CREDITS_CENTS;
        let was_low = std::mem::replace(&mut self.is_low, is_low);
        let cents = available_cents.max(0);
        let value = format!(
            "The account has ${}.{:02} of credits left.",
            cents / 100,
            cents % 100
        );
        (is_low && !was_low).then(|| notification(spender, &value))
    }

    /// The job whose end a piece of news tells, if that was not told yet; asked before [`Projector::news`] is told.
    #[must_use]
    pub fn ended_by<'a>(&self, news: &'a AccountNews) -> Option<&'a Job> {
        let AccountEvent::Saved(job) = &news.event else {
            return None;
        };
        let ends = job.status.is_terminal() && !job.is_withdrawn() && self.live.contains(&job.id);
        ends.then_some(&**job)
    }

    /// What the client is told of a piece of news.
    pub fn news(&mut self, news: &AccountNews) -> Vec<Frame> {
        if let AccountEvent::Saved(job) = &news.event {
            return match job.is_part() {
                true => Vec::new(),
                false => self.saved(job),
            };
        }
        let metadata = self.metadata;
        let Some(run) = self.runs.get_mut(&news.job) else {
            // Of a run that began before the snapshot and ended with it.
            return Vec::new();
        };
        let (called, held) = (run.called, run.held.take());
        match &news.event {
            AccountEvent::Saved(_) => Vec::new(),
            AccountEvent::Node(event) => {
                held.into_iter().chain(run.tell(event, metadata)).collect()
            }
            AccountEvent::StoppedAt(node) => {
                run.report.stopped_at = Some(node.clone());
                held.into_iter().collect()
            }
            AccountEvent::Preview(preview) | AccountEvent::Frame(preview) => {
                let picture = frames::picture(called, preview, metadata);
                std::iter::once(picture).chain(held).collect()
            }
            AccountEvent::Text { node, line } => {
                let line = frames::line(node, line);
                held.into_iter().chain([line]).collect()
            }
        }
    }

    fn saved(&mut self, job: &Job) -> Vec<Frame> {
        let (id, called) = (job.id, prompt_id(job));
        if job.status != JobStatus::Queued {
            self.untold.remove(&id);
        }
        if job.status.is_terminal() {
            return self.ended(job);
        }
        let mut told = Vec::new();
        let is_new = self.live.insert(id);
        if is_new {
            told.push(frames::status(self.live.len(), None));
        }
        match (job.status, self.runs.contains_key(&id)) {
            (JobStatus::Queued, true) => {
                // Its worker is gone, or its server leaves: it will begin again.
                self.runs.remove(&id);
                told.push(frames::executing_nothing(called));
                told.push(notification(called, "The job waits to run again."));
                told.push(frames::status(self.live.len(), None));
            }
            (JobStatus::Queued, false) if is_new => {
                self.untold.insert(id, (called, job.updated_at));
            }
            (JobStatus::Queued, false) => {}
            (JobStatus::Running, false) => {
                let run = Run::of(job);
                told.push(frames::status(self.live.len(), None));
                told.push(frames::moment("execution_start", called, run.started_ms));
                self.runs.insert(id, run);
                self.spender = Some(called);
            }
            // An output was committed, or it is to stop: the nodes themselves tell what clients want to know.
            (JobStatus::Running, true) | (JobStatus::Canceling, _) => {}
            (
                JobStatus::Succeeded | JobStatus::Canceled | JobStatus::Failed | JobStatus::Expired,
                _,
            ) => {}
        }
        told
    }

    fn ended(&mut self, job: &Job) -> Vec<Frame> {
        let (id, at) = (job.id, millis(job.completed_at.unwrap_or(job.updated_at)));
        let was_live = self.live.remove(&id);
        let Some(run) = self.runs.remove(&id) else {
            if !was_live {
                // Its end was told already.
                return Vec::new();
            }
            let status = frames::status(self.live.len(), None);
            let error = frames::error_data(job, &RunReport::default(), at);
            return match error.filter(|_| !job.is_withdrawn()) {
                // It never ran: its client waits for it all the same.
                Some(error) => vec![
                    frames::text("execution_error", &error),
                    status,
                    frames::executing_nothing(prompt_id(job)),
                ],
                None => vec![status],
            };
        };
        let id = run.called;
        if job.is_withdrawn() {
            // The answer to its submission says why. Here it only leaves the queue.
            let status = frames::status(self.live.len(), None);
            return vec![status, frames::executing_nothing(id)];
        }
        self.spender = Some(id);
        let mut told: Vec<Frame> = run.held.into_iter().collect();
        if run.report.cached.is_none() {
            let data = frames::cached_data(id, &[], at);
            told.push(frames::text("execution_cached", &data));
        }
        told.push(match job.status {
            JobStatus::Succeeded => frames::moment("execution_success", id, at),
            JobStatus::Failed | JobStatus::Expired => {
                match frames::error_data(job, &run.report, at) {
                    Some(data) => frames::text("execution_error", &data),
                    None => interrupted(id, &run.report, at),
                }
            }
            JobStatus::Canceled | JobStatus::Queued | JobStatus::Running | JobStatus::Canceling => {
                interrupted(id, &run.report, at)
            }
        });
        told.push(frames::status(self.live.len(), None));
        told.push(frames::executing_nothing(id));
        told
    }
}

impl Run {
    fn of(job: &Job) -> Self {
        Self {
            called: prompt_id(job),
            started_ms: millis(job.started_at.unwrap_or(job.updated_at)),
            report: RunReport::default(),
            held: None,
        }
    }

    fn tell(&mut self, event: &NodeEvent, metadata: bool) -> Vec<Frame> {
        let id = self.called;
        self.report.record(event);
        let state = |run: &Self| frames::progress_state(id, &run.report);
        match event {
            NodeEvent::Cached(nodes) => {
                let data = frames::cached_data(id, nodes, self.started_ms);
                vec![frames::text("execution_cached", &data)]
            }
            NodeEvent::Started { node, .. } => vec![state(self), frames::executing(id, node)],
            NodeEvent::Step { node, step, steps } => {
                let progress = frames::progress(id, node, *step, *steps);
                if metadata && self.hands_over(node) {
                    self.held = Some(progress);
                    return vec![state(self)];
                }
                vec![state(self), progress]
            }
            NodeEvent::Executed { node, ui } => vec![frames::executed(id, node, ui)],
            // Told with the end of the run.
            NodeEvent::Failed { .. } => Vec::new(),
            NodeEvent::Finished { .. } => vec![state(self)],
        }
    }

    fn hands_over(&self, node: &NodeId) -> bool {
        let class = self.report.nodes.get(node);
        let class = class.and_then(|node| node.class.as_deref());
        class == Some(HANDS_PICTURES_OVER)
    }
}

fn interrupted(id: JobId, report: &RunReport, at_ms: i64) -> Frame {
    let data = frames::interrupted_data(id, report, at_ms);
    frames::text("execution_interrupted", &data)
}

fn notification(id: JobId, value: &str) -> Frame {
    let data = serde_json::json!({"value": value, "prompt_id": id.to_string()});
    frames::text("notification", &data)
}

fn runs(status: JobStatus) -> bool {
    matches!(status, JobStatus::Running | JobStatus::Canceling)
}

pub(crate) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

#[cfg(test)]
mod tests;

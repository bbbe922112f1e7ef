//! What a stream has told of its job, and what is news after that.
//!
//! A follower sees snapshots and not events, so news is the difference between two of them. A connection remembers four
//! small things and no queue: however slowly its client reads, the next news is made from the newest snapshot.

use std::sync::Arc;

use workflow_core::{Job, JobOutput, JobStatus, JobView, Live, Preview, Progress};

/// How far a client is.
#[derive(Debug)]
pub(crate) struct StreamCursor {
    status: JobStatus,
    /// Statuses of [`Live::statuses`] that are told or older than what is told.
    statuses: usize,
    outputs: usize,
    progress: Progress,
    preview: Option<Arc<Preview>>,
}

/// Something a client has not heard of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// The job went on to a status that is not its last.
    Status(JobStatus),
    /// It got on.
    Progress(Progress),
    /// It made something.
    Output(JobOutput),
    /// There is something to look at.
    Preview(Arc<Preview>),
    /// It is over; nothing follows.
    Over(Arc<Job>),
}

impl StreamCursor {
    /// What a client that comes now is told at once: the status, how far the job is, every output, the latest picture. A job
    /// that is over is told to its end.
    pub(crate) fn begin(view: &JobView, live: &Live) -> (Self, Vec<News>) {
        let job = &view.job;
        let cursor = Self {
            status: job.status,
            statuses: statuses_before(view, live),
            outputs: job.outputs.len(),
            progress: view.progress.clone(),
            preview: live.preview.clone(),
        };
        let over = job.status.is_terminal();
        let mut news = Vec::with_capacity(job.outputs.len() + 3);
        if !over {
            news.push(News::Status(job.status));
        }
        news.push(News::Progress(view.progress.clone()));
        news.extend(job.outputs.iter().cloned().map(News::Output));
        news.extend(cursor.preview.clone().map(News::Preview));
        if over {
            news.push(News::Over(Arc::clone(job)));
        }
        (cursor, news)
    }

    /// What is new in a snapshot. Progress and pictures are left for later unless `in_time`; before the last status they
    /// are told in any case.
    pub(crate) fn take(&mut self, live: &Live, in_time: bool) -> Vec<News> {
        let mut news = Vec::new();
        let job = live.job.as_ref();
        let over = job.filter(|job| job.status.is_terminal());

        let passed = live.statuses.get(self.statuses..).unwrap_or_default();
        for status in passed.iter().filter(|status| !status.is_terminal()) {
            if *status != self.status {
                self.status = *status;
                news.push(News::Status(*status));
            }
        }
        self.statuses = self.statuses.max(live.statuses.len());

        if in_time || over.is_some() {
            news.extend(self.progress_of(live).map(News::Progress));
        }
        let outputs = job.and_then(|job| job.outputs.get(self.outputs..));
        for output in outputs.unwrap_or_default() {
            self.outputs += 1;
            news.push(News::Output(output.clone()));
        }
        if in_time || over.is_some() {
            news.extend(self.preview_of(live).map(News::Preview));
        }
        if let Some(job) = over {
            self.status = job.status;
            news.push(News::Over(Arc::clone(job)));
        }
        news
    }

    /// Whether a snapshot has progress or a picture that [`StreamCursor::take`] would leave for later.
    pub(crate) fn is_behind(&self, live: &Live) -> bool {
        let progress = live.progress.as_ref();
        progress.is_some_and(|progress| self.is_newer(progress)) || self.is_other(live)
    }

    fn progress_of(&mut self, live: &Live) -> Option<Progress> {
        // The row of a job that is over is ahead of the last snapshot of its run.
        let saved = live.job.as_ref().map(|job| &job.progress);
        let newest = [live.progress.as_ref(), saved]
            .into_iter()
            .flatten()
            .filter(|progress| self.is_newer(progress))
            .reduce(|a, b| if b.value > a.value { b } else { a })?;
        self.progress = newest.clone();
        Some(newest.clone())
    }

    /// A snapshot that shows less than what is told is older, or of a run that began anew: nothing goes back.
    fn is_newer(&self, progress: &Progress) -> bool {
        progress.value >= self.progress.value && *progress != self.progress
    }

    fn preview_of(&mut self, live: &Live) -> Option<Arc<Preview>> {
        if self.is_other(live) {
            self.preview.clone_from(&live.preview);
            return self.preview.clone();
        }
        None
    }

    fn is_other(&self, live: &Live) -> bool {
        match (&live.preview, &self.preview) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(new), Some(told)) => !Arc::ptr_eq(new, told),
        }
    }
}

/// How many statuses of a snapshot are not news to somebody who has seen the view. The snapshot may be older than the view,
/// or newer, and may have begun after the job's first statuses.
fn statuses_before(view: &JobView, live: &Live) -> usize {
    let is_newer = live
        .job
        .as_ref()
        .is_some_and(|job| job.revision > view.job.revision);
    if !is_newer {
        return live.statuses.len();
    }
    let seen = live
        .statuses
        .iter()
        .rposition(|status| *status == view.job.status);
    seen.map_or(0, |position| position + 1)
}

#[cfg(test)]
mod tests;

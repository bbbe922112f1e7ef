//! The jobs that something happened to last, of which a bounded number is remembered.

use std::collections::VecDeque;

use crate::JobId;

/// How many jobs are remembered: more than end here while the changes of other replicas are on their way, a quarter of a second
/// at most unless a replica begins with the rows again.
const REMEMBERED: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct RecentJobs(VecDeque<JobId>);

impl RecentJobs {
    pub(super) fn push(&mut self, job: JobId) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(job);
    }

    pub(super) fn contains(&self, job: JobId) -> bool {
        // The newest first: what is asked for ended a moment ago, if it is here.
        self.0.iter().rev().any(|known| *known == job)
    }
}

//! Who is next: first in, first out within an account, accounts taking turns.
//!
//! A store that keeps its queue in memory keeps one of these beside its rows and tells it of every job it saves.

use std::collections::{HashMap, VecDeque};

use accounts::AccountId;

use crate::{Job, JobId, JobStatus, QueueDepth};

/// The queued jobs in the order they will be claimed, and how many of each account run.
#[derive(Debug, Default)]
pub struct Lineup {
    /// Accounts with queued jobs, the one whose turn it is first.
    turns: VecDeque<AccountId>,
    lines: HashMap<AccountId, VecDeque<Waiting>>,
    running: HashMap<AccountId, u32>,
}

/// A queued job. `order` grows with every submission; a job that is queued again keeps its place.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    order: u64,
    id: JobId,
}

impl Lineup {
    /// Nobody waits, nothing runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes note of a job's change from `before` (`None` for a new job or a store that opens) to `job`. `order` is the
    /// number of its submission.
    pub fn note(&mut self, before: Option<JobStatus>, job: &Job, order: u64) {
        let (was, is) = (before.map(Place::of), Place::of(job.status));
        if was == Some(is) {
            return;
        }
        match was {
            Some(Place::Waiting) => self.leave(&job.account, order),
            Some(Place::Running) => self.count(&job.account, -1),
            Some(Place::Over) | None => {}
        }
        match is {
            Place::Waiting => self.join(&job.account, Waiting { order, id: job.id }),
            Place::Running => self.count(&job.account, 1),
            Place::Over => {}
        }
    }

    /// The next job that fits: `fits` is told how many jobs of the account run already. Its account's turn is then over.
    pub fn next(&mut self, mut fits: impl FnMut(JobId, u32) -> bool) -> Option<JobId> {
        for turn in 0..self.turns.len() {
            let account = &self.turns[turn];
            let running = self.running.get(account).copied().unwrap_or(0);
            let waiting = self.lines.get(account).into_iter().flatten();
            if let Some(id) = waiting
                .map(|waiting| waiting.id)
                .find(|id| fits(*id, running))
            {
                if let Some(account) = self.turns.remove(turn) {
                    self.turns.push_back(account);
                }
                return Some(id);
            }
        }
        None
    }

    /// How many jobs come before this one if every account has room and no others arrive.
    #[must_use]
    pub fn position(&self, account: &AccountId, order: u64) -> Option<u64> {
        let ahead = self.find(account, order)?;
        let turn = self.turns.iter().position(|other| other == account)?;
        let others = self
            .turns
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != turn);
        let before_me = others.map(|(other, account)| {
            // Until it is this job's turn, accounts in front have one turn more than this account had.
            let turns = if other < turn { ahead + 1 } else { ahead };
            turns.min(self.lines.get(account).map_or(0, VecDeque::len))
        });
        Some((ahead + before_me.sum::<usize>()) as u64)
    }

    /// Queued jobs of an account.
    #[must_use]
    pub fn queued(&self, account: &AccountId) -> usize {
        self.lines.get(account).map_or(0, VecDeque::len)
    }

    /// How much waits and runs.
    #[must_use]
    pub fn depth(&self) -> QueueDepth {
        QueueDepth {
            queued: self.lines.values().map(|line| line.len() as u64).sum(),
            running: self
                .running
                .values()
                .map(|running| u64::from(*running))
                .sum(),
        }
    }

    fn join(&mut self, account: &AccountId, waiting: Waiting) {
        let line = self.lines.entry(account.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(account.clone());
        }
        let place = line.partition_point(|other| other.order < waiting.order);
        line.insert(place, waiting);
    }

    fn leave(&mut self, account: &AccountId, order: u64) {
        let Some(place) = self.find(account, order) else {
            return;
        };
        let Some(line) = self.lines.get_mut(account) else {
            return;
        };
        line.remove(place);
        if line.is_empty() {
            self.lines.remove(account);
            self.turns.retain(|other| other != account);
        }
    }

    fn find(&self, account: &AccountId, order: u64) -> Option<usize> {
        self.lines
            .get(account)?
            .binary_search_by_key(&order, |waiting| waiting.order)
            .ok()
    }

    fn count(&mut self, account: &AccountId, change: i32) {
        let running = self.running.entry(account.clone()).or_default();
        *running = running.saturating_add_signed(change);
        if *running == 0 {
            self.running.remove(account);
        }
    }
}

/// Where a job stands as far as the queue is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Running,
    Over,
}

impl Place {
    fn of(status: JobStatus) -> Self {
        match status {
            JobStatus::Queued => Self::Waiting,
            JobStatus::Running | JobStatus::Canceling => Self::Running,
            JobStatus::Succeeded | JobStatus::Canceled | JobStatus::Failed | JobStatus::Expired => {
                Self::Over
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::new_job;

    fn account(name: &str) -> AccountId {
        name.parse().expect("a valid name")
    }

    /// A line-up in which these accounts submitted in this order; jobs are numbered from 0.
    fn lineup(accounts: &[&str]) -> (Lineup, Vec<Job>) {
        let mut lineup = Lineup::new();
        let jobs: Vec<Job> = accounts
            .iter()
            .enumerate()
            .map(|(n, name)| new_job(n as u128, &account(name)))
            .collect();
        for (order, job) in jobs.iter().enumerate() {
            lineup.note(None, job, order as u64);
        }
        (lineup, jobs)
    }

    fn claim(lineup: &mut Lineup, jobs: &mut [Job], room: u32) -> Option<usize> {
        let id = lineup.next(|_, running| running < room)?;
        let n = jobs.iter().position(|job| job.id == id)?;
        jobs[n].status = JobStatus::Running;
        lineup.note(Some(JobStatus::Queued), &jobs[n], n as u64);
        Some(n)
    }

    #[test]
    fn accounts_take_turns_and_positions_say_so_exactly() {
        let (mut lineup, mut jobs) = lineup(&["a", "a", "a", "b", "c", "b"]);
        let positions: Vec<_> = (0..6)
            .map(|n| lineup.position(&jobs[n].account, n as u64))
            .collect();
        let mut claimed = Vec::new();
        while let Some(n) = claim(&mut lineup, &mut jobs, 9) {
            claimed.push(n);
        }
        assert_eq!(claimed, [0, 3, 4, 1, 5, 2]);
        for (place, n) in claimed.iter().enumerate() {
            assert_eq!(positions[*n], Some(place as u64), "job {n}");
        }
        assert_eq!(
            lineup.depth(),
            QueueDepth {
                queued: 0,
                running: 6
            }
        );
    }

    #[test]
    fn an_account_without_room_is_passed_over() {
        let (mut lineup, mut jobs) = lineup(&["a", "a", "b"]);
        let claimed: Vec<_> = std::iter::from_fn(|| claim(&mut lineup, &mut jobs, 1)).collect();
        assert_eq!(claimed, [0, 2]);
        jobs[0].status = JobStatus::Succeeded;
        lineup.note(Some(JobStatus::Running), &jobs[0], 0);
        assert_eq!(claim(&mut lineup, &mut jobs, 1), Some(1));
    }

    #[test]
    fn a_job_that_is_queued_again_keeps_its_place() {
        let (mut lineup, mut jobs) = lineup(&["a", "a", "a"]);
        claim(&mut lineup, &mut jobs, 9);
        jobs[0].status = JobStatus::Queued;
        lineup.note(Some(JobStatus::Running), &jobs[0], 0);
        assert_eq!(lineup.position(&jobs[0].account, 0), Some(0));
        assert_eq!(lineup.position(&jobs[2].account, 2), Some(2));
    }
}

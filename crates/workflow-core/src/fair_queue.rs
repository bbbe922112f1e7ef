//! Who is next: first in, first out within an account, accounts taking turns.
//!
//! The order follows from what a store has: the number of each submission, and the number that each account's last claim got
//! from the same sequence ([`turn`]). So replicas that share a store agree on it, and a restart does not change it. A store
//! that keeps its queue in memory keeps one [`FairQueue`] beside its rows and notes in it every job that it saves.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use accounts::AccountId;

use crate::{Job, JobId, JobStatus, QueueDepth, RequirementId, RequirementSet, Rooms};

/// When it is an account's turn: the smallest number is next.
///
/// `oldest` is the number of its oldest job that can run now, `last_claim` the number of its last claim, where it has one.
/// Both come from one growing sequence. An account that comes back after a pause therefore queues up behind those that wait,
/// and one that was just served queues up behind all of them.
#[must_use]
pub fn turn(last_claim: Option<u64>, oldest: u64) -> u64 {
    last_claim.map_or(oldest, |claim| claim.max(oldest))
}

/// The queued jobs in the order they will be claimed, and how many of each account run.
#[derive(Debug, Default)]
pub struct FairQueue {
    lines: HashMap<AccountId, Line>,
    /// Accounts with queued jobs, by the turn they would have if all of their jobs could run: never later than their real one.
    turns: BTreeSet<(u64, AccountId)>,
    running: HashMap<AccountId, u32>,
    /// The number of an account's last claim, while it has jobs that wait or run. Without any it is of no more use, since every
    /// later submission has a larger number.
    claims: HashMap<AccountId, u64>,
    /// The sets of queued jobs, and of how many.
    sets: HashMap<RequirementId, (RequirementSet, u64)>,
    /// `sets` as it is shown, until it changes.
    shown: Option<Arc<[RequirementSet]>>,
    queued: u64,
    /// The largest number so far.
    latest: u64,
}

/// What decides where and when a job may run, beside its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedAs {
    /// The number of its submission.
    pub order: u64,
    /// What it needs.
    pub requirements: RequirementSet,
    /// How many jobs of the account may run at once.
    pub account_room: u32,
}

/// The job that is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Which it is.
    pub job: JobId,
    /// The number of this claim: the store keeps it as the account's last one.
    pub claim: u64,
}

/// The queued jobs of an account.
#[derive(Debug, Default)]
struct Line {
    jobs: VecDeque<Waiting>,
    /// The numbers of those of each set, oldest first.
    by_set: HashMap<RequirementId, VecDeque<u64>>,
}

/// A queued job. A job that is queued again keeps its place.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    order: u64,
    id: JobId,
    account_room: u32,
}

impl FairQueue {
    /// Nobody waits, nothing runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next number of the sequence that submissions and claims share.
    pub fn number(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    /// Continues the sequence behind this number: a store that opens has given it out, perhaps to a job that is over.
    pub fn continue_after(&mut self, number: u64) {
        self.latest = self.latest.max(number);
    }

    /// Takes over what a store that opens has of the account's last claim.
    pub fn note_claim(&mut self, account: &AccountId, claim: u64) {
        self.continue_after(claim);
        if self.lines.contains_key(account) || self.running.contains_key(account) {
            self.set_claim(account, claim);
        }
    }

    /// Takes note of a job's change from `before` (`None` for a new job or a store that opens) to `job`.
    pub fn note(&mut self, before: Option<JobStatus>, job: &Job, queued: &QueuedAs) {
        self.latest = self.latest.max(queued.order);
        let (was, is) = (before.map(QueueStage::of), QueueStage::of(job.status));
        if was == Some(is) {
            return;
        }
        match was {
            Some(QueueStage::Waiting) => self.leave(&job.account, queued),
            Some(QueueStage::Running) => self.count(&job.account, -1),
            Some(QueueStage::Over) | None => {}
        }
        match is {
            QueueStage::Waiting => self.join(job, queued),
            QueueStage::Running => self.count(&job.account, 1),
            QueueStage::Over => {}
        }
        if !self.lines.contains_key(&job.account) && !self.running.contains_key(&job.account) {
            self.claims.remove(&job.account);
        }
    }

    /// The next job among those of `sets` whose account has room. Its account's turn is then over.
    pub fn next(&mut self, sets: &HashSet<RequirementId>, rooms: &Rooms) -> Option<Next> {
        let mut best: Option<(u64, &AccountId, JobId)> = None;
        for (at_the_earliest, account) in &self.turns {
            if best.is_some_and(|(turn, ..)| turn <= *at_the_earliest) {
                break;
            }
            let first = self.lines.get(account).and_then(|line| line.first_of(sets));
            let Some(first) = first else { continue };
            let running = self.running.get(account).copied().unwrap_or(0);
            if !rooms.allow(account, running, first.account_room) {
                continue;
            }
            let turn = turn(self.claims.get(account).copied(), first.order);
            if best.is_none_or(|(other, ..)| turn < other) {
                best = Some((turn, account, first.id));
            }
        }
        let (_, account, job) = best?;
        let account = account.clone();
        let claim = self.number();
        self.set_claim(&account, claim);
        Some(Next { job, claim })
    }

    /// How many jobs come before this one if every account has room, every job can run, and no others arrive.
    #[must_use]
    pub fn position(&self, account: &AccountId, order: u64) -> Option<u64> {
        let ahead = self.lines.get(account)?.find(order)?;
        let turn = self.turns.iter().position(|(_, other)| other == account)?;
        let others = self
            .turns
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != turn);
        let before_me = others.map(|(other, (_, account))| {
            // Until it is this job's turn, accounts in front have one turn more than this account had.
            let turns = if other < turn { ahead + 1 } else { ahead };
            turns.min(self.queued(account))
        });
        Some((ahead + before_me.sum::<usize>()) as u64)
    }

    /// How many jobs of these sets wait that their accounts have room for, and the oldest of them.
    #[must_use]
    pub fn waiting(&self, sets: &HashSet<RequirementId>) -> (u64, Option<JobId>) {
        let (mut jobs, mut oldest): (u64, Option<&Waiting>) = (0, None);
        for (account, line) in &self.lines {
            let Some(first) = line.first_of(sets) else {
                continue;
            };
            let running = self.running.get(account).copied().unwrap_or(0);
            let room = first.account_room.saturating_sub(running);
            let able = line.by_set.iter().filter(|(set, _)| sets.contains(set));
            let able: u64 = able.map(|(_, orders)| orders.len() as u64).sum();
            if room > 0 {
                jobs += able.min(room.into());
                let older = oldest.filter(|other| other.order < first.order);
                oldest = Some(older.unwrap_or(first));
            }
        }
        (jobs, oldest.map(|first| first.id))
    }

    /// The requirement sets of queued jobs.
    pub fn sets(&mut self) -> Arc<[RequirementSet]> {
        let sets = &self.sets;
        let shown = self
            .shown
            .get_or_insert_with(|| sets.values().map(|(set, _)| set.clone()).collect());
        Arc::clone(shown)
    }

    /// Queued jobs of an account.
    #[must_use]
    pub fn queued(&self, account: &AccountId) -> usize {
        self.lines.get(account).map_or(0, |line| line.jobs.len())
    }

    /// How much waits and runs.
    #[must_use]
    pub fn depth(&self) -> QueueDepth {
        QueueDepth {
            queued: self.queued,
            running: self
                .running
                .values()
                .map(|running| u64::from(*running))
                .sum(),
        }
    }

    fn join(&mut self, job: &Job, queued: &QueuedAs) {
        let before = self.turn_of(&job.account);
        let line = self.lines.entry(job.account.clone()).or_default();
        let place = line
            .jobs
            .partition_point(|other| other.order < queued.order);
        let waiting = Waiting {
            order: queued.order,
            id: job.id,
            account_room: queued.account_room,
        };
        line.jobs.insert(place, waiting);
        let set = queued.requirements.id();
        let of_set = line.by_set.entry(set).or_default();
        let place = of_set.partition_point(|other| *other < queued.order);
        of_set.insert(place, queued.order);

        self.queued += 1;
        let (_, count) = self.sets.entry(set).or_insert_with(|| {
            self.shown = None;
            (queued.requirements.clone(), 0)
        });
        *count += 1;
        self.move_turn(&job.account, before);
    }

    fn leave(&mut self, account: &AccountId, queued: &QueuedAs) {
        let before = self.turn_of(account);
        let set = queued.requirements.id();
        let Some(line) = self.lines.get_mut(account) else {
            return;
        };
        let Some(place) = line.find(queued.order) else {
            return;
        };
        line.jobs.remove(place);
        if let Some(of_set) = line.by_set.get_mut(&set) {
            of_set.retain(|other| *other != queued.order);
            if of_set.is_empty() {
                line.by_set.remove(&set);
            }
        }
        if line.jobs.is_empty() {
            self.lines.remove(account);
        }

        self.queued -= 1;
        if let Some((_, count)) = self.sets.get_mut(&set) {
            *count -= 1;
            if *count == 0 {
                self.sets.remove(&set);
                self.shown = None;
            }
        }
        self.move_turn(account, before);
    }

    fn set_claim(&mut self, account: &AccountId, claim: u64) {
        let before = self.turn_of(account);
        self.claims.insert(account.clone(), claim);
        self.move_turn(account, before);
    }

    /// The turn that an account has in `turns`, if it has queued jobs.
    fn turn_of(&self, account: &AccountId) -> Option<u64> {
        let oldest = self.lines.get(account)?.jobs.front()?.order;
        Some(turn(self.claims.get(account).copied(), oldest))
    }

    fn move_turn(&mut self, account: &AccountId, before: Option<u64>) {
        let now = self.turn_of(account);
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.turns.remove(&(before, account.clone()));
        }
        if let Some(now) = now {
            self.turns.insert((now, account.clone()));
        }
    }

    fn count(&mut self, account: &AccountId, change: i32) {
        let running = self.running.entry(account.clone()).or_default();
        *running = running.saturating_add_signed(change);
        if *running == 0 {
            self.running.remove(account);
        }
    }
}

impl Line {
    fn find(&self, order: u64) -> Option<usize> {
        self.jobs
            .binary_search_by_key(&order, |waiting| waiting.order)
            .ok()
    }

    /// The oldest job of one of these sets.
    fn first_of(&self, sets: &HashSet<RequirementId>) -> Option<&Waiting> {
        let able = self.by_set.iter().filter(|(set, _)| sets.contains(set));
        let order = able.filter_map(|(_, orders)| orders.front()).min()?;
        self.jobs.get(self.find(*order)?)
    }
}

/// Where a job stands as far as the queue is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueStage {
    Waiting,
    Running,
    Over,
}

impl QueueStage {
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
mod tests;

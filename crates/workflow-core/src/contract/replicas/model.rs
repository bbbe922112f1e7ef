//! What is true of the jobs of two replicas, kept in the plainest way.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use accounts::{AccountId, Fingerprint};
use asset_store::AssetId;
use jiff::Timestamp;

use crate::{
    ClaimRequest, Epoch, InsertFacts, InsertJob, InsertJobOutcome, Job, JobEvent, JobId, JobStatus,
    LeaseNews, OutputName, QueueDepth, RequirementId, RequirementSet, Requirements, SaveJob,
    SaveOutcome, WorkerId, overdue, turn,
};

/// Needs of which one of the two workers knows nothing.
pub(super) fn other_set() -> RequirementSet {
    Requirements::of_engine("other").to_set()
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) jobs: BTreeMap<u128, Known>,
    keys: HashMap<(AccountId, [u8; 32]), (Fingerprint, u128)>,
    /// The last number of the sequence that submissions and claims share.
    latest: u64,
    last_claims: HashMap<AccountId, u64>,
    /// Names of outputs that were given out.
    named: HashMap<AccountId, u64>,
    workers: HashMap<WorkerId, Timestamp>,
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) job: Arc<Job>,
    pub(super) lease_until: Timestamp,
    order: u64,
    set: RequirementId,
    account_room: u32,
    inputs: Vec<AssetId>,
}

impl Known {
    fn runs(&self) -> bool {
        matches!(self.job.status, JobStatus::Running | JobStatus::Canceling)
    }
}

impl Model {
    pub(super) fn insert(&mut self, insert: InsertJob, now: Timestamp) -> InsertJobOutcome {
        let account = insert.job.account.clone();
        let key = insert.claim.as_ref().map(|claim| {
            let place = (account.clone(), claim.digest);
            (place, claim.fingerprint)
        });
        let known_key = key.as_ref().and_then(|(place, _)| {
            let (fingerprint, n) = self.keys.get(place)?;
            let known = self
                .jobs
                .get(n)
                .filter(|known| !known.job.is_expired(now))?;
            Some((*fingerprint, Arc::clone(&known.job)))
        });
        let queued = |of: Option<&AccountId>| {
            let queued = self.jobs.values().filter(|known| {
                known.job.status == JobStatus::Queued
                    && of.is_none_or(|account| known.job.account == *account)
            });
            queued.count() as u64
        };
        let facts = InsertFacts {
            known_key,
            queued: queued(Some(&account)),
            queued_in_all: queued(None),
            ..InsertFacts::default()
        };
        if let Some(refusal) = insert.refusal(&facts) {
            return refusal;
        }
        self.latest += 1;
        let n = insert.job.id.0.as_u128();
        if let Some((place, fingerprint)) = key {
            self.keys.insert(place, (fingerprint, n));
        }
        let job = Arc::new(insert.job);
        let known = Known {
            job: Arc::clone(&job),
            lease_until: now,
            order: self.latest,
            set: insert.body.placement.requirements.id(),
            account_room: insert.body.placement.account_room,
            inputs: insert.inputs,
        };
        self.jobs.insert(n, known);
        InsertJobOutcome::Inserted(job)
    }

    /// The job whose turn it is, among those that a worker can run.
    fn next(&self, request: &ClaimRequest) -> Option<u128> {
        let mut oldest: HashMap<&AccountId, (&u128, &Known)> = HashMap::new();
        for (n, known) in &self.jobs {
            if known.job.status == JobStatus::Queued && request.sets.contains(&known.set) {
                let place = oldest.entry(&known.job.account).or_insert((n, known));
                if known.order < place.1.order {
                    *place = (n, known);
                }
            }
        }
        let with_room = oldest.into_iter().filter(|(account, (_, known))| {
            let of_account = |other: &&Known| other.job.account == **account && other.runs();
            let running = self.jobs.values().filter(of_account).count();
            running < known.account_room as usize
        });
        let turns = with_room.map(|(account, (n, known))| {
            let last = self.last_claims.get(account).copied();
            (turn(last, known.order), *n)
        });
        turns.min().map(|(_, n)| n)
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Option<Arc<Job>> {
        let n = self.next(request)?;
        self.latest += 1;
        let known = self.jobs.get_mut(&n)?;
        known.lease_until = accounts::lapses_at(now, request.lease);
        let mut job = Job::clone(&known.job);
        self.last_claims.insert(job.account.clone(), self.latest);
        let worker = request.worker;
        let claimed = job.apply(JobEvent::Claimed { worker }, now);
        claimed.expect("it is queued");
        Some(self.put(job))
    }

    pub(super) fn save(&mut self, save: SaveJob) -> SaveOutcome {
        let mut job = save.job;
        let known = self.jobs.get(&job.id.0.as_u128());
        if known.is_none_or(|known| known.job.revision != job.revision) {
            return SaveOutcome::Conflict;
        }
        for output in save.outputs {
            if job.has(&output) {
                continue;
            }
            let number = self.named.entry(job.account.clone()).or_default();
            *number += 1;
            let OutputName::Counted { .. } = output.name else {
                panic!("the suite counts its outputs");
            };
            let path = output.name.path(*number).expect("a valid name");
            job.outputs.push(output.committed(path));
        }
        SaveOutcome::Saved(self.put(job))
    }

    /// Lets everything happen that is overdue; the jobs that changed.
    pub(super) fn reap(&mut self, queued_before: Timestamp, now: Timestamp) -> Vec<Arc<Job>> {
        let lapse = |known: &Known| {
            let event = overdue(&known.job, known.lease_until, queued_before, now)?;
            let mut job = Job::clone(&known.job);
            job.apply(event, now).expect("it is overdue");
            Some(job)
        };
        let overdue: Vec<Job> = self.jobs.values().filter_map(lapse).collect();
        overdue.into_iter().map(|job| self.put(job)).collect()
    }

    /// Keeps a job as it was saved.
    pub(super) fn keep(&mut self, job: Arc<Job>) {
        if let Some(known) = self.jobs.get_mut(&job.id.0.as_u128()) {
            known.job = job;
        }
    }

    /// Keeps the next revision of a job.
    pub(super) fn put(&mut self, mut job: Job) -> Arc<Job> {
        job.revision += 1;
        let job = Arc::new(job);
        if let Some(known) = self.jobs.get_mut(&job.id.0.as_u128()) {
            known.job = Arc::clone(&job);
        }
        job
    }

    pub(super) fn renew(
        &mut self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        until: Timestamp,
    ) -> Vec<LeaseNews> {
        let counts = self.workers.entry(worker).or_insert(until);
        *counts = (*counts).max(until);
        let mut news = Vec::new();
        for (id, epoch) in claims {
            let Some(known) = self.jobs.get_mut(&id.0.as_u128()) else {
                news.push(LeaseNews::Lost);
                continue;
            };
            let is_mine = known.job.epoch == *epoch && known.job.worker == Some(worker);
            news.push(match known.job.status {
                JobStatus::Running if is_mine => LeaseNews::Renewed,
                JobStatus::Canceling if is_mine => LeaseNews::CancelWanted,
                JobStatus::Queued
                | JobStatus::Running
                | JobStatus::Canceling
                | JobStatus::Succeeded
                | JobStatus::Canceled
                | JobStatus::Failed
                | JobStatus::Expired => LeaseNews::Lost,
            });
            if news.last() != Some(&LeaseNews::Lost) {
                known.lease_until = until;
            }
        }
        news
    }

    /// Whether a job that is not over needs a file.
    pub(super) fn holds(&self, input: AssetId) -> bool {
        self.jobs
            .values()
            .any(|known| !known.job.status.is_terminal() && known.inputs.contains(&input))
    }

    pub(super) fn depth(&self) -> QueueDepth {
        let queued = |known: &&Known| known.job.status == JobStatus::Queued;
        QueueDepth {
            queued: self.jobs.values().filter(queued).count() as u64,
            running: self.jobs.values().filter(|known| known.runs()).count() as u64,
        }
    }

    pub(super) fn waiting_sets(&self) -> HashSet<RequirementId> {
        let queued = self.jobs.values();
        let queued = queued.filter(|known| known.job.status == JobStatus::Queued);
        queued.map(|known| known.set).collect()
    }

    pub(super) fn present(&self, now: Timestamp) -> HashSet<WorkerId> {
        let present = self.workers.iter().filter(|(_, until)| **until > now);
        present.map(|(worker, _)| *worker).collect()
    }
}

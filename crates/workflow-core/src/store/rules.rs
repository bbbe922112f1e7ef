//! What every job store decides in the same way: whether a job is taken in, which outputs of a save are new, which jobs a list
//! has. A store finds out the facts and calls these.

use std::sync::Arc;

use accounts::Fingerprint;
use asset_store::{Asset, AssetId, fits};
use jiff::Timestamp;

use super::{InsertJob, InsertJobOutcome, JobQuery, SaveJob};
use crate::{Job, JobOutput, NewOutput};

/// What a store finds out before it takes a job in, all of it in the transaction of the insert.
#[derive(Clone, Debug, Default)]
pub struct InsertFacts {
    /// If the submission has a key that was claimed before: what its request was, and its job, unless that is expired. Nothing
    /// else counts then.
    pub known_key: Option<(Fingerprint, Arc<Job>)>,
    /// Whether there is a job of this id, of whatever account and age.
    pub id_is_taken: bool,
    /// Queued jobs of the account.
    pub queued: u64,
    /// Queued jobs of all accounts.
    pub queued_in_all: u64,
    /// Bytes that the account has stored; of no meaning for a placement without a bound.
    pub stored_bytes: u64,
    /// An input that the account does not have.
    pub missing_input: Option<AssetId>,
}

impl InsertJob {
    /// Why a job is not taken in; `None` if it is. What a key stands for is answered first, then what is wrong with the id, the
    /// bounds of the queue, the bytes of the account, and the inputs.
    #[must_use]
    pub fn refusal(&self, facts: &InsertFacts) -> Option<InsertJobOutcome> {
        if let (Some(claim), Some((fingerprint, job))) = (&self.claim, &facts.known_key) {
            return Some(match *fingerprint == claim.fingerprint {
                true => InsertJobOutcome::Replayed(Arc::clone(job)),
                false => InsertJobOutcome::KeyReused(job.id),
            });
        }
        if facts.id_is_taken {
            return Some(InsertJobOutcome::IdTaken);
        }
        let bounds = self.bounds;
        if facts.queued >= u64::from(bounds.account)
            || facts.queued_in_all >= u64::from(bounds.total)
        {
            return Some(InsertJobOutcome::QueueFull);
        }
        let most = self.body.placement.stored_bytes;
        if !fits(facts.stored_bytes, self.body.stored_bytes(), most) {
            return Some(InsertJobOutcome::QuotaExceeded);
        }
        facts.missing_input.map(InsertJobOutcome::InputGone)
    }
}

impl SaveJob {
    /// Whether it was made of this state of its job: of its newest revision, under the claim that counts. After a crash that took
    /// a claim back, the revision of another worker's claim is the same.
    #[must_use]
    pub fn follows(&self, current: &Job) -> bool {
        let of = |job: &Job| (job.revision, job.epoch, job.worker);
        self.job.account == current.account && of(&self.job) == of(current)
    }

    /// Whether an output is to be committed that the job has not.
    #[must_use]
    pub fn has_new_outputs(&self) -> bool {
        self.outputs.iter().any(|output| !self.job.has(output))
    }

    /// Whether new outputs are refused, for an account that has so many bytes stored and may have `most`. An output is kept while
    /// less than that is stored, so the last one may go beyond it.
    #[must_use]
    pub fn exceeds(&self, stored_bytes: u64, most: Option<u64>) -> bool {
        self.has_new_outputs() && most.is_some_and(|most| stored_bytes >= most)
    }
}

impl Job {
    /// Whether an output is committed already: by node and index, whatever else it says.
    #[must_use]
    pub fn has(&self, output: &NewOutput) -> bool {
        let same =
            |known: &JobOutput| known.node_id == output.node_id && known.index == output.index;
        self.outputs.iter().any(same)
    }

    /// The record of one of its outputs, as it is made with the commit.
    #[must_use]
    pub fn record_of(&self, output: &JobOutput) -> Asset {
        Asset {
            id: output.asset,
            account: self.account.clone(),
            hash: output.hash,
            size_bytes: output.size_bytes,
            content_type: output.content_type.clone(),
            file_path: Some(output.path.clone()),
            tags: Vec::new(),
            created_at: self.updated_at,
            // Until the job ends it cannot expire, and neither can what it made.
            expires_at: None,
            job_id: Some(self.id.0),
        }
    }
}

impl JobQuery {
    /// Whether a job is in the list, apart from the limits.
    #[must_use]
    pub fn fits(&self, job: &Job, now: Timestamp) -> bool {
        let is_behind = self
            .after
            .is_none_or(|after| (job.created_at, job.id) < (after.created_at, after.id));
        let is_labelled = self
            .labels
            .iter()
            .all(|(key, value)| job.metadata.get(key) == Some(value));
        let stands = self
            .over
            .is_none_or(|over| job.status.is_terminal() == over)
            && (self.statuses.is_empty() || self.statuses.contains(&job.status));
        job.account == self.account && !job.is_expired(now) && is_behind && is_labelled && stands
    }

    /// Puts jobs that fit into the order of a list, and cuts it where it is longer than it may be.
    pub fn arrange(&self, jobs: &mut Vec<Arc<Job>>) {
        jobs.sort_unstable_by_key(|job| std::cmp::Reverse((job.created_at, job.id)));
        let within = super::within(jobs, self.outputs).saturating_add(1);
        jobs.truncate(within.min(self.limit));
    }
}

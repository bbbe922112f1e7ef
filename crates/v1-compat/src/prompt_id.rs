//! Ids that clients choose for their submissions. Every account has its own.
//!
//! The ids of jobs are those of the whole installation. Were a chosen id the job's own, one that another account's job has
//! would have to be refused, which tells that it is there. So a job's id is made of the account and of what it chose, and the
//! job bears the chosen id as a label, which is what v1 calls it by.

use accounts::AccountId;
use asset_store::BlobHash;
use uuid::{Builder, Uuid};
use workflow_core::{Job, JobId, Metadata};

/// The label with the id that a client chose.
const LABEL: &str = "prompt_id";

/// The id of the job that this account calls so.
#[must_use]
pub fn job_of(account: &AccountId, chosen: JobId) -> JobId {
    let what = format!("easel prompt id\n{account}\n{chosen}");
    let hash = BlobHash::of(what.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    JobId(Builder::from_custom_bytes(bytes).into_uuid())
}

/// The labels of a job whose id was chosen.
#[must_use]
pub fn labels(chosen: JobId) -> Metadata {
    Metadata::from([(LABEL.to_owned(), chosen.to_string())])
}

/// What v1 calls a job: by the id that its client chose, or else by its own. A label of this name that came in another way
/// names nothing.
#[must_use]
pub fn prompt_id(job: &Job) -> JobId {
    let label = job.metadata.get(LABEL);
    let chosen = label.and_then(|label| label.parse::<Uuid>().ok());
    let chosen = chosen.map(JobId);
    let is_its_own = |chosen: &JobId| job_of(&job.account, *chosen) == job.id;
    chosen.filter(is_its_own).unwrap_or(job.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_accounts_choose_never_meets() {
        let account = |id: &str| id.parse::<AccountId>().expect("an account");
        let chosen = JobId(Uuid::from_u128(7));
        let mine = job_of(&account("a"), chosen);
        assert_eq!(mine, job_of(&account("a"), chosen));
        assert_ne!(mine, job_of(&account("b"), chosen));
        assert_ne!(mine, job_of(&account("a"), JobId(Uuid::from_u128(8))));
        assert_ne!(mine, chosen);
    }
}

//! Secrets that came with submissions: kept in this process' memory until their job ends, and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use accounts::AccountId;
use secrecy::SecretString;

use crate::{JobId, WorkerId};

/// Secrets by job. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Secrets {
    holder: WorkerId,
    by_job: Arc<Mutex<ByJob>>,
}

type ByJob = HashMap<JobId, (AccountId, SecretString)>;

impl Secrets {
    /// No secrets yet, in the process of this worker: jobs that come with one name it as their holder.
    #[must_use]
    pub fn new(holder: WorkerId) -> Self {
        Self {
            holder,
            by_job: Arc::default(),
        }
    }

    /// The worker in whose process they are.
    #[must_use]
    pub fn holder(&self) -> WorkerId {
        self.holder
    }

    /// Keeps the secret of an account's job, unless there is one of it already; whether it is kept.
    #[must_use]
    pub fn put(&self, account: &AccountId, job: JobId, secret: SecretString) -> bool {
        let mut secrets = self.lock();
        let is_new = !secrets.contains_key(&job);
        if is_new {
            secrets.insert(job, (account.clone(), secret));
        }
        is_new
    }

    /// The secret of a job, while this process holds it.
    #[must_use]
    pub fn get(&self, job: JobId) -> Option<SecretString> {
        self.lock().get(&job).map(|(_, secret)| secret.clone())
    }

    /// The jobs whose secrets this process holds, and whose they are.
    #[must_use]
    pub fn jobs(&self) -> Vec<(JobId, AccountId)> {
        let secrets = self.lock();
        let jobs = secrets.iter();
        jobs.map(|(job, (account, _))| (*job, account.clone()))
            .collect()
    }

    /// Forgets the secret of a job that has ended or was never accepted.
    pub fn forget(&self, job: JobId) {
        self.lock().remove(&job);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ByJob> {
        // Every change is one insert or remove: a panic elsewhere cannot have left the map half-changed.
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

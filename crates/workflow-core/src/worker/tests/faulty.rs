//! A store that fails as a test says.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::{InsertJob, InsertJobOutcome, JobBody, JobLog, JobQuery};

/// A job store whose next saves fail.
pub(super) struct Faulty {
    pub(super) inner: Arc<MemoryJobs>,
    pub(super) failures: AtomicUsize,
    /// How many saves it does not answer.
    pub(super) absences: AtomicUsize,
    /// How many saves it does without an answer.
    pub(super) lost_answers: AtomicUsize,
    /// How many jobs it takes in without an answer.
    pub(super) silent_inserts: AtomicUsize,
    /// What the next load gives: a job as it was before the last save.
    pub(super) stale: Mutex<Option<Arc<Job>>>,
}

impl Faulty {
    /// One that does not fail yet.
    pub(super) fn over(inner: Arc<MemoryJobs>) -> Self {
        Self {
            inner,
            failures: AtomicUsize::new(0),
            absences: AtomicUsize::new(0),
            lost_answers: AtomicUsize::new(0),
            silent_inserts: AtomicUsize::new(0),
            stale: Mutex::default(),
        }
    }
}

#[async_trait]
impl JobStore for Faulty {
    async fn insert(
        &self,
        insert: InsertJob,
        now: Timestamp,
    ) -> Result<InsertJobOutcome, StoreError> {
        let inserted = self.inner.insert(insert, now).await;
        let one_less = |left: usize| left.checked_sub(1);
        if self
            .silent_inserts
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .is_ok()
        {
            std::future::pending::<()>().await;
        }
        inserted
    }

    async fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(accounts::Fingerprint, Arc<Job>)>, StoreError> {
        self.inner.claimed(account, digest, now).await
    }

    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError> {
        if let Some(stale) = self.stale.lock().expect("no test panics with it").take() {
            return Ok(Some(stale));
        }
        self.inner.load(account, id, now).await
    }

    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError> {
        let fails = |left: usize| left.checked_sub(1);
        if self
            .absences
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails)
            .is_ok()
        {
            return Err(StoreError::Unavailable("it is away".into()));
        }
        if self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails)
            .is_ok()
        {
            return Err(StoreError::Full("no room".into()));
        }
        let saved = self.inner.save(save).await;
        if self
            .lost_answers
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails)
            .is_ok()
        {
            return Err(StoreError::Unavailable("the connection broke".into()));
        }
        saved
    }

    async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<Vec<Arc<Job>>, StoreError> {
        self.inner.list(query, now).await
    }

    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, StoreError> {
        self.inner.body(account, id, now).await
    }

    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, StoreError> {
        self.inner.log(account, id, now).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.inner.expire(now, limit).await
    }
}

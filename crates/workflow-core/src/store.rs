//! The port to the rows of jobs.

mod rules;

use std::sync::Arc;

use accounts::{AccountId, Fingerprint};
use asset_store::{AssetId, BoxError, KeyClaim};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use trace_context::TraceContext;

use crate::{Job, JobId, JobStatus, NewOutput, Report, RequirementSet, ResolvedFiles, RunReport};

pub use rules::InsertFacts;

/// What lies beside a job and never changes: enough to run it, or to run it again.
#[derive(Clone, Debug, PartialEq)]
pub struct JobBody {
    /// The graph, byte for byte as it was submitted.
    pub workflow: Bytes,
    /// The files that the graph names, as they were found at submission.
    pub files: ResolvedFiles,
    /// The output nodes to run; `None` runs all of them. Those that are invalid are passed over.
    pub targets: Option<Vec<String>>,
    /// What the submission wants to be written into pictures besides the graph: the text of a JSON object, empty without any. It
    /// is read by the worker that runs the job alone.
    pub extra_pnginfo: String,
    /// What the API that took the submission must remember of it; opaque below it.
    pub origin: Bytes,
    /// Where and when it may run.
    pub placement: Placement,
    /// The trace that its runs continue.
    pub trace: Option<TraceContext>,
}

/// Where and when a job may run. Settled at submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// What it needs of the worker that claims it. Stores keep one copy of each set and never interpret it.
    pub requirements: RequirementSet,
    /// How many jobs of the account may run at once.
    pub account_room: u32,
    /// Most bytes that the account may have stored; `None` for no bound.
    pub stored_bytes: Option<u64>,
}

impl JobBody {
    /// How many bytes of the account it takes while its job is kept.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        (self.workflow.len() + self.origin.len() + self.extra_pnginfo.len()) as u64
    }
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Queued jobs of the account.
    pub account: u32,
    /// Queued jobs of all accounts.
    pub total: u32,
}

/// A job to be taken in.
#[derive(Clone, Debug)]
pub struct InsertJob {
    /// The job, queued.
    pub job: Job,
    /// What lies beside it.
    pub body: JobBody,
    /// The key to be claimed with it.
    pub claim: Option<KeyClaim>,
    /// Records to be held while the job is queued or running.
    pub inputs: Vec<AssetId>,
    /// How much may wait.
    pub bounds: QueueBounds,
}

/// What became of an insert.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertJobOutcome {
    /// The job is in.
    Inserted(Arc<Job>),
    /// The key was claimed before by the same request: its job as it stands now.
    Replayed(Arc<Job>),
    /// The key was claimed before by another request.
    KeyReused(JobId),
    /// A bound is reached; nothing was kept, and the key is free.
    QueueFull,
    /// The body would take the account beyond the bytes of its placement; nothing was kept, and the key is free.
    QuotaExceeded,
    /// There is a job of this id, of whatever account; nothing was kept.
    IdTaken,
    /// A record went away between its look-up and now; nothing was kept.
    InputGone(AssetId),
}

/// Whether a save must have reached the disk when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A client gets it: it must survive.
    Now,
    /// The run that saves it goes on to save what comes next, and nobody else is told of this one before that.
    WithNext,
    /// Losing it only means doing it again.
    Lazy,
}

/// A change of a job.
#[derive(Clone, Debug)]
pub struct SaveJob {
    /// The job after [`Job::apply`]; its `revision` is the one it was loaded with, its `outputs` the committed ones.
    pub job: Job,
    /// Outputs to be committed with it.
    pub outputs: Vec<NewOutput>,
    /// What the run wrote, kept with the job in place of what was kept before.
    pub log: Option<JobLog>,
    /// What the run reported that nobody was told before this save: other replicas hear of it directly before they hear of the
    /// save, or of neither ([`crate::Changes`]).
    pub reports: Vec<Report>,
    /// When it must be on disk.
    pub durability: Durability,
}

/// What became of a save.
#[derive(Clone, Debug, PartialEq)]
pub enum SaveOutcome {
    /// Saved, with the next revision and the committed outputs among the others.
    Saved(Arc<Job>),
    /// Another save or claim came in between: load it and look again.
    Conflict,
    /// There are new outputs, and the account has used up the bytes of the job's placement; nothing was saved.
    QuotaExceeded,
}

/// The text that a run wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLog {
    /// Lines, each ended by a line feed.
    pub text: String,
    /// Whether earlier lines were dropped to stay within the bound.
    pub truncated: bool,
    /// When it was taken down.
    pub captured_at: Timestamp,
    /// Whether the run is over, so that nothing will follow.
    pub complete: bool,
    /// What it told of its nodes.
    pub report: RunReport,
}

/// A position in a list of jobs: behind this one, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCursor {
    /// When the last job of the page was submitted.
    pub created_at: Timestamp,
    /// Which it was.
    pub id: JobId,
}

/// Which jobs are asked for.
#[derive(Clone, Debug)]
pub struct JobQuery {
    /// Whose.
    pub account: AccountId,
    /// Labels that must be there, key and value.
    pub labels: Vec<(String, String)>,
    /// Only jobs that are over, or only those that are not.
    pub over: Option<bool>,
    /// Only jobs in one of these states; all of them if it is empty.
    pub statuses: Vec<JobStatus>,
    /// Where to go on.
    pub after: Option<JobCursor>,
    /// At most this many.
    pub limit: usize,
    /// The list ends with the next job once those before it have this many outputs together: a job may have thousands.
    pub outputs: usize,
}

/// How many jobs of a list it takes until they have so many outputs together.
pub(crate) fn within(jobs: &[Arc<Job>], outputs: usize) -> usize {
    let mut before = 0;
    let within = jobs.iter().take_while(|job| {
        let is_within = before < outputs;
        before += job.outputs.len();
        is_within
    });
    within.count()
}

/// The rows cannot be read or written now.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too much is waiting to be written.
    #[error("the job store is overloaded")]
    Busy,
    /// No room is left; it heals by itself when there is room again.
    #[error("the job store is full")]
    Full(#[source] BoxError),
    /// Reading or writing failed.
    #[error("the job store is unavailable")]
    Unavailable(#[source] BoxError),
}

/// Jobs, their bodies and their logs.
///
/// **Contract.** Every method is one transaction. What returns with [`Durability::Now`], and every insert, is on disk. What
/// is saved with [`Durability::WithNext`] is the newest revision for every later save; a store may keep it to itself until
/// the job is next saved, which is then on disk whole. A save that conflicts with it brings it to disk, so that a load
/// finds it. A store never judges a transition: it keeps what [`Job::apply`] made, if the save follows what is kept
/// ([`SaveJob::follows`]). Another account's job is absent; so is a terminal one
/// past its `expires_at`, swept or not.
///
/// The bytes of bodies and outputs count as stored bytes of their account ([`asset_store::AssetRecords`]). A body that does
/// not fit is refused. An output is kept while less than the bound is stored, so the last one may go beyond it: what a run
/// took hours for is not lost for its last byte.
///
/// A job that is saved in a terminal state releases the holds on its inputs; its outputs are held until it is expired, and
/// their records expire with it.
#[async_trait]
pub trait JobStore: Send + Sync + 'static {
    /// Takes a job in with its key and its holds, within the bounds.
    async fn insert(
        &self,
        insert: InsertJob,
        now: Timestamp,
    ) -> Result<InsertJobOutcome, StoreError>;

    /// What a key of the account stands for: the fingerprint of the request that claimed it, and its job as it was last saved.
    async fn claimed(
        &self,
        account: &AccountId,
        digest: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<(Fingerprint, Arc<Job>)>, StoreError>;

    /// A job as it was last saved.
    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError>;

    /// Saves a change of a job and commits its new outputs. An output of a job, node and index that is committed already
    /// stays as it is. The name of a counted output is allocated here.
    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError>;

    /// Jobs newest first (by `created_at`, then id).
    async fn list(&self, query: &JobQuery, now: Timestamp) -> Result<Vec<Arc<Job>>, StoreError>;

    /// What lies beside a job.
    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<JobBody>>, StoreError>;

    /// What a job's run wrote; `None` also while it has written nothing.
    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<JobLog>, StoreError>;

    /// Deletes at most `limit` jobs past their `expires_at` with what lies beside them, releases the holds on their outputs,
    /// and forgets keys that are over; answers how many jobs went.
    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

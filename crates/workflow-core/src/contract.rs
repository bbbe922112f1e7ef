//! What every job store and queue must answer, written once and run on each.
//!
//! A store's tests call [`job_store`], which runs every rule on a fresh store, so that no store can leave one out. A broken
//! rule panics at the assertion that states it.

mod as_memory;
mod changes;
mod commit;
mod deployments;
mod lists;
mod queue;
mod replicas;
mod submit;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Fingerprint};
use asset_store::{Asset, AssetId, AssetRecords, BlobHash, InsertAsset, InsertRule, KeyClaim};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use trace_context::TraceContext;
use uuid::Uuid;

use crate::{
    Claim, ClaimRequest, Durability, Epoch, InsertJob, InsertJobOutcome, Job, JobBody, JobEvent,
    JobId, JobQueue, JobStatus, JobStore, Metadata, NewOutput, OutputKind, OutputName, Placement,
    Progress, QueueBounds, RequirementSet, Requirements, ResolvedFiles, Rooms, SaveJob,
    SaveOutcome, WorkerId,
};

pub use as_memory::as_memory;
pub use changes::{Replicas, changes};
pub use deployments::deployments;
pub use replicas::replicas;

/// A fresh store: three faces of one.
#[derive(Clone)]
pub struct Stores {
    /// Its jobs.
    pub jobs: Arc<dyn JobStore>,
    /// Their queue.
    pub queue: Arc<dyn JobQueue>,
    /// The records that their outputs become.
    pub records: Arc<dyn AssetRecords>,
}

/// A rule, run on a fresh store.
type Rule = fn(Stores) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs every rule on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn job_store(fresh: impl Fn() -> Stores) {
    let rules: [&[Rule]; 4] = [&submit::RULES, &lists::RULES, &commit::RULES, &queue::RULES];
    for rule in rules.into_iter().flatten() {
        rule(fresh()).await;
    }
}

/// A queued job, the `n`th of an account, kept for an hour once it is over.
#[must_use]
pub fn new_job(n: u128, account: &AccountId) -> Job {
    let created_at = at(i64::try_from(n).unwrap_or(0));
    let retention = SignedDuration::from_hours(1);
    Job {
        id: JobId(Uuid::from_u128(n)),
        account: account.clone(),
        revision: 0,
        status: JobStatus::Queued,
        epoch: Epoch(0),
        worker: None,
        lost_claims: 0,
        created_at,
        updated_at: created_at,
        started_at: None,
        completed_at: None,
        expires_at: created_at + retention,
        retention,
        progress: Progress::start(2),
        outputs: Vec::new(),
        error: None,
        metadata: Metadata::new(),
    }
}

/// `second` seconds after the suites begin.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

fn account(name: &str) -> AccountId {
    name.parse().expect("the suites use valid names")
}

fn insert_of(n: u128, name: &str) -> InsertJob {
    InsertJob {
        job: new_job(n, &account(name)),
        body: JobBody {
            workflow: Bytes::from(format!("{{\"{n}\": {{}}}}")),
            files: ResolvedFiles::new(),
            targets: None,
            extra_pnginfo: String::new(),
            origin: Bytes::from_static(b"\x00opaque"),
            placement: Placement {
                requirements: known(),
                account_room: 2,
                stored_bytes: None,
            },
            trace: TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        },
        claim: None,
        inputs: Vec::new(),
        bounds: QueueBounds {
            account: 100,
            total: 100,
        },
    }
}

fn keyed(insert: InsertJob, key: u8, fingerprint: u8) -> InsertJob {
    let claim = KeyClaim {
        digest: [key; 32],
        fingerprint: Fingerprint([fingerprint; 32]),
        expires_at: at(86_400),
    };
    InsertJob {
        claim: Some(claim),
        ..insert
    }
}

async fn submit(stores: &Stores, insert: InsertJob) -> Arc<Job> {
    let now = insert.job.created_at;
    match stores
        .jobs
        .insert(insert, now)
        .await
        .expect("the store takes it")
    {
        InsertJobOutcome::Inserted(job) => job,
        refused @ (InsertJobOutcome::Replayed(_)
        | InsertJobOutcome::KeyReused(_)
        | InsertJobOutcome::QueueFull
        | InsertJobOutcome::QuotaExceeded
        | InsertJobOutcome::IdTaken
        | InsertJobOutcome::InputGone(_)) => {
            panic!("a plain submission was answered {refused:?}")
        }
    }
}

/// Makes a record to be used as an input.
async fn upload(stores: &Stores, n: u128, name: &str) -> AssetId {
    let asset = Asset {
        id: AssetId(Uuid::from_u128(1_000_000 + n)),
        account: account(name),
        hash: BlobHash::of(&n.to_be_bytes()),
        size_bytes: 16,
        content_type: "image/png".to_owned(),
        file_path: None,
        tags: Vec::new(),
        created_at: at(0),
        expires_at: Some(at(1_000_000)),
        job_id: None,
    };
    let id = asset.id;
    let insert = InsertAsset {
        asset,
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    stores
        .records
        .insert(insert, at(0))
        .await
        .expect("the store takes it");
    id
}

fn worker(n: u128) -> WorkerId {
    WorkerId(Uuid::from_u128(n))
}

/// What most jobs of the suites need.
fn known() -> RequirementSet {
    Requirements::of_engine("known").to_set()
}

/// A worker that runs what is [`known`] and leases for 30 seconds.
fn request(n: u128) -> ClaimRequest {
    ClaimRequest {
        worker: worker(n),
        sets: HashSet::from([known().id()]),
        rooms: Rooms::default(),
        lease: Duration::from_secs(30),
    }
}

async fn claim(stores: &Stores, n: u128, now: Timestamp) -> Option<Claim> {
    stores
        .queue
        .claim(&request(n), now)
        .await
        .expect("the queue answers")
}

/// Lets an event happen to a job and saves it with these outputs.
async fn apply(
    stores: &Stores,
    job: &Job,
    event: JobEvent,
    outputs: Vec<NewOutput>,
    now: Timestamp,
) -> Arc<Job> {
    let mut job = job.clone();
    job.apply(event, now).expect("the suites apply what fits");
    let save = SaveJob {
        job,
        outputs,
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    match stores.jobs.save(save).await.expect("the store takes it") {
        SaveOutcome::Saved(job) => job,
        SaveOutcome::QuotaExceeded => panic!("no bound is set"),
        SaveOutcome::Conflict => panic!("nobody else saved this job"),
    }
}

fn advanced(job: &Job) -> JobEvent {
    JobEvent::Advanced {
        epoch: job.epoch,
        progress: Progress {
            value: 0.5,
            nodes_done: 1,
            ..Progress::start(2)
        },
    }
}

fn picture(node: &str, index: u32, asset: u128) -> NewOutput {
    NewOutput {
        node_id: node.into(),
        index,
        kind: OutputKind::Image,
        temp: false,
        name: OutputName::Counted {
            counter: "art/pic".to_owned(),
            stem: "art/pic".to_owned(),
            extension: "png".to_owned(),
        },
        content_type: "image/png".to_owned(),
        size_bytes: 16,
        asset: AssetId(Uuid::from_u128(asset)),
        hash: BlobHash::of(&asset.to_be_bytes()),
    }
}

async fn load(stores: &Stores, job: &Job, now: Timestamp) -> Option<Arc<Job>> {
    stores
        .jobs
        .load(&job.account, job.id, now)
        .await
        .expect("the store answers")
}

//! The contract of jobs on SQLite, and what only a restart shows.

mod put_off;
mod requirements;
mod restarts;

use std::sync::Mutex;

use asset_store::{
    Asset, AssetId, AssetRecords, BlobHash, InsertAsset, InsertRule, KeyClaim, Removal,
};
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::SignedDuration;
use tempfile::TempDir;
use trace_context::TraceContext;
use uuid::Uuid;
use workflow_core::contract::{self, Stores, new_job};
use workflow_core::{
    ClaimRequest, JobErrorCode, JobQueue, NewOutput, OutputKind, OutputName, Placement,
    QueueBounds, RequirementSet, Requirements, ResolvedFiles, Rooms, WorkerId,
};

use super::*;
use crate::{Clock, Store, StoreOptions};

fn root() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

/// The store as a process that starts at this second finds it.
fn store(root: &TempDir, second: i64) -> Store {
    let clock = Clock::new(move || at(second));
    Store::open_with(
        root.path(),
        StoreOptions {
            clock,
            ..StoreOptions::default()
        },
    )
    .expect("the store opens")
}

fn acme() -> AccountId {
    "acme".parse().expect("a valid name")
}

fn needs() -> RequirementSet {
    Requirements::of_engine("native").to_set()
}

fn submission(n: u128) -> InsertJob {
    InsertJob {
        job: new_job(n, &acme()),
        body: JobBody {
            workflow: Bytes::from(format!("{{\"{n}\": {{}}}}")),
            files: ResolvedFiles::new(),
            targets: Some(vec!["9".to_owned()]),
            extra_pnginfo: String::new(),
            origin: Bytes::from_static(b"\x00opaque"),
            placement: Placement {
                requirements: needs(),
                account_room: 100,
                stored_bytes: None,
            },
            trace: TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        },
        claim: None,
        inputs: Vec::new(),
        bounds: QueueBounds {
            account: 1_000,
            total: 1_000,
        },
    }
}

async fn submit(jobs: &SqliteJobs, n: u128) -> Arc<Job> {
    let outcome = jobs.insert(submission(n), at(0)).await.expect("an answer");
    let InsertJobOutcome::Inserted(job) = outcome else {
        panic!("{outcome:?}");
    };
    job
}

async fn claim(jobs: &SqliteJobs, now: Timestamp) -> workflow_core::Claim {
    let request = ClaimRequest {
        worker: WorkerId(Uuid::from_u128(1)),
        sets: [needs().id()].into(),
        rooms: Rooms::default(),
        lease: std::time::Duration::from_secs(30),
    };
    let claim = jobs.claim(&request, now).await.expect("an answer");
    claim.expect("a job is next")
}

async fn load(jobs: &SqliteJobs, id: JobId) -> Arc<Job> {
    let job = jobs.load(&acme(), id, at(1)).await.expect("an answer");
    job.expect("the job is there")
}

async fn apply(jobs: &SqliteJobs, job: &Job, event: JobEvent) -> Arc<Job> {
    apply_with(jobs, job, event, Vec::new()).await
}

async fn apply_with(
    jobs: &SqliteJobs,
    job: &Job,
    event: JobEvent,
    outputs: Vec<NewOutput>,
) -> Arc<Job> {
    let mut job = job.clone();
    job.apply(event, at(1)).expect("it fits");
    let save = SaveJob {
        outputs,
        ..plain(job)
    };
    match jobs.save(save).await.expect("an answer") {
        SaveOutcome::Saved(job) => job,
        SaveOutcome::QuotaExceeded => panic!("no bound is set"),
        SaveOutcome::Conflict => panic!("nobody else saved it"),
    }
}

fn output(asset: u128) -> NewOutput {
    NewOutput {
        node_id: "9".into(),
        index: 0,
        kind: OutputKind::Image,
        temp: false,
        name: OutputName::Counted {
            counter: "picture".to_owned(),
            stem: "picture".to_owned(),
            extension: "png".to_owned(),
        },
        content_type: "image/png".to_owned(),
        size_bytes: 1,
        asset: AssetId(Uuid::from_u128(asset)),
        hash: BlobHash::of(b"picture"),
    }
}

fn stores(store: &Store) -> Stores {
    let jobs = Arc::new(store.jobs());
    Stores {
        jobs: Arc::clone(&jobs) as Arc<dyn JobStore>,
        queue: jobs,
        records: Arc::new(store.records()),
    }
}

#[tokio::test]
async fn jobs_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::job_store(|| {
        let root = root();
        let store = store(&root, 0);
        roots.lock().expect("no panic").push(root);
        stores(&store)
    })
    .await;
}

#[tokio::test]
async fn rows_answer_any_calls_as_memory_does() {
    let fresh = async || {
        let root = root();
        let store = store(&root, 0);
        (stores(&store), (root, store.jobs()))
    };
    contract::as_memory(fresh, async |(_, jobs)| {
        let summed = jobs.database.read(|rows| {
            let sum = "SELECT (SELECT ifnull(sum(size_bytes), 0) FROM assets)
                + (SELECT ifnull(sum(length(workflow) + length(origin)), 0) FROM job_bodies)";
            rows.query_row(sum, [], |row| row.get::<_, i64>(0))
        });
        let summed = summed.await.expect("a sum");
        summed.try_into().expect("no less than none")
    })
    .await;
}

/// Saves an output that may wait for the next save of its job.
async fn deferred(jobs: &SqliteJobs, job: &Job, output: NewOutput) -> SaveOutcome {
    let mut next = job.clone();
    let (epoch, progress) = (job.epoch, job.progress.clone());
    next.apply(JobEvent::Advanced { epoch, progress }, at(1))
        .expect("it runs");
    let save = SaveJob {
        outputs: vec![output],
        durability: Durability::WithNext,
        reports: Vec::new(),
        ..plain(next)
    };
    jobs.save(save).await.expect("an answer")
}

#[tokio::test]
async fn an_output_that_waits_for_the_next_save_is_seen_by_nobody_and_goes_with_the_process() {
    let root = root();
    let before = store(&root, 0);
    let jobs = before.jobs();
    submit(&jobs, 1).await;
    let claimed = claim(&jobs, at(1)).await.job;
    let SaveOutcome::Saved(newest) = deferred(&jobs, &claimed, output(1)).await else {
        panic!("nobody else saved it");
    };
    assert_eq!(newest.outputs.len(), 1);
    assert_eq!(load(&jobs, claimed.id).await, claimed);
    let asset = newest.outputs[0].asset;
    let record = before.records().get(&acme(), asset, at(1)).await;
    assert_eq!(record.expect("an answer"), None);
    drop((before, jobs));

    let after = store(&root, 10);
    let again = claim(&after.jobs(), at(11)).await.job;
    assert_eq!((again.id, again.outputs.len()), (claimed.id, 0));
    assert!(matches!(
        deferred(&after.jobs(), &claimed, output(1)).await,
        SaveOutcome::Conflict
    ));
    let epoch = again.epoch;
    let end = JobEvent::Finished { epoch };
    let ended = apply_with(&after.jobs(), &again, end, vec![output(1)]).await;
    assert_eq!(ended.outputs[0].asset, asset);
}

#[tokio::test]
async fn a_live_job_is_told_without_a_query_and_a_finished_one_too() {
    let root = root();
    let store = store(&root, 0);
    let jobs = store.jobs();
    let job = submit(&jobs, 1).await;
    let canceled = {
        let job = submit(&jobs, 2).await;
        apply(&jobs, &job, JobEvent::CancelRequested).await
    };
    // The rows tell another story.
    let forged = jobs.database.write(database::Durability::Now, |rows| {
        rows.execute("UPDATE jobs SET message = 'from the row'", [])
    });
    forged.await.expect("two rows");
    for job in [job, canceled] {
        assert_eq!(load(&jobs, job.id).await, job);
    }
    let listed = jobs.list(&query(), at(1)).await.expect("an answer");
    assert!(listed.iter().all(|job| job.progress.message.is_none()));
}

fn query() -> JobQuery {
    JobQuery {
        over: None,
        statuses: Vec::new(),
        account: acme(),
        labels: Vec::new(),
        after: None,
        limit: 100,
        outputs: usize::MAX,
    }
}

#[tokio::test]
async fn a_job_that_was_not_written_after_all_is_nowhere() {
    let root = root();
    let store = store(&root, 0);
    let jobs = store.jobs();
    let kept = submit(&jobs, 1).await;
    let refused = jobs.insert(submission(1), at(1)).await;
    assert!(matches!(refused, Ok(InsertJobOutcome::IdTaken)));
    assert_eq!(jobs.depth().await.expect("an answer").queued, 1);

    // SQLite's own limit answers exactly as a full disk does.
    let limit = async |pages: i64| {
        let set = jobs.write(database::Durability::Now, move |rows, _| {
            rows.query_row(&format!("PRAGMA max_page_count={pages}"), [], |_| Ok(()))
        });
        set.await.expect("a setting");
    };
    limit(1).await;
    let mut large = submission(2);
    large.body.workflow = vec![b' '; 1 << 20].into();
    let refused = jobs.insert(large.clone(), at(1)).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let gone = jobs.load(&acme(), large.job.id, at(1)).await;
    assert_eq!(gone.expect("an answer"), None);
    assert_eq!(jobs.depth().await.expect("an answer").queued, 1);

    let mut changed = Job::clone(&kept);
    changed
        .apply(JobEvent::CancelRequested, at(1))
        .expect("it is queued");
    let log = workflow_core::JobLog {
        text: "x".repeat(1 << 20),
        truncated: false,
        captured_at: at(1),
        complete: true,
        report: workflow_core::RunReport::default(),
    };
    let save = SaveJob {
        log: Some(log),
        ..plain(changed)
    };
    let refused = jobs.save(save.clone()).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(load(&jobs, kept.id).await, kept);
    let position = jobs.position(&acme(), kept.id).await;
    assert_eq!(position.expect("an answer"), Some(0));

    limit(1 << 30).await;
    jobs.insert(large, at(1)).await.expect("room again");
    let saved = jobs.save(save).await.expect("room again");
    assert!(matches!(saved, SaveOutcome::Saved(job) if job.status == JobStatus::Canceled));
    assert_eq!(jobs.depth().await.expect("an answer").queued, 1);
}

#[tokio::test]
async fn submissions_that_share_a_commit_keep_the_bounds_and_the_turns() {
    let root = root();
    let jobs = store(&root, 0).jobs();
    let bounded = (1..=20).map(|n| {
        let mut insert = submission(n);
        insert.bounds.account = 5;
        jobs.insert(insert, at(0))
    });
    let outcomes = join_all(bounded).await;
    let inserted = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(InsertJobOutcome::Inserted(_))));
    assert_eq!(inserted.count(), 5);
    let claims = join_all((0..5).map(|_| claim(&jobs, at(1)))).await;
    let mut ids: Vec<JobId> = claims.iter().map(|claim| claim.job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn a_body_that_found_no_room_on_the_board_is_read_from_its_row() {
    let root = root();
    let jobs = store(&root, 0).jobs();
    for n in 1..=3 {
        let mut insert = submission(n);
        insert.body.workflow = vec![b' '; 10 << 20].into();
        jobs.insert(insert, at(0)).await.expect("an answer");
    }
    for _ in 1..=3 {
        let claim = claim(&jobs, at(1)).await;
        assert_eq!(claim.body.workflow.len(), 10 << 20);
    }
}

#[tokio::test]
async fn a_sweep_leaves_no_row_behind() {
    let root = root();
    let store = store(&root, 0);
    let (jobs, records) = (store.jobs(), store.records());
    let input = Asset {
        id: AssetId(Uuid::from_u128(50)),
        account: acme(),
        hash: BlobHash::of(b"input"),
        size_bytes: 5,
        content_type: "image/png".to_owned(),
        file_path: None,
        tags: Vec::new(),
        created_at: at(0),
        expires_at: None,
        job_id: None,
    };
    let upload = InsertAsset {
        asset: input.clone(),
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    records.insert(upload, at(0)).await.expect("an answer");
    let mut insert = submission(1);
    insert.job.metadata = [("k".to_owned(), "v".to_owned())].into();
    insert.inputs = vec![input.id];
    insert.claim = Some(KeyClaim {
        digest: [1; 32],
        fingerprint: accounts::Fingerprint([1; 32]),
        expires_at: at(86_400),
    });
    jobs.insert(insert, at(0)).await.expect("an answer");
    let job = claim(&jobs, at(1)).await.job;
    let (epoch, progress) = (job.epoch, job.progress.clone());
    let job = apply_with(
        &jobs,
        &job,
        JobEvent::Advanced { epoch, progress },
        vec![output(1)],
    )
    .await;
    let mut ended = Job::clone(&job);
    ended
        .apply(JobEvent::Finished { epoch }, at(2))
        .expect("it runs");
    let save = SaveJob {
        log: Some(JobLog {
            text: String::new(),
            truncated: false,
            captured_at: at(2),
            complete: true,
            report: workflow_core::RunReport::default(),
        }),
        ..plain(ended)
    };
    jobs.save(save).await.expect("an answer");
    let later = at(2) + SignedDuration::from_hours(1);
    assert_eq!(jobs.expire(later, 10).await.expect("an answer"), 1);
    assert_eq!(records.expire(later, 10).await.expect("an answer"), 1);
    let removed = records.remove(&acme(), input.id, later).await;
    assert_eq!(removed.expect("an answer"), Removal::Removed);

    let left = jobs.read(|rows| {
        let mut tables = rows.prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'job%' OR name LIKE 'asset%'
             AND type = 'table'",
        )?;
        let tables = tables.query_map([], |row| row.get::<_, String>(0))?;
        let mut left = Vec::new();
        for table in tables {
            let table = table?;
            let count = rows.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
            left.push((table, count));
        }
        Ok::<Vec<(String, i64)>, _>(left)
    });
    let left = left.await.expect("an answer");
    assert_eq!(left.len(), 9, "{left:?}");
    assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
}

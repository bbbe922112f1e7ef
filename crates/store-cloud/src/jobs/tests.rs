//! The contract of jobs on PostgreSQL.

mod clock;
mod crash;
mod looks;
mod storm;
mod zombies;

use std::sync::Arc;

use accounts::AccountId;
use asset_store::{AssetId, BlobHash};
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::Timestamp;
use trace_context::TraceContext;
use uuid::Uuid;
use workflow_core::contract::{self, Stores, new_job};
use workflow_core::{
    ClaimRequest, Durability, InsertJob, Job, JobBody, JobErrorCode, JobEvent, JobId, JobQueue,
    JobStore, NewOutput, OutputKind, OutputName, Placement, QueueBounds, RequirementSet,
    Requirements, ResolvedFiles, Rooms, SaveJob, WorkerId,
};

use super::*;
use crate::records::PgRecords;
use crate::testing;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

fn acme() -> AccountId {
    "acme".parse().expect("a valid name")
}

fn needs() -> RequirementSet {
    Requirements::of_engine("native").to_set()
}

fn jobs(database: &Database) -> PgJobs {
    PgJobs::start(database.clone(), PgChanges::start(database.clone()))
}

pub(crate) fn ports(database: &Database, changes: &PgChanges) -> Stores {
    let jobs = Arc::new(PgJobs::start(database.clone(), changes.clone()));
    Stores {
        jobs: jobs.clone(),
        queue: jobs,
        records: Arc::new(PgRecords::new(database.clone())),
    }
}

async fn fresh() -> Stores {
    let database = testing::database().await;
    let changes = PgChanges::start(database.clone());
    ports(&database, &changes)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_in_rows_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::job_store(|| testing::now(fresh())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_answer_any_calls_as_memory_does() {
    if !crate::testing::has_postgres() {
        return;
    }
    let fresh = async || {
        let database = testing::database().await;
        let changes = PgChanges::start(database.clone());
        (ports(&database, &changes), database)
    };
    contract::as_memory(fresh, async |database| {
        let sum = "SELECT (SELECT coalesce(sum(size_bytes), 0) FROM assets)
            + (SELECT coalesce(sum(length(workflow) + length(origin)), 0) FROM job_bodies)";
        let connection = database.connection().await.expect("it answers");
        let summed = connection
            .query_one(&format!("SELECT ({sum})::bigint"), &[])
            .await;
        let summed: i64 = summed.expect("a sum").get(0);
        summed.try_into().expect("no less than none")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_in_rows_keep_the_contract_of_replicas() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::replicas(|| {
        testing::now(async {
            let url = testing::fresh_database().await;
            let [one, other] = [testing::open(&url).await, testing::open(&url).await];
            [one, other].map(|database| ports(&database, &PgChanges::start(database.clone())))
        })
    })
    .await;
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

fn plain(job: Job) -> SaveJob {
    SaveJob {
        job,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    }
}

async fn insert_for(jobs: &PgJobs, account: &str, n: u128) -> InsertJobOutcome {
    let mut insert = submission(n);
    insert.job.account = account.parse().expect("a valid name");
    insert.bounds = QueueBounds {
        account: 1_000_000,
        total: 1_000_000,
    };
    let inserted = jobs.insert(insert, at(0)).await;
    inserted.expect("an answer")
}

fn request() -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId(Uuid::from_u128(1)),
        sets: [needs().id()].into(),
        rooms: Rooms::default(),
        lease: std::time::Duration::from_secs(30),
    }
}

/// Of claims that arrive together, each goes to the account whose turn it is then.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_share_a_transaction_take_turns() {
    if !crate::testing::has_postgres() {
        return;
    }
    let jobs = jobs(&testing::database().await);
    futures_util::future::join_all((0..50).map(|n| insert_for(&jobs, "many", n))).await;
    insert_for(&jobs, "few", 100).await;
    insert_for(&jobs, "few", 101).await;
    let request = request();
    let claims = (0..6).map(|_| jobs.claim(&request, at(1)));
    let claims = futures_util::future::join_all(claims).await;
    let mut claimed: Vec<(String, Uuid)> = claims
        .into_iter()
        .filter_map(|claim| claim.expect("an answer"))
        .map(|claim| (claim.job.account.to_string(), claim.job.id.0))
        .collect();
    claimed.sort_unstable();
    claimed.dedup();
    let few = claimed.iter().filter(|(account, _)| account == "few");
    assert_eq!((claimed.len(), few.count()), (6, 2));
}

/// A save that PostgreSQL refuses takes none with it that arrived together with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_fails_alone() {
    if !crate::testing::has_postgres() {
        return;
    }
    let jobs = jobs(&testing::database().await);
    // A text of PostgreSQL has no such character.
    let wrong = NewOutput {
        name: OutputName::Counted {
            counter: "a\0b".to_owned(),
            stem: "a".to_owned(),
            extension: "png".to_owned(),
        },
        ..output(9)
    };
    futures_util::future::join_all((1..5).map(|n| insert_for(&jobs, "acme", n))).await;
    let request = request();
    let mut saves = Vec::new();
    for _ in 0..4 {
        let claim = jobs.claim(&request, at(1)).await.expect("an answer");
        let mut job = Job::clone(&claim.expect("one waits").job);
        let epoch = job.epoch;
        job.apply(JobEvent::Finished { epoch }, at(2))
            .expect("it runs");
        saves.push(plain(job));
    }
    saves[1].outputs = vec![wrong];
    let saved = futures_util::future::join_all(saves.into_iter().map(|save| jobs.save(save))).await;
    let is_saved = saved
        .iter()
        .map(|saved| matches!(saved, Ok(SaveOutcome::Saved(_))));
    assert_eq!(is_saved.collect::<Vec<_>>(), [true, false, true, true]);
}

/// Ones near the end of the queue, whose place follows from what is behind them, and ones far from it.
#[tokio::test(flavor = "multi_thread")]
async fn places_that_are_asked_for_together_are_those_of_each() {
    if !crate::testing::has_postgres() {
        return;
    }
    let jobs = jobs(&testing::database().await);
    let ids: Vec<JobId> = (1..=300).map(|n| JobId(Uuid::from_u128(n))).collect();
    for n in 1..=300 {
        let inserted = jobs.insert(submission(n), at(0)).await;
        inserted.expect("the store answers");
    }
    let (acme, other) = (acme(), "other".parse::<AccountId>().expect("a valid name"));
    let asked = ids
        .iter()
        .flat_map(|id| [jobs.position(&acme, *id), jobs.position(&other, *id)]);
    let places = join_all(asked).await;
    let places: Vec<Option<u64>> = places
        .into_iter()
        .map(|place| place.expect("an answer"))
        .collect();
    let expected = (0..300).flat_map(|n| [Some(n), None]);
    assert_eq!(places, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn jobs_that_are_looked_at_together_are_those_of_each() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let (database, watch) = (testing::open(&url).await, testing::open(&url).await);
    let jobs = jobs(&database);
    for n in 1..=5 {
        insert_for(&jobs, "acme", n).await;
    }
    let connection = database.connection().await.expect("it answers");
    let spoil = "UPDATE jobs SET progress = 'none' WHERE id = $1";
    let spoiled = connection.execute(spoil, &[&Uuid::from_u128(3)]).await;
    assert_eq!(spoiled.expect("it may"), 1);
    drop(connection);
    let watch = watch.connection().await.expect("it answers");
    let transactions = async || {
        let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        testing::reads::tell(&database).await;
        let row = watch.query_one(sql, &[]).await;
        row.expect("an answer").get::<_, i64>(0)
    };
    let before = transactions().await;
    let account = acme();
    let asked = [1, 2, 3, 4, 9, 1].repeat(50);
    let looks = asked
        .iter()
        .map(|n| jobs.load(&account, JobId(Uuid::from_u128(*n)), at(1)));
    let looks = join_all(looks).await;
    for (n, found) in asked.iter().zip(looks) {
        match n {
            3 => drop(found.expect_err("nobody can read it")),
            9 => assert_eq!(found.expect("an answer"), None),
            _ => {
                let found = found.expect("an answer").expect("it is there");
                assert_eq!(found.id.0.as_u128(), *n);
            }
        }
    }
    let took = transactions().await - before;
    assert!(took < 50, "{took} for 300 looks");
}

#[test]
fn a_save_counts_what_its_log_tells_twice() {
    let mut save = plain(new_job(1, &acme()));
    assert_eq!(bytes_of_save(&save), 0);
    save.log = Some(JobLog {
        text: "x".repeat(1_000),
        truncated: false,
        captured_at: at(0),
        complete: true,
        report: workflow_core::RunReport::default(),
    });
    assert_eq!(bytes_of_save(&save), 2_000);
}

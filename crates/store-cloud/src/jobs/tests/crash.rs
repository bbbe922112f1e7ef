//! A crash of PostgreSQL takes back what was committed without waiting for the disk.

use std::time::Duration;

use workflow_core::{Changes, ChangesSince, LeaseNews, Progress};

use super::*;
use crate::testing::PostgresServer;

const NAME: &str = "crashed";

/// A server that keeps in memory what nobody waits for: there is room for all of it, and no process writes it down.
async fn server() -> PostgresServer {
    let server = PostgresServer::start(&[
        "wal_buffers=16MB",
        "full_page_writes=off",
        "autovacuum=off",
        "bgwriter_lru_maxpages=0",
    ]);
    server.create_database(NAME, "template1").await;
    server.freeze("walwriter").await;
    server
}

async fn claim_by(jobs: &PgJobs, worker: u128) -> Claim {
    let request = ClaimRequest {
        worker: WorkerId(Uuid::from_u128(worker)),
        ..request()
    };
    let claimed = jobs.claim(&request, at(1)).await.expect("an answer");
    claimed.expect("the job is next")
}

/// The job and how much of what a run of `claim` saves is accepted.
async fn saves(jobs: &PgJobs, claim: &Claim) -> Vec<bool> {
    let epoch = claim.job.epoch;
    let mut accepted = Vec::new();
    for event in [JobEvent::GivenBack { epoch }, JobEvent::Finished { epoch }] {
        let mut job = Job::clone(&claim.job);
        job.apply(event, at(2)).expect("it runs");
        let save = SaveJob {
            outputs: vec![output(9)],
            ..plain(job)
        };
        let saved = jobs.save(save).await.expect("an answer");
        accepted.push(matches!(saved, SaveOutcome::Saved(_)));
    }
    accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_a_crash_took_back_saves_nothing() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = server().await;
    let url = server.url(NAME);
    // Two replicas that outlive the database.
    let before = jobs(&testing::open(&url).await);
    insert_for(&before, "acme", 1).await;
    let lost = claim_by(&before, 1).await;
    server.restart("QUIT");
    let is_lost = "SELECT 1 FROM jobs WHERE status = 'queued' AND epoch = 0";
    let found = server.query(NAME, is_lost).await;
    assert_eq!(found.len(), 1, "a crash takes a claim back");

    let other = jobs(&testing::open(&url).await);
    let claim = claim_by(&other, 2).await;
    let of = |claim: &Claim| (claim.job.id, claim.job.epoch, claim.job.revision);
    assert_eq!(of(&claim), of(&lost), "only the worker differs");
    assert_eq!(saves(&before, &lost).await, [false, false]);
    let lease = Duration::from_secs(30);
    let renewed = [(lost.job.id, lost.job.epoch)];
    let worker = WorkerId(Uuid::from_u128(1));
    let news = before.renew(worker, &renewed, lease, at(3)).await;
    assert_eq!(news.expect("an answer"), [LeaseNews::Lost]);
    // The first save ends the run.
    assert_eq!(saves(&other, &claim).await, [true, false]);
}

/// Saves more changes than PostgreSQL logs ahead of a sequence, and waits for none to be on disk.
async fn advance(jobs: &PgJobs, claim: &Claim) {
    let epoch = claim.job.epoch;
    let mut job = Job::clone(&claim.job);
    for _ in 0..40 {
        let progress = Progress::start(2);
        let advanced = JobEvent::Advanced { epoch, progress };
        job.apply(advanced, at(2)).expect("it runs");
        let save = SaveJob {
            durability: Durability::Lazy,
            ..plain(job)
        };
        let saved = jobs.save(save).await.expect("an answer");
        let SaveOutcome::Saved(saved) = saved else {
            panic!("{saved:?}");
        };
        job = Job::clone(&saved);
    }
}

async fn newest_change(server: &PostgresServer) -> i64 {
    let newest = "SELECT last_value FROM job_change_numbers";
    let newest = server.query(NAME, newest).await;
    newest[0][0].parse().expect("a number")
}

/// A replica that saw changes which a crash took back hears of those that get their numbers.
#[tokio::test(flavor = "multi_thread")]
async fn changes_under_numbers_that_a_crash_took_back_are_heard_of() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = server().await;
    let url = server.url(NAME);
    let works = jobs(&testing::open(&url).await);
    let hears = PgChanges::start(testing::open(&url).await);
    let Ok(ChangesSince::Missed(mut seen)) = hears.since(None).await else {
        panic!("a replica begins with the rows");
    };
    insert_for(&works, "acme", 1).await;
    advance(&works, &claim_by(&works, 1).await).await;
    let mut heard = 0;
    while heard < 42 {
        match hears.since(Some(seen)).await.expect("an answer") {
            ChangesSince::Changes(new, next) => (heard, seen) = (heard + new.len(), next),
            told @ ChangesSince::Missed(_) => panic!("{told:?}"),
        }
    }
    let before = newest_change(&server).await;
    server.restart("QUIT");
    let after = newest_change(&server).await;
    assert!(
        after < before,
        "a crash takes numbers back: {before} {after}"
    );
    // Under a number that the replica has seen.
    insert_for(&works, "acme", 2).await;
    let told = hears.since(Some(seen)).await.expect("an answer");
    assert!(matches!(told, ChangesSince::Missed(_)), "{told:?}");
}

//! Requirement sets in rows: shared, forgotten when unused, and made from what earlier versions wrote. Turns over a restart.

use super::*;

fn raw(root: &TempDir) -> Connection {
    Connection::open(root.path().join("main.db")).expect("the file")
}

fn sets(root: &TempDir) -> Vec<String> {
    let raw = raw(root);
    let mut sets = raw
        .prepare("SELECT text FROM requirement_sets ORDER BY text")
        .expect("a query");
    let sets = sets.query_map([], |row| row.get(0)).expect("rows");
    sets.collect::<Result<_, _>>().expect("texts")
}

async fn claim_for(jobs: &SqliteJobs, sets: &[RequirementSet]) -> Option<workflow_core::Claim> {
    let request = ClaimRequest {
        worker: WorkerId(Uuid::from_u128(1)),
        sets: sets.iter().map(RequirementSet::id).collect(),
        rooms: Rooms::default(),
        lease: std::time::Duration::from_secs(30),
    };
    jobs.claim(&request, at(1)).await.expect("an answer")
}

#[tokio::test]
async fn a_set_is_kept_once_and_goes_with_its_last_job() {
    let root = root();
    let jobs = store(&root, 0).jobs();
    for n in 1..=3 {
        submit(&jobs, n).await;
    }
    assert_eq!(sets(&root), [needs().text()]);
    for n in 1..=3 {
        let found = jobs.load(&acme(), JobId(Uuid::from_u128(n)), at(1)).await;
        let mut job = Job::clone(&found.expect("an answer").expect("the job"));
        let retention = SignedDuration::from_secs(if n < 3 { 1 } else { 10_000 });
        job.retention = retention;
        job.expires_at = job.created_at + retention;
        job.apply(JobEvent::CancelRequested, at(1))
            .expect("it waits");
        jobs.save(plain(job)).await.expect("an answer");
    }
    assert_eq!(jobs.expire(at(100), 10).await.expect("an answer"), 2);
    assert_eq!(sets(&root), [needs().text()], "a job still has it");
    assert_eq!(jobs.expire(at(20_000), 10).await.expect("an answer"), 1);
    assert_eq!(sets(&root), [""; 0]);
}

/// A job that ends before it is claimed may have the highest number of all.
#[tokio::test]
async fn numbers_continue_behind_jobs_that_are_over() {
    let root = root();
    let jobs = store(&root, 0).jobs();
    submit(&jobs, 1).await;
    let found = jobs.load(&acme(), JobId(Uuid::from_u128(1)), at(1)).await;
    let mut job = Job::clone(&found.expect("an answer").expect("the job"));
    job.apply(JobEvent::CancelRequested, at(1))
        .expect("it waits");
    jobs.save(plain(job)).await.expect("an answer");
    drop(jobs);
    submit(&store(&root, 0).jobs(), 2).await;
}

#[tokio::test]
async fn a_directory_of_the_version_before_keeps_what_its_jobs_need() {
    let root = root();
    let opened = store(&root, 0);
    for n in 1..=4 {
        submit(&opened.jobs(), n).await;
    }
    drop(opened);
    let older = raw(&root);
    older
        .execute_batch(
            r#"DROP INDEX jobs_unsuccessful; ALTER TABLE job_bodies DROP COLUMN trace;
            DROP INDEX jobs_by_requirements; ALTER TABLE jobs DROP COLUMN requirements;
            DROP TABLE requirement_sets; DROP TABLE account_claims;
            DELETE FROM migrations WHERE aggregate = 'jobs' AND number >= 3;
            UPDATE job_bodies SET placement =
                '{"classes":["Save\"Image","LoadImage","LoadImage"],"needs_secret":false,"account_room":7}';
            UPDATE job_bodies SET placement =
                '{"classes":[],"needs_secret":true,"account_room":7,"stored_bytes":500}' WHERE seq = 3;
            UPDATE jobs SET status = 'succeeded', completed_at = created_at WHERE seq = 4;"#,
        )
        .expect("an older database");
    drop(older);

    let opened = store(&root, 1);
    let jobs = opened.jobs();
    let plain = Requirements {
        classes: ["Save\"Image", "LoadImage"].map(str::to_owned).into(),
        ..Requirements::of_engine("native")
    };
    let secret = Requirements {
        secret_at: Some(WorkerId(Uuid::nil())),
        ..Requirements::of_engine("native")
    };
    let mut expected = [plain.to_set(), secret.to_set()];
    expected.sort_unstable_by_key(|set| set.text().to_owned());
    assert_eq!(sets(&root), expected.each_ref().map(RequirementSet::text));
    let demand = jobs.demand(at(1)).await.expect("an answer");
    assert_eq!(demand.sets.len(), 2);

    let claim = claim_for(&jobs, &[plain.to_set()]).await.expect("it waits");
    assert_eq!(claim.job.id.0.as_u128(), 1);
    let placement = &claim.body.placement;
    assert_eq!((placement.account_room, placement.stored_bytes), (7, None));
    assert_eq!(placement.requirements, plain.to_set());
    let claim = claim_for(&jobs, &[secret.to_set()])
        .await
        .expect("it waits");
    assert_eq!(claim.job.id.0.as_u128(), 3);
    assert_eq!(claim.body.placement.stored_bytes, Some(500));
    let over = jobs.body(&acme(), JobId(Uuid::from_u128(4)), at(1)).await;
    assert_eq!(
        over.expect("an answer")
            .expect("its body")
            .placement
            .account_room,
        7
    );
}

#[tokio::test]
async fn turns_go_on_after_a_restart() {
    let root = root();
    let opened = store(&root, 0);
    for (n, name) in [(1, "a"), (2, "a"), (3, "b"), (4, "b")] {
        let mut insert = submission(n);
        insert.job.account = name.parse().expect("a valid name");
        let outcome = opened.jobs().insert(insert, at(0)).await;
        assert!(matches!(outcome, Ok(InsertJobOutcome::Inserted(_))));
    }
    let mut claimed = Vec::new();
    let first = claim_for(&opened.jobs(), &[needs()])
        .await
        .expect("one waits");
    claimed.push(first.job.id.0.as_u128());
    // It ends, so that only the row of the account knows of its turn.
    let mut job = Job::clone(&first.job);
    let epoch = job.epoch;
    job.apply(JobEvent::Finished { epoch }, at(1))
        .expect("it runs");
    opened.jobs().save(plain(job)).await.expect("an answer");
    drop(opened);
    let jobs = store(&root, 2).jobs();
    while let Some(claim) = claim_for(&jobs, &[needs()]).await {
        claimed.push(claim.job.id.0.as_u128());
    }
    assert_eq!(claimed, [1, 3, 2, 4]);
}

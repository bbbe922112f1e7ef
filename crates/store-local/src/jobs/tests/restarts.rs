//! What a process finds of the one before.

use super::*;

#[tokio::test]
async fn queued_jobs_wait_in_the_same_order_after_a_restart() {
    let root = root();
    let before = store(&root, 0);
    for n in 1..=4 {
        submit(&before.jobs(), n).await;
    }
    // One of them ran and was given back: it keeps its place.
    let given_back = claim(&before.jobs(), at(1)).await.job;
    let epoch = given_back.epoch;
    apply(&before.jobs(), &given_back, JobEvent::GivenBack { epoch }).await;
    drop(before);

    let after = store(&root, 10);
    let jobs = after.jobs();
    for n in 1..=4 {
        let id = JobId(Uuid::from_u128(n));
        let position = jobs.position(&acme(), id).await.expect("an answer");
        assert_eq!(position.map(u128::from), Some(n - 1));
    }
    for n in 1..=4 {
        let claim = claim(&jobs, at(11)).await;
        assert_eq!(claim.job.id.0.as_u128(), n);
        let body = jobs.body(&acme(), claim.job.id, at(11)).await;
        assert_eq!(*claim.body, submission(n).body);
        assert_eq!(body.expect("an answer"), Some(claim.body));
    }
}

#[tokio::test]
async fn jobs_of_the_process_before_are_taken_up_as_lost_claims() {
    let root = root();
    let before = store(&root, 0);
    let jobs = before.jobs();
    let mut claimed = Vec::new();
    for n in 1..=4 {
        submit(&jobs, n).await;
        claimed.push(claim(&jobs, at(1)).await.job);
    }
    // The first only ran, the second made something, the third was to be stopped, the fourth is lost for the second time.
    let advanced = JobEvent::Advanced {
        epoch: claimed[1].epoch,
        progress: claimed[1].progress.clone(),
    };
    apply_with(&jobs, &claimed[1], advanced, vec![output(1)]).await;
    apply(&jobs, &claimed[2], JobEvent::CancelRequested).await;
    let epoch = claimed[3].epoch;
    let lost = apply(&jobs, &claimed[3], JobEvent::LeaseLost { epoch }).await;
    assert_eq!(lost.status, JobStatus::Queued);
    claim(&jobs, at(2)).await;
    drop((before, jobs));

    let after = store(&root, 10);
    let jobs = after.jobs();
    let mut found = Vec::new();
    for job in &claimed {
        let job = load(&jobs, job.id).await;
        let code = job.error.as_ref().map(|error| error.code);
        found.push((job.status, job.lost_claims, code));
        assert_eq!(job.updated_at, at(10));
        // What happened at the start is in the row, not in memory alone.
        let id = job.id;
        let row = jobs.read(move |rows| rows::load(rows, id)).await;
        assert_eq!(row.expect("an answer"), Some(Job::clone(&job)));
    }
    let lost = Some(JobErrorCode::WorkerLost);
    let expected = [
        (JobStatus::Queued, 1, None),
        (JobStatus::Failed, 1, lost),
        (JobStatus::Canceled, 0, None),
        (JobStatus::Failed, 2, lost),
    ];
    assert_eq!(found, expected);
    assert_eq!(jobs.depth().await.expect("an answer").queued, 1);
    // The output of a job that ended here expires with it.
    let failed = load(&jobs, claimed[1].id).await;
    let (records, account) = (after.records(), acme());
    let record = records.get(&account, failed.outputs[0].asset, at(11)).await;
    let record = record.expect("an answer").expect("the output");
    assert_eq!(record.expires_at, Some(failed.expires_at));
    // The worker of the process before is refused.
    let mut zombie = Job::clone(&claimed[0]);
    let epoch = zombie.epoch;
    zombie
        .apply(JobEvent::Finished { epoch }, at(11))
        .expect("it does not know");
    let saved = jobs.save(plain(zombie)).await.expect("an answer");
    assert_eq!(saved, SaveOutcome::Conflict);
}

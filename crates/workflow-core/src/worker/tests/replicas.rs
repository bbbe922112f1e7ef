//! A worker among replicas that share a store: what one of them is told, the others hear of.

use super::*;

/// A second replica over the store and the clock of a bench.
pub(super) struct Replica {
    pub(super) worker: Worker,
    jobs: Jobs,
    ports: JobPorts,
}

pub(super) fn replica(bench: &Bench, n: u128) -> Replica {
    let store = Arc::new(bench.store.inner.of_another_replica());
    let ports = JobPorts {
        store: store.clone(),
        queue: store.clone(),
        hub: Arc::new(Hub::over(store)),
        secrets: Secrets::new(WorkerId(Uuid::from_u128(n))),
        ..bench.ports.clone()
    };
    let pace = Arc::new(CompletionRate::default());
    let worker = Worker::new(
        ports.clone(),
        bench.worker.blobs.clone(),
        bench.worker.timer.clone(),
        bench.worker.config.clone(),
        pace.clone(),
    );
    let assets = Assets::new(
        bench.worker.blobs.clone(),
        Arc::new(bench.records.clone()),
        Retention::default(),
    );
    let config = JobsConfig { queued_jobs: 50 };
    Replica {
        worker,
        jobs: Jobs::new(ports.clone(), assets, config, pace),
        ports,
    }
}

#[tokio::test]
async fn a_job_with_a_secret_runs_only_where_the_secret_is() {
    let bench = Bench::new([]);
    let other = replica(&bench, 2);
    let id = bench.submit_to(&other.jobs, 1, Some("s3cret")).await;
    let plain = bench.submit(2, None).await;
    let claimed = bench.worker.claim().await.expect("an answer");
    assert_eq!(claimed.expect("one has no secret").job.id, plain);
    assert!(bench.worker.claim().await.expect("an answer").is_none());
    let claimed = other.worker.claim().await.expect("an answer");
    assert_eq!(claimed.expect("the secret is here").job.id, id);
}

#[tokio::test]
async fn a_worker_for_secrets_leaves_other_jobs_to_others() {
    let bench = Bench::new([]);
    let mut other = replica(&bench, 2);
    other.worker.config.only_secrets = true;
    let id = bench.submit_to(&other.jobs, 1, Some("s3cret")).await;
    let elsewhere = bench.submit(2, Some("s3cret")).await;
    let plain = bench.submit(3, None).await;
    let claimed = other.worker.claim().await.expect("an answer");
    assert_eq!(claimed.expect("the secret is here").job.id, id);
    assert!(other.worker.claim().await.expect("an answer").is_none());
    for id in [elsewhere, plain] {
        let claimed = bench.worker.claim().await.expect("an answer");
        assert_eq!(claimed.expect("it is for anybody else").job.id, id);
    }
}

#[tokio::test]
async fn a_job_whose_secret_was_in_a_process_that_is_gone_is_ended_by_another() {
    let bench = Bench::new([]);
    let other = replica(&bench, 2);
    let id = bench.submit_to(&other.jobs, 1, Some("s3cret")).await;
    // The other replica renews for a while, and then no more.
    bench.timer.advance(Duration::from_secs(59));
    other.worker.renew().await.expect("an answer");
    bench.timer.advance(Duration::from_secs(29));
    assert!(bench.worker.claim().await.expect("an answer").is_none());
    bench.timer.advance(Duration::from_secs(1));
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(
        job.error.as_ref().map(|error| error.code),
        Some(JobErrorCode::SecretLost)
    );
}

/// Has the hub of a replica hear of the others until `until` completes.
async fn hearing<T>(ports: &JobPorts, until: impl Future<Output = T>) -> T {
    let stop = CancellationToken::new();
    tokio::select! {
        result = until => result,
        () = ports.hub.follow_replicas(ports, &stop) => panic!("nobody stopped it"),
    }
}

/// A job as a replica has it, once its followers there see it over.
async fn ended_at(replica: &Replica, id: JobId, now: Timestamp) -> Arc<Job> {
    let follow = replica.jobs.follow(&AccountId::local(), id, now).await;
    let (view, mut follower) = follow.expect("the job is there");
    let mut job = view.job;
    while !job.status.is_terminal() {
        follower.changed().await;
        job = follower.latest().job.unwrap_or(job);
    }
    job
}

#[tokio::test]
async fn a_cancel_at_another_replica_stops_the_run() {
    let bench = Bench::new([Script::Hang]);
    let other = replica(&bench, 2);
    let id = bench.submit_to(&other.jobs, 1, None).await;
    let now = bench.timer.now();
    // The clock stands still: no lease is renewed meanwhile, which would tell as well.
    let ended = bench.while_running(hearing(&bench.ports, async {
        bench.begun().await;
        let canceled = other.jobs.cancel(&AccountId::local(), id, now).await;
        let canceled = canceled.expect("it can be canceled");
        assert_eq!(canceled.job.status, JobStatus::Canceling);
        bench.ended(id).await
    }));
    assert_eq!(ended.await.status, JobStatus::Canceled);
}

#[tokio::test]
async fn a_job_is_followed_at_a_replica_that_does_not_run_it() {
    let bench = Bench::new([Script::Commit(0)]);
    let other = replica(&bench, 2);
    let id = bench.submit_to(&other.jobs, 1, None).await;
    let now = bench.timer.now();
    let ended = bench.while_running(hearing(&other.ports, ended_at(&other, id, now)));
    let ended = ended.await;
    assert_eq!(ended.status, JobStatus::Succeeded);
    assert_eq!(ended.outputs.len(), 1);
}

#[tokio::test]
async fn a_job_that_another_replica_took_in_rings_here() {
    let bench = Bench::new([Script::Finish]);
    let other = replica(&bench, 2);
    let now = bench.timer.now();
    let ended = bench.while_running(hearing(&bench.ports, async {
        // The slot sleeps, and the clock that would wake it stands still.
        idle().await;
        let id = bench.submit_to(&other.jobs, 1, None).await;
        hearing(&other.ports, ended_at(&other, id, now)).await
    }));
    assert_eq!(ended.await.status, JobStatus::Succeeded);
}

#[tokio::test]
async fn a_secret_is_forgotten_when_its_job_ends_at_another_replica() {
    let bench = Bench::new([]);
    let other = replica(&bench, 2);
    let (first, second) = (
        bench.submit_to(&other.jobs, 1, Some("s3cret")).await,
        bench.submit_to(&other.jobs, 2, Some("s3cret")).await,
    );
    let holds = |id| other.ports.secrets.get(id).is_some();
    assert!(holds(first) && holds(second));
    let cancel = async |id| {
        let canceled = bench
            .jobs
            .cancel(&AccountId::local(), id, bench.timer.now())
            .await;
        canceled.expect("it can be canceled");
    };
    // Before the replica begins to listen, and after.
    cancel(first).await;
    hearing(&other.ports, async {
        idle().await;
        assert!(!holds(first) && holds(second));
        cancel(second).await;
        idle().await;
        assert!(!holds(second));
    })
    .await;
}

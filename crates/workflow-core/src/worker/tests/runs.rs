//! Jobs that run, and what they need for it.

use super::*;

#[tokio::test]
async fn a_job_runs_and_what_it_made_is_a_record() {
    let bench = Bench::new([Script::Commit(0)]);
    let id = bench.submit(1, None).await;
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(
        (job.status, job.progress.value, job.outputs.len()),
        (JobStatus::Succeeded, 1.0, 1)
    );
    assert_eq!(job.outputs[0].path.as_str(), "t_00001_.txt");
    let record = bench
        .records
        .get(&job.account, job.outputs[0].asset, bench.timer.now())
        .await;
    assert_eq!(
        record
            .expect("memory answers")
            .map(|record| record.size_bytes),
        Some(10)
    );
    let log = bench
        .jobs
        .log(&job.account, id, bench.timer.now())
        .await
        .expect("an answer")
        .expect("a log");
    assert_eq!(
        (log.text.as_str(), log.complete),
        ("node 1 (Known)\n", true)
    );
}

#[tokio::test]
async fn a_job_whose_client_leaves_before_the_answer_is_run_at_once() {
    let bench = Bench::new([Script::Finish]);
    bench.store.silent_inserts.store(1, Ordering::SeqCst);
    let begun = bench.while_running(async {
        // The slot has seen that there is nothing. Its clock stands still, so that only the bell makes it look again.
        idle().await;
        let submitted = tokio::select! {
            biased;
            id = bench.submit(1, None) => Some(id),
            () = idle() => None,
        };
        assert_eq!(submitted, None, "the client leaves before it is answered");
        let begun = async {
            let begun = bench.begun().await;
            bench.ended(JobId(Uuid::from_u128(1))).await;
            begun
        };
        tokio::select! {
            begun = begun => Some(begun),
            () = idle() => None,
        }
    });
    assert!(begun.await.is_some(), "nobody was told of it");
}

#[tokio::test]
async fn a_job_that_is_claimed_while_it_is_looked_at_is_told_as_it_is_then() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let queued = bench.job(id).await;
    let looked = bench.while_running(async {
        bench.begun().await;
        *bench.store.stale.lock().expect("no test panics with it") = Some(queued);
        let account = AccountId::local();
        bench.jobs.get(&account, id, bench.timer.now()).await
    });
    let view = looked.await.expect("the job is there");
    assert_eq!(
        (view.job.status, view.queue_position),
        (JobStatus::Running, None)
    );
}

#[tokio::test]
async fn the_log_of_a_run_is_told_while_it_runs() {
    let bench = Bench::new([Script::Hang]);
    let (id, account) = (bench.submit(1, None).await, AccountId::local());
    let log = async || {
        let log = bench.jobs.log(&account, id, bench.timer.now()).await;
        let log = log.expect("an answer");
        log.map(|log| (log.text, log.complete))
    };
    assert_eq!(log().await, None, "it has not begun");
    let text = "node 1 (Known)\n".to_owned();
    let running = bench.while_running(async {
        bench.begun().await;
        let running = log().await;
        let canceled = bench.jobs.cancel(&account, id, bench.timer.now()).await;
        canceled.expect("an answer");
        bench.ended(id).await;
        running
    });
    assert_eq!(running.await, Some((text.clone(), false)));
    assert_eq!(log().await, Some((text, true)));
}

#[tokio::test]
async fn jobs_wait_while_the_engine_is_not_available() {
    for availability in [Availability::NotReady, Availability::Stopped] {
        let bench = Bench::new([Script::Finish]);
        let id = bench.submit(1, None).await;
        let set = |availability| {
            *bench.available.lock().expect("no test panics with it") = availability;
        };
        set(availability);
        let job = bench.while_running(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
                bench.timer.advance(IDLE);
                assert_eq!(bench.job(id).await.status, JobStatus::Queued);
            }
            set(Availability::Ready);
            tokio::task::yield_now().await;
            bench.timer.advance(IDLE);
            bench.ended(id).await
        });
        assert_eq!(job.await.status, JobStatus::Succeeded);
    }
}

#[tokio::test]
async fn a_failing_job_fails_alone() {
    let bench = Bench::new([Script::Fail("it broke"), Script::Finish]);
    let (first, second) = (bench.submit(1, None).await, bench.submit(2, None).await);
    let job = bench.while_running(bench.ended(first)).await;
    assert_eq!(
        (
            job.status,
            job.error.as_ref().map(|error| error.message.as_str())
        ),
        (JobStatus::Failed, Some("it broke"))
    );
    assert_eq!(
        bench.while_running(bench.ended(second)).await.status,
        JobStatus::Succeeded
    );
}

#[tokio::test]
async fn a_secret_reaches_the_run_and_is_then_forgotten() {
    let bench = Bench::new([Script::Finish]);
    let id = bench.submit(1, Some("s3cret")).await;
    let secret = bench
        .while_running(async {
            let secret = bench.begun().await;
            bench.ended(id).await;
            secret
        })
        .await;
    assert_eq!(secret.as_deref(), Some("s3cret"));
    assert!(bench.worker.ports.secrets.get(id).is_none());
}

#[tokio::test]
async fn a_job_whose_secret_is_lost_fails_and_says_so() {
    let bench = Bench::new([]);
    let id = bench.submit(1, Some("s3cret")).await;
    bench.worker.ports.secrets.forget(id);
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(
        job.error.as_ref().map(|error| error.code),
        Some(JobErrorCode::SecretLost)
    );
}

#[tokio::test]
async fn progress_between_commits_is_written_down() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    bench
        .while_running(async {
            bench.begun().await;
            while bench.job(id).await.progress.value < 0.5 {
                bench.timer.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
        })
        .await;
}

//! What a crash of the database takes back while the worker goes on: a claim, or outputs that were not on disk.

use super::*;

/// A job that is claimed, with the sink of its run. `Job` is as it was before the claim.
async fn claimed(bench: &Bench, worker: &Worker, id: JobId) -> (Arc<Job>, Claim, Arc<Sink>) {
    let before = bench.job(id).await;
    let claim = worker.claim().await.expect("an answer");
    let claim = claim.expect("the job is next");
    let sink = Sink::new(worker, &claim);
    (before, claim, sink)
}

fn context(claim: &Claim, sink: Arc<Sink>) -> RunContext {
    RunContext {
        secret: None,
        fence: claim.job.epoch,
        cancel: CancellationToken::new(),
        permit: ComputePermit::default(),
        sink,
    }
}

fn end(claim: &Claim) -> JobEvent {
    let epoch = claim.job.epoch;
    JobEvent::Finished { epoch }
}

async fn save_end(worker: &Worker, sink: &Sink, event: JobEvent) -> Result<(), StoreError> {
    let mut end = worker.end(sink, event);
    worker.try_end(sink, &mut end).await
}

#[tokio::test]
async fn a_run_whose_claim_went_to_another_worker_saves_nothing() {
    let bench = Bench::new([]);
    let other = replicas::replica(&bench, 2);
    for (n, commits_first) in [(1, true), (2, false)] {
        let id = bench.submit(n, None).await;
        let (queued, lost, zombie) = claimed(&bench, &bench.worker, id).await;
        bench.store.inner.take_back(&queued);
        let (_, claim, sink) = claimed(&bench, &other.worker, id).await;
        let of = |claim: &Claim| (claim.job.epoch, claim.job.revision);
        assert_eq!(of(&claim), of(&lost), "only the worker differs");

        if commits_first {
            let committed = commit(&context(&lost, zombie.clone()), 0, "late").await;
            assert!(matches!(committed, Err(CommitError::Superseded)));
        }
        for event in [
            end(&lost),
            JobEvent::GivenBack {
                epoch: lost.job.epoch,
            },
        ] {
            let ended = save_end(&bench.worker, &zombie, event).await;
            ended.expect("nothing is left to do");
        }
        assert_eq!(bench.job(id).await, claim.job);

        let committed = commit(&context(&claim, sink.clone()), 0, "right").await;
        committed.expect("the claim counts");
        let ended = save_end(&other.worker, &sink, end(&claim)).await;
        ended.expect("the claim counts");
        let job = bench.job(id).await;
        assert_eq!((job.status, job.outputs.len()), (JobStatus::Succeeded, 1));
    }
}

#[tokio::test]
async fn a_run_goes_on_when_its_worker_gets_its_claim_again() {
    let (go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Fail("it runs twice")]);
    let id = bench.submit(1, None).await;
    let queued = bench.job(id).await;
    let ended = bench.while_running(async {
        bench.begun().await;
        let first = bench.job(id).await;
        bench.store.inner.take_back(&queued);
        // The slot is free while the run waits.
        bench.ports.hub.ring();
        idle().await;
        assert_eq!(bench.job(id).await, first, "it is claimed again");
        bench.worker.renew().await.expect("an answer");
        go_on.send(()).expect("the run is there");
        bench.ended(id).await
    });
    assert_eq!(ended.await.status, JobStatus::Succeeded);
    assert_eq!(bench.worker.running(), 0);
}

#[tokio::test]
async fn a_run_that_heard_of_its_loss_leaves_the_job_to_the_next_one() {
    let (_never, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Commit(0)]);
    let id = bench.submit(1, None).await;
    let queued = bench.job(id).await;
    let ended = bench.while_running(async {
        bench.begun().await;
        bench.store.inner.take_back(&queued);
        bench.worker.renew().await.expect("an answer");
        bench.ports.hub.ring();
        bench.begun().await;
        bench.ended(id).await
    });
    let ended = ended.await;
    assert_eq!((ended.status, ended.epoch.0), (JobStatus::Succeeded, 1));
    assert_eq!(ended.outputs.len(), 1);
}

#[tokio::test]
async fn a_later_claim_of_a_job_is_renewed_though_the_run_before_ends() {
    let (let_go, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Hang]);
    let id = bench.submit(1, None).await;
    let ended = bench.while_running(async {
        bench.begun().await;
        // Its lease lapsed, and the same worker claims it.
        bench.timer.advance(Duration::from_secs(31));
        bench.worker.reap().await.expect("an answer");
        bench.begun().await;
        drop(let_go);
        idle().await;
        assert_eq!(
            (bench.worker.running(), bench.job(id).await.epoch.0),
            (1, 2)
        );
        let now = bench.timer.now();
        let canceled = bench.jobs.cancel(&AccountId::local(), id, now).await;
        canceled.expect("it runs");
        bench.ended(id).await
    });
    assert_eq!(ended.await.status, JobStatus::Canceled);
}

#[tokio::test]
async fn outputs_that_a_crash_took_back_are_saved_with_the_end() {
    let bench = Bench::new([]);
    let id = bench.submit(1, None).await;
    let (_, claim, sink) = claimed(&bench, &bench.worker, id).await;
    let run = context(&claim, sink.clone());
    for index in 0..2 {
        let committed = commit(&run, index, "same bytes").await;
        committed.expect("the claim counts");
    }
    bench.store.inner.take_back(&claim.job);
    assert_eq!(bench.job(id).await.outputs, []);
    let ended = save_end(&bench.worker, &sink, end(&claim)).await;
    ended.expect("the claim counts");
    let job = bench.job(id).await;
    let indexes: Vec<u32> = job.outputs.iter().map(|output| output.index).collect();
    assert_eq!((job.status, indexes), (JobStatus::Succeeded, vec![0, 1]));
}

#[tokio::test]
async fn a_job_fails_if_there_is_no_room_for_what_a_crash_took_back() {
    let bench = Bench::new([]);
    let workflow = r#"{"1": {"class_type": "Known", "inputs": {}}}"#;
    let plain = submission(1, workflow);
    let tier = Tier {
        // The first output goes beyond it.
        stored_bytes: workflow.len() as u64 + 1,
        ..Tier::clone(&plain.tier)
    };
    let tier = Arc::new(tier);
    let submitted = bench
        .jobs
        .submit(Submission { tier, ..plain }, bench.timer.now());
    let id = submitted.await.expect("it fits").view.job.id;
    let (_, claim, sink) = claimed(&bench, &bench.worker, id).await;
    let committed = commit(&context(&claim, sink.clone()), 0, "same bytes").await;
    committed.expect("less than the bound is stored");
    // Its record stays, and takes the room.
    bench.store.inner.take_back(&claim.job);
    let ended = save_end(&bench.worker, &sink, end(&claim)).await;
    ended.expect("the claim counts");
    let job = bench.job(id).await;
    let code = job.error.as_ref().map(|error| error.code);
    assert_eq!(code, Some(JobErrorCode::StorageQuotaExceeded));
}

//! How jobs end: told, canceled, out of time, given back, or by a worker that is none any more.

use super::*;

#[tokio::test]
async fn the_next_job_runs_while_the_end_of_the_last_is_saved() {
    let bench = Bench::new([Script::Finish, Script::Finish]);
    let (first, second) = (bench.submit(1, None).await, bench.submit(2, None).await);
    // The end of the first one; it is tried again when the clock moves.
    bench.store.failures.store(1, Ordering::SeqCst);
    bench
        .while_running(async {
            bench.ended(second).await;
            assert_eq!(bench.job(first).await.status, JobStatus::Running);
            bench.timer.advance(RETRY.0);
            bench.ended(first).await;
        })
        .await;
}

#[tokio::test]
async fn no_more_runs_begin_than_ends_may_wait() {
    let bench = Bench::new([]);
    bench.store.failures.store(usize::MAX, Ordering::SeqCst);
    for n in 0..=MOST_UNSAVED as u128 {
        bench.submit(n + 1, None).await;
    }
    let late = bench.submit(1000, None).await;
    bench
        .while_running(async {
            for _ in 0..=MOST_UNSAVED {
                bench.begun().await;
            }
            // The last run that began keeps its permit until its end is saved.
            tokio::select! {
                _ = bench.begun() => panic!("too many runs wait for the store"),
                () = idle() => {}
            }
            bench.store.failures.store(0, Ordering::SeqCst);
            bench.timer.advance(RETRY.0);
            bench.ended(late).await;
        })
        .await;
}

#[tokio::test]
async fn a_running_job_is_canceled_on_request() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let job = bench
        .while_running(async {
            bench.begun().await;
            let view = bench
                .jobs
                .cancel(&AccountId::local(), id, bench.timer.now())
                .await
                .expect("it can be canceled");
            assert_eq!(view.job.status, JobStatus::Canceling);
            bench.ended(id).await
        })
        .await;
    assert_eq!((job.status, job.progress.value), (JobStatus::Canceled, 0.5));
}

#[tokio::test]
async fn a_cancel_between_claim_and_run_is_not_lost() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let claim = bench
        .worker
        .claim()
        .await
        .expect("an answer")
        .expect("the job is next");
    bench
        .jobs
        .cancel(&AccountId::local(), id, bench.timer.now())
        .await
        .expect("it can be canceled");
    bench
        .worker
        .run_claim(claim, ComputePermit::default(), &bench.halt)
        .await;
    assert_eq!(bench.job(id).await.status, JobStatus::Canceled);
}

#[tokio::test]
async fn a_job_that_runs_too_long_expires() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let job = bench
        .while_running(async {
            bench.begun().await;
            bench.timer.advance(Duration::from_secs(600));
            bench.ended(id).await
        })
        .await;
    assert_eq!(job.status, JobStatus::Expired);
}

#[tokio::test]
async fn a_draining_worker_gives_its_job_back_and_the_next_one_runs_it() {
    let bench = Bench::new([Script::Hang, Script::Commit(0)]);
    let id = bench.submit(1, None).await;
    let slot = bench.worker.run_slot(&bench.draining, &bench.halt);
    let drain = async {
        bench.begun().await;
        bench.draining.cancel();
        bench.halt.cancel();
    };
    tokio::join!(slot, drain);
    let job = bench.job(id).await;
    assert_eq!(
        (job.status, job.lost_claims, job.progress.value),
        (JobStatus::Queued, 0, 0.5)
    );

    let (draining, halt) = (CancellationToken::new(), CancellationToken::new());
    let job = tokio::select! {
        job = bench.ended(id) => job,
        () = bench.worker.run_slot(&draining, &halt) => panic!("the slot ended too early"),
    };
    assert_eq!((job.status, job.outputs.len()), (JobStatus::Succeeded, 1));
}

#[tokio::test]
async fn the_end_of_a_job_is_saved_once_the_store_takes_it_again() {
    let bench = Bench::new([Script::Finish]);
    let id = bench.submit(1, None).await;
    bench.store.failures.store(3, Ordering::SeqCst);
    let job = bench
        .while_running(async {
            bench.begun().await;
            tokio::select! {
                job = bench.ended(id) => job,
                job = bench.wake() => job,
            }
        })
        .await;
    assert_eq!(
        (job.status, bench.store.failures.load(Ordering::SeqCst)),
        (JobStatus::Succeeded, 0)
    );
}

#[tokio::test]
async fn an_end_that_was_saved_without_an_answer_is_told_all_the_same() {
    let bench = Bench::new([Script::Finish]);
    let id = bench.submit(1, None).await;
    bench.store.lost_answers.store(1, Ordering::SeqCst);
    let follower = bench.ports.hub.follow(&AccountId::local(), id);
    let ended = async {
        tokio::select! {
            job = end_of(follower) => job,
            job = bench.wake() => job,
        }
    };
    let job = bench.while_running(ended).await;
    assert_eq!(
        (job.status, bench.store.lost_answers.load(Ordering::SeqCst)),
        (JobStatus::Succeeded, 0)
    );
}

#[tokio::test]
async fn an_output_waits_for_a_store_that_is_away_and_not_for_ever() {
    // The pauses before the tenth try add up to more than an output waits.
    for (absences, is_kept) in [(9, true), (10, false)] {
        let bench = Bench::new([]);
        bench.submit(1, None).await;
        let claim = bench.worker.claim().await.expect("an answer");
        let claim = claim.expect("the job is next");
        let context = RunContext {
            secret: None,
            fence: claim.job.epoch,
            cancel: CancellationToken::new(),
            permit: ComputePermit::default(),
            sink: sink::Sink::new(&bench.worker, &claim),
        };
        bench.store.absences.store(absences, Ordering::SeqCst);
        let wake = async {
            loop {
                bench.timer.advance(RETRY.1);
                tokio::task::yield_now().await;
            }
        };
        let committed = tokio::select! {
            committed = commit(&context, 0, "late") => committed,
            () = wake => unreachable!("the clock never stops"),
        };
        assert_eq!(committed.is_ok(), is_kept, "{committed:?}");
        assert_eq!(bench.store.absences.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn a_zombie_can_neither_commit_nor_finish() {
    let bench = Bench::new([]);
    let id = bench.submit(1, None).await;
    let first = bench
        .worker
        .claim()
        .await
        .expect("an answer")
        .expect("the job is next");
    let zombie = sink::Sink::new(&bench.worker, &first);
    bench.timer.advance(Duration::from_secs(31));
    bench.worker.reap().await.expect("an answer");
    let second = bench
        .worker
        .claim()
        .await
        .expect("an answer")
        .expect("the job is next again");

    let context = RunContext {
        secret: None,
        fence: first.job.epoch,
        cancel: CancellationToken::new(),
        permit: ComputePermit::default(),
        sink: zombie,
    };
    assert!(matches!(
        commit(&context, 0, "late").await,
        Err(CommitError::Superseded)
    ));
    assert_eq!(bench.job(id).await.outputs, []);
    let mut job = Job::clone(&second.job);
    job.apply(
        JobEvent::Finished {
            epoch: second.job.epoch,
        },
        bench.timer.now(),
    )
    .expect("the claim counts");
    let save = SaveJob {
        job,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    assert!(matches!(
        bench.store.save(save).await.expect("an answer"),
        SaveOutcome::Saved(_)
    ));
}

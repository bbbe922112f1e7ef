//! What an engine refuses: before it is taken in, at once, and later.

use super::*;

#[tokio::test]
async fn a_graph_that_the_engine_refuses_is_not_taken_in() {
    let bench = bench([]);
    let key = |n| Submission {
        key: Some([7; 32]),
        ..submission(n, FAR)
    };
    let taken = bench
        .jobs
        .submit(key(1), bench.timer.now())
        .await
        .expect("a good submission");
    bench.remote.refuses.store(true, Ordering::SeqCst);
    match submit(&bench, 2, FAR).await {
        Err(JobsError::Refused(refused)) => assert_eq!(*refused, refusal()),
        other => panic!("{other:?}"),
    }
    let other_key = Submission {
        key: Some([8; 32]),
        ..submission(3, FAR)
    };
    let refused = bench.jobs.submit(other_key, bench.timer.now()).await;
    assert!(matches!(refused, Err(JobsError::Refused(_))));
    // What a key stands for is told as ever.
    let again = bench
        .jobs
        .submit(key(4), bench.timer.now())
        .await
        .expect("a replay");
    assert!(again.replayed && again.view.job.id == taken.view.job.id);
    let in_flight = bench
        .jobs
        .in_flight(&AccountId::local(), bench.timer.now())
        .await;
    assert_eq!(
        in_flight.expect("an answer").len(),
        1,
        "nothing else was kept"
    );
}

#[tokio::test]
async fn an_engine_that_does_not_judge_in_time_accepts() {
    let bench = bench([]);
    bench.remote.is_silent.store(true, Ordering::SeqCst);
    let submitted = submit(&bench, 1, FAR);
    tokio::pin!(submitted);
    tokio::select! {
        _ = &mut submitted => panic!("it waits for the engine"),
        () = idle() => {}
    }
    bench.timer.advance(crate::JUDGE_TIME);
    submitted.await.expect("it is taken in");
}

#[tokio::test]
async fn a_refusal_that_comes_later_fails_the_job_with_what_the_engine_said() {
    let bench = bench([Fate::Refused]);
    let id = submit(&bench, 1, FAR).await.expect("a good submission");
    let job = bench.while_running(bench.ended(id)).await;
    let error = job.error.clone().expect("it failed");
    assert_eq!(error.code, JobErrorCode::InvalidWorkflow);
    assert_eq!(*error.node_errors, refusal().node_errors);
}

#[tokio::test]
async fn a_refusal_that_comes_at_once_is_the_answer_and_nothing_is_kept() {
    let bench = bench([
        Fate::Refused,
        Fate::Refused,
        Fate::Done(vec![started("2")]),
        Fate::Refused,
    ]);
    bench.remote.is_idle.store(true, Ordering::SeqCst);
    let submit = async |n, key| {
        let submission = Submission {
            key,
            ..submission(n, FAR)
        };
        bench.jobs.submit(submission, bench.timer.now()).await
    };
    let taken = async {
        for n in [1, 2] {
            match submit(n, Some([7; 32])).await {
                Err(JobsError::Refused(refused)) => assert_eq!(*refused, refusal()),
                other => panic!("{other:?}"),
            }
        }
        let taken = submit(3, Some([7; 32])).await.expect("its key is free");
        assert!(!taken.replayed);
        assert_eq!(taken.view.job.status, JobStatus::Queued);
        bench.ended(taken.view.job.id).await;
        // Where every worker is busy, a refusal comes too late to be the answer.
        bench.remote.is_idle.store(false, Ordering::SeqCst);
        let late = submit(4, None).await.expect("it is taken in");
        bench.ended(late.view.job.id).await;
        [taken.view.job.id, late.view.job.id]
    };
    let taken = bench.while_running(taken).await;
    let query = JobQuery {
        account: AccountId::local(),
        labels: Vec::new(),
        over: None,
        statuses: Vec::new(),
        after: None,
        limit: 10,
        outputs: usize::MAX,
    };
    let kept = bench.jobs.list(&query, bench.timer.now()).await;
    let kept = kept.expect("an answer").jobs.into_iter();
    let mut kept: Vec<JobId> = kept.map(|view| view.job.id).collect();
    kept.sort();
    assert_eq!(kept, taken);
}

#[tokio::test]
async fn a_refusal_that_was_saved_without_an_answer_is_the_answer() {
    let bench = bench([Fate::Refused]);
    bench.remote.is_idle.store(true, Ordering::SeqCst);
    bench.store.lost_answers.store(1, Ordering::SeqCst);
    let submitted = async {
        tokio::select! {
            submitted = submit(&bench, 1, FAR) => submitted,
            submitted = bench.wake() => submitted,
        }
    };
    let refused = bench.while_running(submitted).await;
    assert!(matches!(refused, Err(JobsError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_refusal_that_cannot_be_saved_promises_nothing_and_keeps_nothing() {
    let bench = bench([Fate::Refused]);
    bench.remote.is_idle.store(true, Ordering::SeqCst);
    bench.store.absences.store(usize::MAX, Ordering::SeqCst);
    let scene = async {
        let submitted = tokio::select! {
            submitted = submit(&bench, 1, FAR) => submitted,
            submitted = bench.wake() => submitted,
        };
        assert!(
            matches!(submitted, Err(JobsError::Store(StoreError::Unavailable(_)))),
            "{submitted:?}"
        );
        let id = JobId(Uuid::from_u128(1));
        let follower = bench.ports.hub.follow(&AccountId::local(), id);
        bench.store.absences.store(0, Ordering::SeqCst);
        tokio::select! {
            job = end_of(follower) => job,
            job = bench.wake() => job,
        }
    };
    let job = bench.while_running(scene).await;
    assert!(job.is_withdrawn(), "{job:?}");
    let account = AccountId::local();
    let found = bench.ports.store.load(&account, job.id, bench.timer.now());
    assert_eq!(found.await.expect("an answer"), None);
}

#[tokio::test]
async fn a_worker_that_says_nothing_in_time_is_not_waited_for() {
    let bench = bench([Fate::Refused]);
    bench.remote.is_idle.store(true, Ordering::SeqCst);
    // Nobody claims it.
    let submitted = submit(&bench, 1, FAR);
    tokio::pin!(submitted);
    tokio::select! {
        _ = &mut submitted => panic!("it waits for the worker"),
        () = idle() => {}
    }
    bench.timer.advance(crate::JUDGE_TIME);
    let id = submitted.await.expect("it is taken in");
    let job = bench.while_running(bench.ended(id)).await;
    let code = job.error.as_ref().map(|error| error.code);
    assert_eq!(code, Some(JobErrorCode::InvalidWorkflow), "and kept");
}

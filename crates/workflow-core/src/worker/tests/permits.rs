//! Runs that merely wait, and their slots.

use super::*;

#[tokio::test]
async fn a_run_that_merely_waits_leaves_its_slot_to_others() {
    let (go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Finish]);
    let waiting = bench.submit(1, None).await;
    let other = bench.submit(2, None).await;
    let job = bench
        .while_running(async {
            let other = bench.ended(other).await;
            assert_eq!(bench.job(waiting).await.status, JobStatus::Running);
            go_on.send(()).expect("the run is there");
            bench.ended(waiting).await;
            other
        })
        .await;
    assert_eq!(job.status, JobStatus::Succeeded);
    assert_eq!(bench.job(waiting).await.status, JobStatus::Succeeded);
}

#[tokio::test]
async fn a_run_that_waited_goes_on_when_a_slot_is_free() {
    let (go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Hang]);
    let waiting = bench.submit(1, None).await;
    let busy = bench.submit(2, None).await;
    bench
        .while_running(async {
            bench.begun().await;
            bench.begun().await;
            go_on.send(()).expect("the run is there");
            // It cannot have ended while the only slot is taken.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(bench.job(waiting).await.status, JobStatus::Running);
            let now = bench.timer.now();
            let canceled = bench.jobs.cancel(&AccountId::local(), busy, now).await;
            canceled.expect("it runs");
            bench.ended(waiting).await;
        })
        .await;
    assert_eq!(bench.job(waiting).await.status, JobStatus::Succeeded);
    assert_eq!(bench.job(busy).await.status, JobStatus::Canceled);
}

#[tokio::test]
async fn a_drain_waits_for_runs_that_merely_wait() {
    let (_go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Finish]);
    let waiting = bench.submit(1, None).await;
    let other = bench.submit(2, None).await;
    let slot = bench.worker.run_slot(&bench.draining, &bench.halt);
    tokio::pin!(slot);
    tokio::select! {
        () = &mut slot => panic!("the slot ended too early"),
        job = bench.ended(other) => assert_eq!(job.status, JobStatus::Succeeded),
    }
    bench.draining.cancel();
    assert!((&mut slot).now_or_never().is_none(), "one still waits");
    assert_eq!(bench.job(waiting).await.status, JobStatus::Running);
}

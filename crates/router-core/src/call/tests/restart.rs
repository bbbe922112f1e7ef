//! What a router finds that was stopped in the middle of calls.

use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use crate::{Bucket, Collected, Outcome, RouterConfig, RouterError, Usage};

/// A router that was stopped: what it had running is dropped, the rows stay.
pub(super) async fn stopped(house: House, running: UnderWay) -> House {
    running.execution.abort();
    let _ = running.execution.await;
    running.waiter.abort();
    let _ = running.waiter.await;
    let house = House::over(house.calls.clone(), house.accounts.clone());
    // What it had is its own until then.
    assert!(house.router.recover().await.expect("memory").is_empty());
    house.clock.advance(RouterConfig::LEASE);
    house
}

#[tokio::test]
async fn what_the_partner_accepted_is_picked_up_by_a_retry() {
    let house = House::new().await;
    let first = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer.send(Ok(accepted(2))).expect("awaited");
    while house.calls.unfinished().await.expect("memory")[0]
        .accepted
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    let house = Arc::new(stopped(house, first).await);
    let executions = house.router.recover().await.expect("memory answers");
    assert_eq!(executions.len(), 1);
    assert_eq!(house.balance().await, (1_000, 10), "it is held again");
    assert_eq!(house.load().await.committed_cents, 10);
    let executions: Vec<_> = executions.into_iter().map(tokio::spawn).collect();
    let retry = house.begin(keyed("{}")).await;
    let id = house.calls.unfinished().await.expect("memory")[0]
        .generation
        .id;
    let running = house.router.0.running.get(id).expect("it runs");
    while !running.is_awaited() {
        tokio::task::yield_now().await;
    }
    let polled = tokio::spawn({
        let house = Arc::clone(&house);
        async move {
            house
                .collected(Ok(Collected::Done(done("{\"a\":1}"))))
                .await
        }
    });
    while !polled.is_finished() {
        house.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(retry.answer().await.expect("the result").body, "{\"a\":1}");
    for execution in executions {
        execution.await.expect("no panic");
    }
    assert_eq!((house.submits(), house.balance().await), (0, (990, 0)));
    assert_eq!(house.load().await, crate::Load::default());
}

#[tokio::test]
async fn what_the_partner_may_have_got_ends_with_an_unknown_outcome() {
    let house = House::new().await;
    let first = house.begin(keyed("{}")).await;
    let (_, _answer) = house.submitted().await;
    let house = stopped(house, first).await;
    assert!(
        house
            .router
            .recover()
            .await
            .expect("memory answers")
            .is_empty()
    );
    let refused = house.refused(keyed("{}")).await;
    let RouterError::Ended(Outcome::Failed { bucket, message }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(bucket, Bucket::ProviderError);
    assert_eq!(
        message,
        "the outcome at the partner is unknown; use a new key"
    );
    assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
}

#[tokio::test]
async fn work_is_given_up_so_long_after_it_was_accepted_however_often_the_router_restarts() {
    let house = House::new().await;
    let first = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer.send(Ok(accepted(600))).expect("awaited");
    while house.calls.unfinished().await.expect("memory")[0]
        .accepted
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    let house = stopped(house, first).await;
    // Of its hour, ten minutes are left.
    house.clock.advance(Duration::from_secs(3_000));
    let mut executions = house.router.recover().await.expect("memory answers");
    let execution = tokio::spawn(executions.remove(0));
    let looks = async {
        house.clock.somebody_sleeps().await;
        house.clock.advance(Duration::from_secs(600));
        let poll_after = Duration::from_secs(600);
        house.collected(Ok(Collected::Pending { poll_after })).await;
    };
    let (ended, ()) = tokio::join!(execution, looks);
    ended.expect("no panic");
    let cancels = &house.puppet.cancels;
    assert_eq!(cancels.load(std::sync::atomic::Ordering::Relaxed), 1);
    let refused = house.refused(keyed("{}")).await;
    assert_eq!(refused.bucket(), Bucket::ProviderTimeout);
    assert_eq!(house.balance().await, (1_000, 0));
}

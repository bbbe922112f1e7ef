//! Two routers over the same rows: what one begins, the other replays, picks up and takes over, and nothing is billed twice.

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountChange;
use tokio::task::yield_now;

use super::harness::*;
use crate::{Collected, LeftCall, RouterConfig, RouterError, Submitted, Usage};

/// Two routers at the same time, with one account.
async fn replicas() -> (Arc<House>, Arc<House>) {
    let first = House::new().await;
    let second = first.beside();
    (Arc::new(first), Arc::new(second))
}

/// Waits until the acceptance of the one generation is on record.
async fn accepted_one(house: &House) {
    while house.calls.unfinished().await.expect("memory")[0]
        .accepted
        .is_none()
    {
        yield_now().await;
    }
}

/// Answers the question for the result that this router asks in a while.
async fn collects(house: &Arc<House>, body: &'static str) {
    let collected = tokio::spawn({
        let house = Arc::clone(house);
        async move { house.collected(Ok(Collected::Done(done(body)))).await }
    });
    while !collected.is_finished() {
        house.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    collected.await.expect("no panic");
}

#[tokio::test]
async fn a_retry_elsewhere_gets_the_result_of_the_router_that_runs_the_call() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    let retry = second.begin(keyed("{}")).await;
    for _ in 0..100 {
        first.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    assert!(!retry.waiter.is_finished());
    answer
        .send(Ok(Submitted::Done(done("{\"a\":1}"))))
        .expect("awaited");
    assert_eq!(call.answer().await.expect("a result").body, "{\"a\":1}");
    while !retry.waiter.is_finished() {
        first.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    let answered = retry.waiter.await.expect("no panic");
    assert!(answered.replayed);
    assert_eq!(answered.result.expect("the result").body, "{\"a\":1}");
    assert_eq!((first.submits(), second.submits()), (1, 0));
    assert_eq!(first.balance().await, (990, 0));
}

#[tokio::test]
async fn a_deadline_of_a_call_that_runs_elsewhere_tells_to_come_back_with_the_key() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    let retry = second.begin(keyed("{}")).await;
    while !retry.waiter.is_finished() {
        first.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    let (told, execution) = retry.early().await;
    let left = match told {
        Err(RouterError::Deadline { left, .. }) => left,
        other => panic!("{other:?}"),
    };
    assert_eq!(left, LeftCall::WithKey, "a new key would be a second bill");
    while !execution.is_finished() {
        first.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.execution.await.expect("no panic");
    assert_eq!((first.submits(), second.submits()), (1, 0));
    assert_eq!(first.balance().await, (990, 0));
}

#[tokio::test]
async fn a_client_that_waits_elsewhere_and_leaves_keeps_nobody_busy() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    let retry = second.begin(keyed("{}")).await;
    second.clock.somebody_sleeps().await;
    retry.waiter.abort();
    retry.waiter.await.expect_err("it left");
    while !retry.execution.is_finished() {
        first.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("a result");
}

#[tokio::test]
async fn a_router_that_starts_leaves_the_calls_of_others_alone() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    for _ in 0..5 {
        // Longer than a lease in all, and it is renewed.
        first.clock.advance(RouterConfig::LEASE / 2);
        first.router.renew().await.expect("memory answers");
        let taken = second.router.recover().await.expect("memory answers");
        assert!(taken.is_empty());
    }
    assert_eq!(first.calls.unfinished().await.expect("memory").len(), 1);
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("a result");
    assert_eq!(first.balance().await, (990, 0));
}

#[tokio::test]
async fn a_router_that_lost_a_call_gives_no_result_that_it_did_not_bill() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    first.clock.advance(RouterConfig::LEASE);
    // Nothing tells what the partner made of it.
    let taken = second.router.recover().await.expect("memory answers");
    assert!(taken.is_empty());
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    let refused = call.answer().await.expect_err("it is the other router's");
    assert!(
        matches!(
            refused,
            RouterError::TakenOver {
                retry_after: Some(_)
            }
        ),
        "{refused:?}"
    );
    let again = first.refused(keyed("{}")).await;
    assert!(matches!(again, RouterError::Ended(_)), "{again:?}");
    assert_eq!(first.balance().await, (1_000, 0));
}

#[tokio::test]
async fn what_the_partner_accepted_goes_on_where_it_was_taken_over_and_is_billed_once() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    answer.send(Ok(accepted(100))).expect("awaited");
    accepted_one(&first).await;
    first.clock.advance(RouterConfig::LEASE);
    let taken = second.router.recover().await.expect("memory answers");
    assert_eq!(taken.len(), 1);
    let taken: Vec<_> = taken.into_iter().map(tokio::spawn).collect();
    // The first one hears of it when it renews, and asks the partner no more.
    first.router.renew().await.expect("memory answers");
    let (lost, execution) = call.early().await;
    assert!(
        matches!(lost, Err(RouterError::TakenOver { .. })),
        "{lost:?}"
    );
    execution.await.expect("no panic");
    let retry = first.begin(keyed("{}")).await;
    collects(&second, "{\"a\":1}").await;
    while !retry.waiter.is_finished() {
        first.clock.advance(Duration::from_secs(1));
        yield_now().await;
    }
    let answered = retry.answer().await.expect("the result");
    assert_eq!(answered.body, "{\"a\":1}");
    for one in taken {
        one.await.expect("no panic");
    }
    assert_eq!(first.balance().await, (990, 0));
    assert_eq!((first.submits(), second.submits()), (1, 0));
}

#[tokio::test]
async fn a_call_without_a_key_is_told_nothing_of_a_retry() {
    let (first, second) = replicas().await;
    let running = first.begin(call("{}")).await;
    let (_, _answer) = first.submitted().await;
    first.clock.advance(RouterConfig::LEASE);
    second.router.recover().await.expect("memory answers");
    first.router.renew().await.expect("memory answers");
    let refused = running.answer().await.expect_err("it was taken over");
    assert!(
        matches!(refused, RouterError::TakenOver { retry_after: None }),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_router_that_was_late_and_lost_nothing_goes_on() {
    let (first, _) = replicas().await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    first.clock.advance(RouterConfig::LEASE * 3);
    let taken = first.router.recover().await.expect("memory answers");
    assert!(taken.is_empty(), "it runs here");
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("a result");
    assert_eq!(first.balance().await, (990, 0));
}

#[tokio::test]
async fn a_call_whose_router_sleeps_past_its_lease_keeps_its_room_until_another_one_ends_it() {
    let (first, second) = replicas().await;
    first.change(AccountChange::ConcurrentCalls(Some(1))).await;
    let call = first.begin(keyed("{}")).await;
    let (_, answer) = first.submitted().await;
    answer.send(Ok(accepted(100))).expect("awaited");
    accepted_one(&first).await;
    let other = Call {
        key: Some("other"),
        ..keyed("{}")
    };
    let too_many = RouterError::TooManyCalls { limit: 1 }.to_string();
    // The partner works on, whether or not anybody has noticed yet that the lease is over.
    first.clock.advance(RouterConfig::LEASE);
    assert_eq!(second.refused(other).await.to_string(), too_many);
    let taken = second.router.recover().await.expect("memory answers");
    let taken: Vec<_> = taken.into_iter().map(tokio::spawn).collect();
    assert_eq!(second.refused(other).await.to_string(), too_many);
    collects(&second, "{}").await;
    for one in taken {
        one.await.expect("no panic");
    }
    let next = second.begin(other).await;
    let (_, answer) = second.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    next.answer().await.expect("there is room again");
    // The sleeper wakes, and what it gives back is nobody's.
    first.router.renew().await.expect("memory answers");
    let (lost, execution) = call.early().await;
    assert!(
        matches!(lost, Err(RouterError::TakenOver { .. })),
        "{lost:?}"
    );
    execution.await.expect("no panic");
    assert_eq!(first.load().await, crate::Load::default());
    assert_eq!((first.submits(), second.submits()), (1, 1));
}

#[tokio::test]
async fn the_credits_of_a_call_whose_router_sleeps_past_its_lease_are_not_spent_by_another_one() {
    let (first, second) = replicas().await;
    let call = first.begin(keyed("{\"cents\":600}")).await;
    let (_, answer) = first.submitted().await;
    answer.send(Ok(accepted(100))).expect("awaited");
    accepted_one(&first).await;
    let other = Call {
        key: Some("other"),
        ..keyed("{\"cents\":401}")
    };
    let too_few = RouterError::InsufficientCredits.to_string();
    first.clock.advance(RouterConfig::LEASE);
    assert_eq!(second.balance().await, (1_000, 600));
    assert_eq!(second.refused(other).await.to_string(), too_few);
    let taken = second.router.recover().await.expect("memory answers");
    let taken: Vec<_> = taken.into_iter().map(tokio::spawn).collect();
    assert_eq!(second.refused(other).await.to_string(), too_few);
    collects(&second, "{}").await;
    for one in taken {
        one.await.expect("no panic");
    }
    // The sleeper wakes, and holds nothing again.
    first.router.renew().await.expect("memory answers");
    let (lost, execution) = call.early().await;
    assert!(
        matches!(lost, Err(RouterError::TakenOver { .. })),
        "{lost:?}"
    );
    execution.await.expect("no panic");
    assert_eq!(first.balance().await, (400, 0));
    assert_eq!(second.refused(other).await.to_string(), too_few);
}

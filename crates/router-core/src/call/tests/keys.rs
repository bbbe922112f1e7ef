//! What a retry gets, and how often a partner is asked for one key.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::harness::*;
use crate::{Bucket, Charge, Collected, Failure, Outcome, Ran, Refusal, RouterError, Submitted};

async fn run(
    house: &House,
    sent: Call<'_>,
    submitted: Result<Submitted, Failure>,
) -> Result<crate::Answer, RouterError> {
    let call = house.begin(sent).await;
    let (_, answer) = house.submitted().await;
    answer.send(submitted).expect("awaited");
    call.answer().await
}

#[tokio::test]
async fn a_result_is_replayed_and_costs_nothing_again() {
    let house = House::new().await;
    let first = run(&house, keyed("{}"), Ok(Submitted::Done(done("{\"a\":1}")))).await;
    house
        .change(accounts::AccountChange::ConcurrentCalls(Some(0)))
        .await;
    house.grant(-990).await;
    let (again, replayed) = house.ask(keyed("{}")).await;
    assert_eq!(again.expect("a result"), first.expect("a result"));
    assert!(replayed, "without room and credits");
    assert_eq!((house.submits(), house.balance().await), (1, (0, 0)));
    let record = house.record().await;
    assert_eq!(record[1].call.generation, record[0].call.generation);
    assert!(record[1].call.replayed && !record[0].call.replayed);
}

#[tokio::test]
async fn another_request_with_the_key_is_a_conflict() {
    let house = House::new().await;
    run(&house, keyed("{}"), Ok(Submitted::Done(done("{}"))))
        .await
        .expect("a result");
    for other in [
        keyed("{ }"),
        Call {
            query: "x=1",
            ..keyed("{}")
        },
    ] {
        let refused = house.refused(other).await;
        assert!(matches!(refused, RouterError::KeyConflict), "{refused:?}");
    }
    assert_eq!(house.submits(), 1);
}

#[tokio::test]
async fn what_a_partner_refused_is_replayed() {
    for failure in [
        Failure::Refused {
            refusal: Refusal::Detail(done("{\"detail\":[]}").answer),
            charge: Charge::Cents(0),
        },
        Failure::Policy {
            message: "not this".to_owned(),
            detail: None,
            charge: Charge::AsHeld,
        },
        Failure::Failed {
            ran: Ran::Perhaps,
            message: "it broke".to_owned(),
        },
        Failure::TimedOut {
            ran: Ran::Perhaps,
            message: "it was late".to_owned(),
        },
        Failure::Account {
            ran: Ran::Perhaps,
            message: "away".to_owned(),
        },
    ] {
        let house = House::new().await;
        let first = run(&house, keyed("{}"), Err(failure.clone())).await;
        let (again, replayed) = house.ask(keyed("{}")).await;
        let outcome = |result: Result<crate::Answer, RouterError>| match result {
            Err(RouterError::Ended(outcome)) => outcome,
            Err(other) => panic!("{other:?}"),
            Ok(answer) => panic!("{answer:?}"),
        };
        assert_eq!(outcome(again), outcome(first), "{failure:?}");
        assert!(replayed && house.submits() == 1, "{failure:?}");
    }
}

#[tokio::test]
async fn a_key_is_free_again_if_provably_nothing_ran() {
    let house = House::new().await;
    let nothing = [
        Failure::Transient {
            message: "busy".to_owned(),
        },
        Failure::Failed {
            ran: Ran::Nothing,
            message: "refused".to_owned(),
        },
    ];
    for failure in nothing {
        run(&house, keyed("{}"), Err(failure))
            .await
            .expect_err("it failed");
    }
    run(&house, keyed("{}"), Ok(Submitted::Done(done("{}"))))
        .await
        .expect("a result");
    assert_eq!((house.submits(), house.balance().await), (3, (990, 0)));
}

#[tokio::test]
async fn a_retry_while_somebody_waits_is_told_to_come_back() {
    let house = House::new().await;
    let first = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    let refused = house.refused(keyed("{}")).await;
    assert!(
        matches!(refused, RouterError::InFlight { .. }),
        "{refused:?}"
    );
    assert_eq!(refused.bucket(), Bucket::ConcurrencyLimitExceeded);
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    first.answer().await.expect("the holder keeps it");
    assert_eq!(house.submits(), 1);
}

#[tokio::test]
async fn a_result_over_the_cap_is_told_once() {
    let house = House::new().await;
    let mut large = done("");
    large.answer.body = vec![b'x'; crate::REPLAY_CAP_BYTES + 1].into();
    run(&house, keyed("{}"), Ok(Submitted::Done(large)))
        .await
        .expect("a result");
    let refused = house.refused(keyed("{}")).await;
    assert!(matches!(refused, RouterError::NotReplayable), "{refused:?}");
    assert_eq!(refused.bucket(), Bucket::InvalidInput);
}

#[tokio::test]
async fn a_key_counts_for_24_hours_from_its_first_call() {
    let house = House::new().await;
    run(&house, keyed("{}"), Ok(Submitted::Done(done("{}"))))
        .await
        .expect("a result");
    house.clock.advance(Duration::from_secs(24 * 3600 - 1));
    assert!(house.ask(keyed("{}")).await.1, "it replays");
    house.clock.advance(Duration::from_secs(1));
    run(&house, keyed("{}"), Ok(Submitted::Done(done("{}"))))
        .await
        .expect("a fresh run");
    assert_eq!(house.submits(), 2);
}

#[tokio::test]
async fn a_consumed_key_tells_the_stored_error_again() {
    let house = House::new().await;
    let failure = Failure::Failed {
        ran: Ran::Perhaps,
        message: "it broke".to_owned(),
    };
    run(&house, keyed("{}"), Err(failure))
        .await
        .expect_err("it failed");
    let refused = house.refused(keyed("{}")).await;
    let RouterError::Ended(Outcome::Failed { bucket, message }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (bucket, message.as_str()),
        (Bucket::ProviderError, "it broke")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Callers with one key come, leave and come back in any order, while the partner takes its time: it is asked once, and
    /// everybody who gets a result gets the same one.
    #[test]
    fn one_key_is_dispatched_exactly_once(
        polled in any::<bool>(),
        at_once in 0_usize..6,
        steps in prop::collection::vec(0_u8..4, 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let runtime = runtime.expect("a runtime");
        let submits = runtime.block_on(async {
            let house = Arc::new(House::new().await);
            // All at once, so that some come between the claim, the row and the dispatch of another.
            let mut waiting = vec![house.begin(keyed("{}")).await];
            for _ in 0..at_once {
                waiting.push(house.begin(keyed("{}")).await);
            }
            let (_, answer) = house.submitted().await;
            for step in steps {
                match step {
                    0 | 1 => waiting.push(house.begin(keyed("{}")).await),
                    2 => if let Some(call) = waiting.pop() { call.waiter.abort(); },
                    _ => tokio::task::yield_now().await,
                }
            }
            let last = done("{\"same\":1}");
            if polled {
                answer.send(Ok(accepted(1))).expect("the execution goes on without waiters");
                let mut asked = tokio::spawn({
                    let house = Arc::clone(&house);
                    async move { house.collected(Ok(Collected::Done(last))).await }
                });
                // Only when a task goes to sleep: a clock that runs freely passes the life of the key on a busy machine.
                loop {
                    tokio::select! {
                        ended = &mut asked => break ended.expect("the partner is asked"),
                        () = house.clock.somebody_sleeps() => house.clock.advance(Duration::from_secs(1)),
                    }
                }
            } else {
                answer.send(Ok(Submitted::Done(last))).expect("the execution goes on without waiters");
            }
            for call in waiting {
                let Ok(answered) = call.waiter.await else {
                    continue;
                };
                match &answered.result {
                    Ok(answer) => assert_eq!(answer.body, "{\"same\":1}"),
                    // The clock may have run past the deadline of some.
                    Err(RouterError::InFlight { .. } | RouterError::Deadline { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            loop {
                // The end may not be written yet: then another call waits for it, or this one does.
                if let (Ok(answer), replayed) = house.ask(keyed("{}")).await {
                    assert_eq!(answer.body, "{\"same\":1}");
                    if replayed {
                        break;
                    }
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(house.balance().await, (990, 0));
            house.submits()
        });
        prop_assert_eq!(submits, 1);
    }
}

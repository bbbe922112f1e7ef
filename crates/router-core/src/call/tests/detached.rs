//! Callers that leave, deadlines, and work that goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, future};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::harness::*;
use crate::{
    Bucket, CallRecord, Calls, CallsError, Claimed, Collected, Dispatched, Ending, Generation,
    GenerationId, Handle, KeyClaim, KeyDigest, Lease, LeftCall, MemoryCalls, OwnerId, RouterConfig,
    RouterError, SequentialCalls, Serving, Settled, Submitted, Unfinished, Usage,
};

fn deadline(result: Result<crate::Answer, RouterError>) -> Option<Duration> {
    match result {
        Err(RouterError::Deadline { retry_after, .. }) => retry_after,
        Err(other) => panic!("{other:?}"),
        Ok(answer) => panic!("{answer:?}"),
    }
}

/// What becomes of the call, by the error that its caller gets at the deadline.
fn left(result: &Result<crate::Answer, RouterError>) -> Option<LeftCall> {
    match result {
        Err(RouterError::Deadline { left, .. }) => Some(*left),
        Err(_) | Ok(_) => None,
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_dispatch_is_not_billed_and_frees_its_key() {
    let house = House::new().await;
    let open = house.open(keyed("{}")).await.expect("its head is right");
    let (execution, waiter) = open.run(Bytes::from_static(b"{}"));
    drop(waiter);
    execution.await;
    assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, Some(Bucket::ClientDisconnected));
    assert!(!record[0].call.delivered);
    let call = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("the key runs afresh");
}

#[tokio::test]
async fn a_client_that_leaves_after_dispatch_is_billed_and_finds_the_result_behind_its_key() {
    let house = House::new().await;
    let call = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    call.waiter.abort();
    call.waiter.await.expect_err("it left");
    answer
        .send(Ok(Submitted::Done(done("{\"a\":1}"))))
        .expect("the work goes on");
    call.execution.await.expect("no panic");
    assert_eq!(house.balance().await, (990, 0));
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, Some(Bucket::ClientDisconnected));
    assert!(record[0].call.generation.is_some() && !record[0].call.delivered);
    let generation = record[0].generation.as_ref().expect("it was dispatched");
    assert_eq!(
        (generation.charge_cents, generation.bucket),
        (Some(10), None)
    );
    let (again, replayed) = house.ask(keyed("{}")).await;
    assert_eq!(again.expect("the result").body, "{\"a\":1}");
    assert!(replayed && house.submits() == 1);
}

#[tokio::test]
async fn an_answer_that_the_caller_did_not_get_is_not_delivered() {
    let house = House::new().await;
    let call = house.begin(call("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    let answered = call.waiter.await.expect("no panic");
    drop(answered.delivery);
    call.execution.await.expect("no panic");
    let record = house.record().await;
    assert!(!record[0].call.delivered && record[0].call.bucket.is_none());
}

#[tokio::test]
async fn after_the_deadline_a_retry_picks_the_accepted_work_up() {
    let house = House::new().await;
    let first = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer.send(Ok(accepted(900))).expect("awaited");
    while house.calls.unfinished().await.expect("memory")[0]
        .accepted
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    // The waiter and the poll are both asleep when the clock moves.
    tokio::task::yield_now().await;
    house.clock.advance(DEADLINE);
    let (result, execution) = first.early().await;
    assert_eq!(left(&result), Some(LeftCall::WithKey));
    assert_eq!(
        deadline(result),
        Some(POLLING.interval),
        "the polling interval of the definition, not the pause"
    );

    let retry = house.begin(keyed("{}")).await;
    while house
        .router
        .0
        .running
        .get(retry_generation(&house).await)
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    let poll = async {
        tokio::task::yield_now().await;
        house.clock.advance(Duration::from_secs(300));
        house
            .collected(Ok(Collected::Done(done("{\"late\":1}"))))
            .await;
    };
    let (answer, ()) = tokio::join!(retry.waiter, poll);
    let answered = answer.expect("no panic");
    assert_eq!(answered.result.expect("the result").body, "{\"late\":1}");
    assert!(!answered.replayed, "it is told for the first time");
    execution.await.expect("no panic");
    assert_eq!((house.submits(), house.balance().await), (1, (990, 0)));
}

async fn retry_generation(house: &House) -> GenerationId {
    let unfinished = house.calls.unfinished().await.expect("memory answers");
    unfinished[0].generation.id
}

#[tokio::test]
async fn a_synchronous_partner_can_be_picked_up_once_the_request_is_written() {
    let house = House::new().await;
    let first = house.begin(keyed("{}")).await;
    let (submission, answer) = house.submitted().await;
    house.clock.advance(DEADLINE);
    let (result, execution) = first.early().await;
    assert_eq!(
        deadline(result),
        None,
        "nothing says that the partner has it"
    );

    // The retry waits on the same execution, with a deadline of its own.
    let second = house.begin(keyed("{}")).await;
    house.clock.somebody_sleeps().await;
    submission.contact.written();
    follows(&house, &submission.generation).await;
    house.clock.advance(DEADLINE);
    let (result, _) = second.early().await;
    assert_eq!(deadline(result), Some(Duration::from_secs(5)));

    let third = house.begin(keyed("{}")).await;
    follows(&house, &submission.generation).await;
    answer
        .send(Ok(Submitted::Done(done("{\"a\":1}"))))
        .expect("awaited");
    assert_eq!(third.answer().await.expect("the result").body, "{\"a\":1}");
    execution.await.expect("no panic");
    assert_eq!(house.submits(), 1);
}

/// Waits until a retry has taken the place of the waiter.
async fn follows(house: &House, id: &GenerationId) {
    let running = house.router.0.running.get(*id).expect("it runs");
    while !running.is_awaited() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_a_key_a_deadline_promises_nothing() {
    let house = House::new().await;
    let call = house.begin(call("{}")).await;
    let (submission, answer) = house.submitted().await;
    submission.contact.written();
    house.clock.advance(DEADLINE);
    let (result, execution) = call.early().await;
    assert_eq!(left(&result), Some(LeftCall::WithoutKey));
    assert_eq!(deadline(result), None);
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("the work goes on");
    execution.await.expect("no panic");
    assert_eq!(house.balance().await, (990, 0), "and is billed");
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, Some(Bucket::DeadlineExceeded));
}

#[tokio::test]
async fn a_deadline_before_dispatch_ends_the_call_and_frees_the_key() {
    let house = House::new().await;
    let open = house.open(keyed("{}")).await.expect("its head is right");
    let (execution, waiter) = open.run(Bytes::from_static(b"{}"));
    let never = future::pending().boxed();
    let waiting = tokio::spawn(waiter.wait(never, drop));
    house.clock.somebody_sleeps().await;
    house.clock.advance(DEADLINE);
    let answered = waiting.await.expect("no panic");
    assert_eq!(left(&answered.result), Some(LeftCall::NotDispatched));
    drop(answered.delivery);
    execution.await;
    assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
    let call = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("the key runs afresh");
}

#[tokio::test]
async fn work_that_never_ends_is_given_up_and_cancelled() {
    let house = Arc::new(House::new().await);
    let call = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer.send(Ok(accepted(600))).expect("awaited");
    let pending = tokio::spawn({
        let house = Arc::clone(&house);
        async move {
            let poll_after = Duration::from_secs(600);
            for _ in 0..6 {
                house.collected(Ok(Collected::Pending { poll_after })).await;
            }
        }
    });
    while !pending.is_finished() {
        house.clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    call.waiter.await.expect("no panic").delivery.delivered();
    call.execution.await.expect("no panic");
    assert_eq!(house.puppet.cancels.load(Ordering::Relaxed), 1);
    let refused = house.refused(keyed("{}")).await;
    assert_eq!(refused.bucket(), Bucket::ProviderTimeout);
    assert_eq!(house.balance().await, (1_000, 0));
}

#[tokio::test]
async fn a_provider_that_panics_consumes_the_key_and_keeps_no_room() {
    let house = House::new().await;
    let call = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    // The puppet panics if its answer is dropped.
    drop(answer);
    let failed = call.answer().await.expect_err("it broke");
    assert_eq!(failed.bucket(), Bucket::InternalError);
    assert_eq!(
        house.refused(keyed("{}")).await.bucket(),
        Bucket::InternalError
    );
    assert_eq!(house.load().await, crate::Load::default());
    assert_eq!((house.submits(), house.balance().await), (1, (1_000, 0)));
}

/// Rows that refuse to settle a few times, and tell of a dispatch only when they are let.
struct Reluctant {
    rows: Arc<MemoryCalls>,
    refusals: AtomicU32,
    dispatches: Semaphore,
}

/// A house over such rows.
async fn reluctant(refusals: u32, dispatches: usize) -> (House, Arc<Reluctant>) {
    let plain = House::new().await;
    let reluctant = Arc::new(Reluctant {
        rows: plain.calls.clone(),
        refusals: AtomicU32::new(refusals),
        dispatches: Semaphore::new(dispatches),
    });
    let house = House::with(
        reluctant.clone(),
        plain.calls.clone(),
        plain.accounts.clone(),
    );
    (house, reluctant)
}

#[async_trait]
impl SequentialCalls for Reluctant {
    async fn dispatch(
        &self,
        generation: Generation,
        key: Option<KeyDigest>,
        lease: Lease,
    ) -> Result<Dispatched, CallsError> {
        let dispatched = self.rows.dispatch(generation, key, lease).await?;
        let let_in = self.dispatches.acquire().await;
        let_in.expect("it is never closed").forget();
        Ok(dispatched)
    }
}

#[async_trait]
impl Calls for Reluctant {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        self.rows.claim(claim, now).await
    }

    async fn accepted(
        &self,
        of: (GenerationId, OwnerId),
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        self.rows
            .accepted(of, handle, poll_after, task_id, now)
            .await
    }

    async fn serve(
        &self,
        of: (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError> {
        self.rows.serve(of, serving).await
    }

    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError> {
        self.rows.serving(generation).await
    }

    async fn settle(
        &self,
        of: (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        if self.refusals.load(Ordering::Relaxed) > 0 {
            self.refusals.fetch_sub(1, Ordering::Relaxed);
            return Err(CallsError::Busy);
        }
        self.rows.settle(of, account, ending, task_id, now).await
    }

    fn record(&self, call: CallRecord) {
        self.rows.record(call);
    }

    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError> {
        self.rows.renew(generations, lease, now).await
    }

    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError> {
        self.rows.take_over(lease, limit, now).await
    }
}

#[tokio::test]
async fn nobody_is_told_of_an_end_that_is_not_written() {
    let (house, reluctant) = reluctant(5, 1).await;
    let call = house.begin(call("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    while !call.waiter.is_finished() {
        assert_eq!(house.calls.unfinished().await.expect("memory").len(), 1);
        house.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        if reluctant.refusals.load(Ordering::Relaxed) == 0 {
            break;
        }
    }
    while !call.waiter.is_finished() {
        house.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    call.answer().await.expect("a result");
    assert_eq!(house.balance().await, (990, 0));
}

#[tokio::test]
async fn nobody_takes_the_place_of_the_call_that_begins_a_generation() {
    let (house, reluctant) = reluctant(0, 0).await;
    let first = house.begin(keyed("{}")).await;
    while house.calls.unfinished().await.expect("memory").is_empty() {
        tokio::task::yield_now().await;
    }
    // The row is there and its call has not heard of it yet.
    let refused = house.refused(keyed("{}")).await;
    assert!(
        matches!(refused, RouterError::InFlight { .. }),
        "{refused:?}"
    );
    reluctant.dispatches.add_permits(1);
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    first.answer().await.expect("a result");
}

#[tokio::test]
async fn a_call_that_is_left_while_its_row_is_written_is_not_dispatched() {
    let (house, reluctant) = reluctant(0, 0).await;
    let first = house.begin(keyed("{}")).await;
    while house.calls.unfinished().await.expect("memory").is_empty() {
        tokio::task::yield_now().await;
    }
    first.waiter.abort();
    first.waiter.await.expect_err("it left");
    reluctant.dispatches.add_permits(2);
    first.execution.await.expect("no panic");
    assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
    let record = house.record().await;
    assert_eq!(record[0].call.bucket, Some(Bucket::ClientDisconnected));
    assert_eq!(house.calls.unfinished().await.expect("memory"), []);
    let again = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    again.answer().await.expect("the key runs afresh");
}

#[tokio::test]
async fn a_call_whose_room_lapsed_while_its_row_was_written_is_not_dispatched() {
    let (house, reluctant) = reluctant(0, 0).await;
    for call in [keyed("{}"), call("{}")] {
        let late = house.begin(call).await;
        while house.calls.unfinished().await.expect("memory").is_empty() {
            tokio::task::yield_now().await;
        }
        // The process was stopped for as long as that, and other ones may have given its room away.
        house.clock.advance(RouterConfig::LEASE);
        reluctant.dispatches.add_permits(1);
        let refused = late.answer().await.expect_err("it is too late");
        assert!(
            matches!(refused, RouterError::Unavailable(_)),
            "{refused:?}"
        );
        assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
        assert_eq!(house.calls.unfinished().await.expect("memory"), []);
        assert_eq!(house.load().await, crate::Load::default());
    }
    reluctant.dispatches.add_permits(1);
    let again = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    again.answer().await.expect("the key runs afresh");
}

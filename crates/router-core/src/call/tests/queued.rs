//! Queued requests: when they are dispatched, and when they are not after all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use accounts::AccountChange;
use bytes::Bytes;
use uuid::Uuid;

use super::harness::*;
use crate::{
    Bucket, Cancelled, Collected, Execution, Failure, QueueFailure, QueueState, QueuedResult, Ran,
    RequestStatus, RouterError, Submitted, Timer,
};

const MODEL: (&str, &str) = ("bfl", "flux-2");

/// How long a result is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

impl House {
    async fn submit(&self, call: Call<'_>) -> Result<RequestStatus, RouterError> {
        let open = self.open(call).await?;
        let submitted = open.enqueue(Bytes::from_static(call.body.as_bytes())).await;
        submitted.delivery.delivered();
        submitted.result
    }

    pub(super) async fn submitted_request(&self, body: &'static str) -> String {
        let submitted = self.submit(call(body)).await;
        submitted.expect("it is taken in").request.id.to_string()
    }

    async fn state(&self, request: &str) -> QueueState {
        let (caller, now) = (self.caller().await, self.clock.now());
        let status = self.router.request_status(&caller, MODEL, request, now);
        status.await.expect("it is there").request.state
    }

    pub(super) async fn result(&self, request: &str) -> Result<QueuedResult, RouterError> {
        let (caller, now) = (self.caller().await, self.clock.now());
        let result = self.router.request_result(&caller, MODEL, request, now);
        result.await
    }

    async fn cancel(&self, request: &str) -> Cancelled {
        let (caller, now) = (self.caller().await, self.clock.now());
        let cancelled = self.router.cancel_request(&caller, MODEL, request, now);
        cancelled.await.expect("it is there")
    }

    pub(super) async fn next_execution(&self) -> Option<Execution> {
        let started = self.router.start_queued().await;
        started.expect("memory answers")
    }
}

fn over(failure: QueueFailure) -> QueueState {
    QueueState::Over(Some(failure))
}

#[tokio::test]
async fn a_request_runs_when_its_account_has_room_and_is_billed_once() {
    let house = House::new().await;
    house.change(AccountChange::ConcurrentCalls(Some(1))).await;
    let first = house.submitted_request("{\"cents\":7}").await;
    let second = house.submitted_request("{\"cents\":8}").await;
    // What waits holds nothing.
    assert_eq!(house.balance().await, (1_000, 0));
    house.router.queue_rings().await;
    let running = tokio::spawn(house.next_execution().await.expect("there is room"));
    assert!(house.next_execution().await.is_none(), "there is no room");
    assert_eq!(house.balance().await, (1_000, 7));
    let (submission, answer) = house.submitted().await;
    assert_eq!(submission.generation.to_string(), first);
    assert_eq!(submission.body, "{\"cents\":7}");
    let pending = house.result(&first).await.expect("it runs");
    assert!(matches!(pending, QueuedResult::Pending(_)));
    let done = Ok(Submitted::Done(done("{\"a\": 1}")));
    answer.send(done).expect("it is awaited");
    running.await.expect("no panic");
    let QueuedResult::Answered { answer: result, .. } =
        house.result(&first).await.expect("a result")
    else {
        panic!("it is over");
    };
    assert_eq!(result.body, "{\"a\": 1}");
    assert_eq!(house.balance().await, (993, 0));
    // The room that came back is seen without a look at anything else.
    house.router.queue_rings().await;
    let running = tokio::spawn(house.next_execution().await.expect("there is room"));
    let (_, answer) = house.submitted().await;
    let failed = Failure::Failed {
        ran: Ran::Nothing,
        message: "away".to_owned(),
    };
    answer.send(Err(failed)).expect("it is awaited");
    running.await.expect("no panic");
    let state = house.state(&second).await;
    assert_eq!(state, over(QueueFailure::Failed(Bucket::ProviderError)));
    let error = house.result(&second).await.expect_err("it failed");
    assert_eq!(error.bucket(), Bucket::ProviderError);
    assert_eq!(house.balance().await, (993, 0));
    assert_eq!(house.load().await.calls, 0);
    let record = house.record().await;
    assert_eq!(record.len(), 2, "one for each submission");
    assert!(
        record
            .iter()
            .all(|row| row.began() && row.generation.is_some())
    );
}

#[tokio::test]
async fn what_can_never_run_is_refused_at_once_and_what_cannot_any_more_ends() {
    let house = House::new().await;
    let refused = async |body| {
        house
            .submit(call(body))
            .await
            .expect_err("it is refused")
            .bucket()
    };
    assert_eq!(
        refused("{\"cents\":1001}").await,
        Bucket::InsufficientCredits
    );
    assert_eq!(refused("{\"prompt\":7}").await, Bucket::InvalidInput);
    assert_eq!(refused("{").await, Bucket::InvalidInput);
    let cap = AccountChange::CommittedSpendCents(Some(5));
    house.change(cap).await;
    let dear = refused("{\"cents\":6}").await;
    assert_eq!(dear, Bucket::ConcurrencyLimitExceeded);
    house.change(AccountChange::CommittedSpendCents(None)).await;
    for _ in 0..3 {
        house.submitted_request("{\"cents\":900}").await;
    }
    let full = house.submit(call("{}")).await;
    assert!(matches!(full, Err(RouterError::BacklogFull { limit: 3 })));
    let running = tokio::spawn(house.next_execution().await.expect("there is room"));
    // The first took the credits that the others would need.
    assert!(house.next_execution().await.is_none());
    let (_, answer) = house.submitted().await;
    let done = Ok(Submitted::Done(done("{}")));
    answer.send(done).expect("it is awaited");
    running.await.expect("no panic");
    let caller = house.caller().await;
    let page = house
        .router
        .requests(&caller, MODEL, &[], &[], house.clock.now());
    let page = page.await.expect("memory answers").requests;
    let broke = QueueFailure::NotDispatched {
        bucket: Bucket::InsufficientCredits,
        message: RouterError::InsufficientCredits.to_string(),
    };
    let states: Vec<QueueState> = page.into_iter().map(|one| one.request.state).collect();
    assert_eq!(
        states,
        [over(broke.clone()), over(broke), QueueState::Over(None)]
    );
    assert_eq!((house.submits(), house.balance().await), (1, (100, 0)));
}

#[tokio::test]
async fn a_cancelled_request_is_not_sent_or_its_partner_is_asked_to_stop() {
    let house = House::new().await;
    let withdrawn = house.submitted_request("{}").await;
    assert_eq!(house.cancel(&withdrawn).await, Cancelled::Withdrawn);
    assert!(house.next_execution().await.is_none());
    // Dispatched, and not sent yet.
    let unsent = house.submitted_request("{}").await;
    let execution = house.next_execution().await.expect("there is room");
    assert_eq!(house.cancel(&unsent).await, Cancelled::Noted);
    execution.await;
    // Sent, and accepted.
    let running = house.submitted_request("{}").await;
    let execution = tokio::spawn(house.next_execution().await.expect("there is room"));
    let (_, answer) = house.submitted().await;
    answer.send(Ok(accepted(3_600))).expect("it is awaited");
    house.clock.somebody_sleeps().await;
    assert_eq!(house.cancel(&running).await, Cancelled::Noted);
    let failed = Failure::Failed {
        ran: Ran::Perhaps,
        message: "cancelled".to_owned(),
    };
    house.collected(Err(failed)).await;
    execution.await.expect("no panic");
    for request in [&withdrawn, &unsent, &running] {
        assert_eq!(house.state(request).await, over(QueueFailure::Cancelled));
        let error = house.result(request).await.expect_err("there is none");
        assert!(matches!(error, RouterError::RequestCancelled));
        assert_eq!(house.cancel(request).await, Cancelled::TooLate);
    }
    assert_eq!(
        (
            house.submits(),
            house.puppet.cancels.load(Ordering::Relaxed)
        ),
        (1, 1)
    );
    assert_eq!(
        (house.balance().await, house.load().await.calls),
        ((1_000, 0), 0)
    );
}

#[tokio::test]
async fn what_finished_before_the_partner_heard_of_the_wish_has_its_result_and_bill() {
    let house = House::new().await;
    let request = house.submitted_request("{\"cents\":7}").await;
    let execution = tokio::spawn(house.next_execution().await.expect("there is room"));
    let (_, answer) = house.submitted().await;
    answer.send(Ok(accepted(3_600))).expect("it is awaited");
    house.clock.somebody_sleeps().await;
    house.cancel(&request).await;
    house.collected(Ok(Collected::Done(done("{}")))).await;
    execution.await.expect("no panic");
    assert_eq!(house.state(&request).await, QueueState::Over(None));
    assert_eq!(house.balance().await, (993, 0));
}

#[tokio::test]
async fn a_result_is_kept_for_24_hours_and_is_gone_then() {
    let house = House::new().await;
    let request = house.submitted_request("{}").await;
    let execution = tokio::spawn(house.next_execution().await.expect("there is room"));
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("it is awaited");
    execution.await.expect("no panic");
    house.clock.advance(KEPT - Duration::from_secs(1));
    assert!(matches!(
        house.result(&request).await,
        Ok(QueuedResult::Answered { .. })
    ));
    house.clock.advance(Duration::from_secs(1));
    let gone = house.result(&request).await;
    assert!(matches!(gone, Err(RouterError::ResultGone)), "{gone:?}");
    let (caller, now) = (house.caller().await, house.clock.now());
    let status = house.router.request_status(&caller, MODEL, &request, now);
    assert!(matches!(status.await, Err(RouterError::ResultGone)));
}

#[tokio::test]
async fn an_account_without_the_router_runs_nothing_and_a_submission_needs_what_a_call_needs() {
    let house = House::new().await;
    let request = house.submitted_request("{}").await;
    house.change(AccountChange::Router(false)).await;
    assert!(house.next_execution().await.is_none());
    house.change(AccountChange::Router(true)).await;
    let QueueState::Over(Some(failure)) = house.state(&request).await else {
        panic!("it is over");
    };
    assert_eq!(failure.bucket(), Bucket::NotEnabled);
    house.change(AccountChange::Subscribed(false)).await;
    let refused = house.submit(call("{}")).await;
    assert!(matches!(refused, Err(RouterError::Forbidden(_))));
    let nobody = Uuid::nil().to_string();
    let (caller, now) = (house.caller().await, house.clock.now());
    let found = house
        .router
        .request_status(&caller, MODEL, &nobody, now)
        .await;
    assert!(matches!(found, Err(RouterError::RequestNotFound)));
}

#[tokio::test]
async fn a_submission_that_is_dearer_than_the_cap_is_told_what_is_committed() {
    let house = House::new().await;
    let cap = AccountChange::CommittedSpendCents(Some(30));
    house.change(cap).await;
    let running = house.begin(call("{\"cents\":10}")).await;
    let (_, answer) = house.submitted().await;
    let told = house.submit(call("{\"cents\":50}")).await;
    let told = told.expect_err("it never has room");
    let is_told = matches!(
        told,
        RouterError::SpendCap {
            limit_cents: 30,
            current_cents: 10,
            ..
        }
    );
    assert!(is_told, "{told:?}");
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("it is awaited");
    running.answer().await.expect("a result");
}

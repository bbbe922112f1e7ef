//! What becomes of requests that are submitted to the queue.

use accounts::Fingerprint;
use foldhash::HashSet;
use futures_util::future::join_all;

use super::{
    Bucket, Bytes, Claimed, Ending, Outcome, Rule, Settled, Stores, account, answer, answered, at,
    claim, generation, id, kept, model, record,
};
use crate::{
    Breakdown, CallRecord, Cancelled, Dispatched, Enqueued, GenerationId, KeyDigest, ModelId,
    ModelTotal, QueueBounds, QueueFailure, QueueState, QueuedCall, QueuedRequest, REPLAY_CAP_BYTES,
    UsageQuery,
};

pub(super) const RULES: [Rule; 9] = [
    |stores| {
        Box::pin(a_request_waits_in_turn_and_is_dispatched_with_its_body(
            stores,
        ))
    },
    |stores| Box::pin(a_key_is_one_request_in_one_space_with_calls(stores)),
    |stores| {
        Box::pin(the_state_is_that_of_the_generation_and_its_result_is_kept(
            stores,
        ))
    },
    |stores| Box::pin(a_result_is_kept_whatever_its_size(stores)),
    |stores| {
        Box::pin(what_waits_is_withdrawn_and_what_runs_is_asked_to_stop(
            stores,
        ))
    },
    |stores| {
        Box::pin(what_ends_without_a_dispatch_frees_its_key_and_tells_why(
            stores,
        ))
    },
    |stores| Box::pin(bounds_hold_for_submissions_at_once(stores)),
    |stores| Box::pin(a_submission_succeeds_with_its_generation(stores)),
    |stores| Box::pin(requests_are_listed_newest_first_and_belong_to_their_account(stores)),
];

const BOUNDS: QueueBounds = QueueBounds {
    of_account: 10,
    of_all: 12,
};

pub(super) fn call(name: &str, n: u128) -> QueuedCall {
    QueuedCall {
        id: id(n),
        account: account(name),
        model: model(),
        query: "a=1".to_owned(),
        labels: accounts::Labels::NONE,
        api_key: None,
        key: KeyDigest::of_request(id(n)),
        received_at: at(i64::try_from(n).unwrap_or(0)),
        expires_at: at(24 * 3600),
        body: Bytes::from(format!("{{ \"n\": {n} }}")),
    }
}

impl Stores {
    pub(super) async fn enqueue(&self, call: QueuedCall) -> Enqueued {
        self.enqueue_as(call, 1).await
    }

    async fn enqueue_as(&self, call: QueuedCall, fingerprint: u8) -> Enqueued {
        let fingerprint = Fingerprint([fingerprint; 32]);
        let enqueued = self.queue.enqueue(call, fingerprint, BOUNDS, at(0)).await;
        enqueued.expect("the store answers")
    }

    async fn find_request(&self, n: u128) -> QueuedRequest {
        let found = self.queue.find(&account("acme"), id(n)).await;
        found.expect("the store answers").expect("it is there")
    }

    async fn state(&self, n: u128) -> QueueState {
        self.find_request(n).await.state
    }

    /// Takes the next request.
    async fn take_next(&self) -> Option<QueuedCall> {
        let next = self.queue.first(&HashSet::default())?;
        let taken = self.queue.take(next.id, at(10)).await;
        taken.expect("the store answers")
    }

    /// Takes the next request, which is the `n`th, and dispatches it.
    async fn start_request(&self, n: u128) {
        let call = self.take_next().await.expect("one waits");
        assert_eq!(call.id, id(n));
        let begun = self.dispatch_with(super::FIRST, Some(call.key), generation(n, 5));
        assert_eq!(begun.await, Dispatched::Begun);
        let noted = self.queue.dispatched(id(n)).await;
        noted.expect("the store answers");
    }

    async fn cancel_request(&self, n: u128) -> Option<Cancelled> {
        let cancelled = self.queue.cancel(&account("acme"), id(n), at(20)).await;
        cancelled.expect("the store answers")
    }

    async fn end_request(&self, n: u128, failure: QueueFailure) {
        let ended = self.queue.end(id(n), failure, at(20)).await;
        ended.expect("the store answers");
    }

    async fn request_outcome(&self, n: u128) -> Option<Outcome> {
        let outcome = self.queue.outcome(id(n)).await;
        outcome.expect("the store answers")
    }
}

fn waits(ahead: usize) -> QueueState {
    QueueState::Waiting { ahead }
}

async fn a_request_waits_in_turn_and_is_dispatched_with_its_body(stores: Stores) {
    stores.open_account().await;
    let large = Bytes::from(vec![b'7'; 300_000]);
    for (name, n) in [("acme", 1), ("acme", 2), ("other", 3)] {
        let mut call = call(name, n);
        if n == 2 {
            call.body = large.clone();
        }
        assert_eq!(stores.enqueue(call).await, Enqueued::Waits);
    }
    assert_eq!(stores.queue.waiting(), 3);
    assert_eq!(
        (stores.state(1).await, stores.state(2).await),
        (waits(0), waits(2))
    );
    let taken = stores.take_next().await.expect("one waits");
    assert_eq!(taken, call("acme", 1));
    assert_eq!(stores.state(1).await, QueueState::Running);
    assert_eq!(stores.state(2).await, waits(1));
    let next = stores.queue.first(&HashSet::default()).expect("one waits");
    assert_eq!(next.id, id(3));
    // It had no room, and has its turn again.
    let place = crate::WaitingCall {
        account: account("acme"),
        id: id(1),
        seq: next.seq - 2,
        received_at: at(1),
    };
    stores.queue.put_back(place);
    assert_eq!(stores.state(1).await, waits(0));
    stores.start_request(1).await;
    let blocked = HashSet::from_iter([account("other")]);
    let next = stores.queue.first(&blocked).expect("one waits");
    assert_eq!(next.id, id(2));
    let taken = stores.queue.take(id(2), at(10)).await;
    let taken = taken.expect("the store answers").expect("it waits");
    assert_eq!((taken.body, taken.query.as_str()), (large, "a=1"));
    let again = stores.queue.take(id(2), at(10)).await;
    assert_eq!(again.expect("the store answers"), None);
    assert_eq!(stores.queue.waiting(), 1);
}

async fn a_key_is_one_request_in_one_space_with_calls(stores: Stores) {
    stores.open_account().await;
    let keyed = |n, key| QueuedCall {
        key: KeyDigest([key; 32]),
        ..call("acme", n)
    };
    assert_eq!(stores.enqueue_as(keyed(1, 7), 2).await, Enqueued::Waits);
    let known = Enqueued::Known(id(1));
    assert_eq!(stores.enqueue_as(keyed(2, 7), 2).await, known);
    assert_eq!(stores.enqueue_as(keyed(2, 7), 3).await, Enqueued::Conflict);
    assert_eq!(stores.claim(claim(7, 3), 0).await, Claimed::Conflict);
    let seen = |fingerprint| {
        let (queue, acme) = (stores.queue.clone(), account("acme"));
        async move {
            let fingerprint = Fingerprint([fingerprint; 32]);
            let seen = queue
                .known(&acme, KeyDigest([7; 32]), fingerprint, at(0))
                .await;
            seen.expect("the store answers")
        }
    };
    assert_eq!(seen(2).await, Some(known));
    assert_eq!(seen(9).await, Some(Enqueued::Conflict));
    stores.start_request(1).await;
    assert_eq!(seen(2).await, Some(known));
    stores.settle(1, answered(b"{}", 0)).await;
    assert_eq!(stores.enqueue_as(keyed(2, 7), 2).await, known);
    // A key of a call is not one of a submission.
    stores.claim(claim(8, 4), 0).await;
    assert_eq!(stores.enqueue_as(keyed(5, 8), 2).await, Enqueued::Conflict);
    // It is the account's own.
    let other = QueuedCall {
        key: KeyDigest([7; 32]),
        ..call("other", 6)
    };
    assert_eq!(stores.enqueue_as(other, 2).await, Enqueued::Waits);
}

async fn the_state_is_that_of_the_generation_and_its_result_is_kept(stores: Stores) {
    stores.open_account().await;
    for n in 1..=4 {
        stores.enqueue(call("acme", n)).await;
    }
    stores.start_request(1).await;
    assert_eq!(stores.state(1).await, QueueState::Running);
    assert_eq!(stores.request_outcome(1).await, None);
    stores.accepted(1, b"handle").await;
    let settled = stores.settle(1, answered(b"{\"a\" : 1.0}", 4)).await;
    assert_eq!(settled, Settled::Now);
    assert_eq!(stores.state(1).await, QueueState::Over(None));
    let result = Outcome::Answered(answer(Bytes::from_static(b"{\"a\" : 1.0}")));
    assert_eq!(stores.request_outcome(1).await, Some(result));
    stores.start_request(2).await;
    let failed = Outcome::Failed {
        bucket: Bucket::ProviderError,
        message: "it failed".to_owned(),
    };
    stores.settle(2, kept(failed.clone(), 0)).await;
    let told = |bucket| QueueState::Over(Some(QueueFailure::Failed(bucket)));
    assert_eq!(stores.state(2).await, told(Bucket::ProviderError));
    assert_eq!(stores.request_outcome(2).await, Some(failed));
    stores.start_request(3).await;
    let ending = Ending::Released(Bucket::ServiceUnavailable);
    stores.settle(3, ending).await;
    assert_eq!(stores.state(3).await, told(Bucket::ServiceUnavailable));
    assert_eq!(stores.request_outcome(3).await, None);
    assert_eq!(stores.state(4).await, waits(0));
}

async fn a_result_is_kept_whatever_its_size(stores: Stores) {
    stores.open_account().await;
    stores.enqueue(call("acme", 1)).await;
    stores.start_request(1).await;
    let large = Outcome::Answered(answer(vec![7; REPLAY_CAP_BYTES + 1].into()));
    stores.settle(1, kept(large.clone(), 0)).await;
    assert_eq!(stores.request_outcome(1).await, Some(large));
}

async fn what_waits_is_withdrawn_and_what_runs_is_asked_to_stop(stores: Stores) {
    stores.open_account().await;
    for n in 1..=4 {
        stores.enqueue(call("acme", n)).await;
    }
    let cancelled = QueueState::Over(Some(QueueFailure::Cancelled));
    assert_eq!(stores.cancel_request(2).await, Some(Cancelled::Withdrawn));
    assert_eq!(stores.state(2).await, cancelled);
    assert_eq!(stores.cancel_request(2).await, Some(Cancelled::TooLate));
    assert_eq!(stores.cancel_request(9).await, None);
    let other = stores.queue.cancel(&account("other"), id(1), at(20)).await;
    assert_eq!(other.expect("the store answers"), None);
    // Its key stands for what was cancelled.
    assert_eq!(
        stores.enqueue(call("acme", 2)).await,
        Enqueued::Known(id(2))
    );
    stores.start_request(1).await;
    assert_eq!(stores.cancel_request(1).await, Some(Cancelled::Noted));
    assert_eq!(stores.state(1).await, QueueState::Running);
    let failed = Outcome::Failed {
        bucket: Bucket::ProviderError,
        message: "cancelled".to_owned(),
    };
    stores.settle(1, kept(failed, 3)).await;
    assert_eq!(stores.state(1).await, cancelled);
    assert_eq!(stores.cancel_request(1).await, Some(Cancelled::TooLate));
    // What finished before the partner heard of it has its result.
    stores.start_request(3).await;
    assert_eq!(stores.cancel_request(3).await, Some(Cancelled::Noted));
    stores.settle(3, answered(b"{}", 4)).await;
    assert_eq!(stores.state(3).await, QueueState::Over(None));
    assert_eq!(stores.queue.waiting(), 1);
    // One that is cancelled while it is being dispatched, and gets its place back, is not dispatched any more.
    let place = stores.queue.first(&HashSet::default()).expect("one waits");
    stores.take_next().await.expect("one waits");
    assert_eq!(stores.cancel_request(4).await, Some(Cancelled::Noted));
    stores.queue.put_back(place);
    assert_eq!(stores.take_next().await, None);
    assert_eq!(stores.state(4).await, cancelled);
    assert_eq!(stores.queue.waiting(), 0);
    assert_eq!(
        stores.enqueue(call("acme", 4)).await,
        Enqueued::Known(id(4))
    );
}

async fn what_ends_without_a_dispatch_frees_its_key_and_tells_why(stores: Stores) {
    stores.open_account().await;
    for n in 1..=3 {
        stores.enqueue(call("acme", n)).await;
    }
    let late: HashSet<GenerationId> = stores.queue.overdue(at(3), 10).into_iter().collect();
    assert_eq!(late, HashSet::from_iter([id(1), id(2)]));
    stores.end_request(1, QueueFailure::WaitedTooLong).await;
    let failure = QueueFailure::NotDispatched {
        bucket: Bucket::InsufficientCredits,
        message: "too poor".to_owned(),
    };
    let taken = stores.take_next().await.expect("one waits");
    assert_eq!(taken.id, id(2));
    stores.end_request(2, failure.clone()).await;
    // The first end stands.
    stores.end_request(2, QueueFailure::WaitedTooLong).await;
    let over = |failure| QueueState::Over(Some(failure));
    assert_eq!(stores.state(1).await, over(QueueFailure::WaitedTooLong));
    assert_eq!(stores.state(2).await, over(failure));
    assert_eq!(stores.queue.waiting(), 1);
    let again = QueuedCall {
        key: KeyDigest::of_request(id(1)),
        ..call("acme", 4)
    };
    assert_eq!(stores.enqueue(again).await, Enqueued::Waits);
    // What is dispatched does not end so.
    stores.start_request(3).await;
    stores.end_request(3, QueueFailure::WaitedTooLong).await;
    assert_eq!(stores.state(3).await, QueueState::Running);
}

/// Every submission is answered well; 1 is withdrawn, 2 fails, 3 has a result, 4 waits, 6 is 2 submitted again.
async fn a_submission_succeeds_with_its_generation(stores: Stores) {
    stores.open_account().await;
    for n in 1..=4 {
        stores.enqueue(call("acme", n)).await;
        stores.record(record(n, 0));
    }
    assert_eq!(stores.cancel_request(1).await, Some(Cancelled::Withdrawn));
    stores.start_request(2).await;
    let failed = Outcome::Failed {
        bucket: Bucket::ProviderError,
        message: "it failed".to_owned(),
    };
    stores.settle(2, kept(failed, 0)).await;
    stores.start_request(3).await;
    stores.settle(3, answered(b"{}", 4)).await;
    stores.dispatch(5, 9).await;
    stores.settle(5, answered(b"{}", 2)).await;
    stores.record(record(5, 0));
    stores.record(CallRecord {
        generation: Some(id(2)),
        replayed: true,
        ..record(6, 0)
    });
    let query = UsageQuery::default();
    let totals = stores.usage.totals(&query, Breakdown::default()).await;
    let expected = ModelTotal {
        account: account("acme"),
        model: model(),
        api_key: None,
        label: None,
        calls: 6,
        succeeded: 2,
        generations: 3,
        charge_cents: 6,
    };
    assert_eq!(totals.expect("the store answers"), [expected]);
}

async fn bounds_hold_for_submissions_at_once(stores: Stores) {
    let of = |name: &'static str, from: u128| {
        let stores = stores.clone();
        let submissions = (from..from + 16).map(move |n| {
            let stores = stores.clone();
            async move { stores.enqueue(call(name, n)).await }
        });
        join_all(submissions)
    };
    let waiting = |all: &[Enqueued]| all.iter().filter(|one| **one == Enqueued::Waits).count();
    let own = of("acme", 1).await;
    assert_eq!(waiting(&own), 10);
    assert!(own.contains(&Enqueued::Full { limit: 10 }));
    let others = of("other", 101).await;
    assert_eq!(waiting(&others), 2);
    assert!(others.contains(&Enqueued::Full { limit: 12 }));
    assert_eq!(stores.queue.waiting(), 12);
}

async fn requests_are_listed_newest_first_and_belong_to_their_account(stores: Stores) {
    for n in [3, 1, 2] {
        stores.enqueue(call("acme", n)).await;
    }
    stores.enqueue(call("other", 4)).await;
    let list = |name: &'static str, model, before: Option<u128>, limit| {
        let queue = stores.queue.clone();
        async move {
            let (name, before) = (account(name), before.map(id));
            let found = queue.list(&name, &model, before, limit).await;
            let found = found.expect("the store answers")?.into_iter();
            Some(found.map(|request| request.id).collect::<Vec<_>>())
        }
    };
    let all = |ids: &[u128]| Some(ids.iter().copied().map(id).collect::<Vec<_>>());
    assert_eq!(list("acme", model(), None, 2).await, all(&[2, 1]));
    assert_eq!(list("acme", model(), Some(1), 2).await, all(&[3]));
    assert_eq!(list("acme", model(), Some(3), 2).await, all(&[]));
    assert_eq!(list("nobody", model(), None, 2).await, all(&[]));
    let another: ModelId = "a/b".parse().expect("a valid id");
    assert_eq!(list("acme", another.clone(), None, 2).await, all(&[]));
    // Nobody's, another account's, and one of another model.
    assert_eq!(list("acme", model(), Some(9), 2).await, None);
    assert_eq!(list("acme", model(), Some(4), 2).await, None);
    assert_eq!(list("acme", another, Some(1), 2).await, None);
    let others = stores.queue.find(&account("acme"), id(4)).await;
    assert_eq!(others.expect("the store answers"), None);
}

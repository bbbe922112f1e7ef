//! The order of checks, and what a plain call is.

use accounts::{AccountChange, Principal, Scopes};
use bytes::Bytes;

use super::harness::*;
use crate::{Bucket, CallHead, RequestId, RouterError, Submitted};

#[tokio::test]
async fn the_partner_gets_the_very_bytes_and_the_caller_gets_its() {
    let house = House::new().await;
    let body = "{ \"b\":1,\"a\": 1.0, \"a\":\"\\u00e9\" }";
    let call = house.begin(call(body)).await;
    let (submission, answer) = house.submitted().await;
    assert_eq!(submission.body, body);
    assert_eq!(submission.model.as_str(), "bfl/flux-2");
    answer
        .send(Ok(Submitted::Done(done("{ \"out\" :1}"))))
        .expect("awaited");
    let answer = call.answer().await.expect("a result");
    assert_eq!(answer.body, "{ \"out\" :1}");
    assert_eq!(answer.content_type, "application/json");
    assert_eq!(house.balance().await, (990, 0));
    let record = house.record().await;
    assert_eq!(record.len(), 1);
    assert!(record[0].call.delivered && record[0].call.bucket.is_none());
    assert_eq!(
        record[0]
            .generation
            .as_ref()
            .expect("dispatched")
            .charge_cents,
        Some(10)
    );
}

#[tokio::test]
async fn no_buffer_is_held_while_the_partner_works() {
    let house = House::new().await;
    let open = house.open(call("{}")).await.expect("its head is right");
    let (execution, waiter) = open.run(Bytes::from(b"{\"cents\":1}".to_vec()));
    assert!(
        size_of_val(&*execution) < 2_048,
        "{} bytes",
        size_of_val(&*execution)
    );
    assert!(size_of_val(&waiter) < 512, "{} bytes", size_of_val(&waiter));
    let call = under_way((execution, waiter));
    let (submission, answer) = house.submitted().await;
    assert!(
        submission.body.is_unique(),
        "the body is held besides the submission"
    );
    drop(submission);
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("a result");
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anything_is_done() {
    let house = House::new().await;
    let wrong = "{\"x\":\"unsendable\"}";
    for _ in 0..2 {
        let (refused, replayed) = house.ask(keyed(wrong)).await;
        let refused = refused.expect_err("it is refused");
        assert!(matches!(refused, RouterError::Schema(_)), "{refused:?}");
        assert!(!replayed, "its key is free again");
    }
    let told = house.estimate(wrong).await.expect_err("no price");
    assert!(matches!(told, RouterError::Schema(_)), "{told:?}");
    let open = house.open(call(wrong)).await.expect("its head is right");
    let submitted = open.enqueue(Bytes::from_static(wrong.as_bytes())).await;
    let told = submitted.result.expect_err("it is not queued");
    assert!(matches!(told, RouterError::Schema(_)), "{told:?}");
    drop(submitted.delivery);
    assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
    let record = house.record().await;
    assert!(record.iter().all(|row| row.generation.is_none()));
}

/// Every check fails, and each is told before the next: what is wrong is put right one by one.
#[tokio::test]
async fn checks_are_made_in_the_contracts_order() {
    let house = House::new().await;
    house.windows("1/1m").await;
    house.change(AccountChange::Router(false)).await;
    house.change(AccountChange::ConcurrentCalls(Some(0))).await;
    house
        .change(AccountChange::CommittedSpendCents(Some(5)))
        .await;
    house
        .change(AccountChange::Entitlements(Some(
            "none".parse().expect("patterns"),
        )))
        .await;
    house.change(AccountChange::Subscribed(false)).await;
    house.grant(-1_000).await;
    let mut wrong = Call {
        model: "flux-3",
        query: "",
        key: Some("\u{7}"),
        content_type: Some("text/plain"),
        body: "{",
    };
    let mut scopes = Scopes::NONE;
    let ask = async |wrong: Call<'_>, scopes| {
        let caller = Principal {
            scopes,
            ..house.caller().await
        };
        match house.open_as(&caller, wrong).await {
            Err(error) => error,
            Ok(open) => {
                let call = under_way(open.run(Bytes::from_static(wrong.body.as_bytes())));
                let answered = call.waiter.await.expect("no panic");
                drop(answered.delivery);
                call.execution.await.expect("no panic");
                answered.result.expect_err("something is wrong")
            }
        }
    };

    house.refused(wrong).await;
    assert_eq!(ask(wrong, scopes).await.bucket(), Bucket::RateLimited);
    house.windows("none").await;
    assert_eq!(ask(wrong, scopes).await.bucket(), Bucket::NotEnabled);
    house.change(AccountChange::Router(true)).await;
    let told = ask(wrong, scopes).await.to_string();
    assert!(told.contains("router:run"), "{told}");
    scopes = Scopes::all();
    let told = ask(wrong, scopes).await.to_string();
    assert!(told.contains("subscription"), "{told}");
    house.change(AccountChange::Subscribed(true)).await;
    assert_eq!(ask(wrong, scopes).await.bucket(), Bucket::ModelNotFound);
    wrong.model = "flux-2";
    let told = ask(wrong, scopes).await.to_string();
    assert!(told.contains("entitled"), "{told}");
    house.change(AccountChange::Entitlements(None)).await;
    assert!(matches!(ask(wrong, scopes).await, RouterError::MediaType));
    wrong.content_type = Some("application/json");
    assert!(
        ask(wrong, scopes)
            .await
            .to_string()
            .contains("Idempotency-Key")
    );
    wrong.key = Some("key");
    assert_eq!(
        ask(wrong, scopes).await.bucket(),
        Bucket::InsufficientCredits
    );
    house.grant(2_000).await;
    assert!(matches!(
        ask(wrong, scopes).await,
        RouterError::Malformed(_)
    ));
    wrong.body = "[]";
    assert!(matches!(ask(wrong, scopes).await, RouterError::Schema(_)));
    wrong.body = "{}";
    assert!(matches!(
        ask(wrong, scopes).await,
        RouterError::TooManyCalls { limit: 0 }
    ));
    house.change(AccountChange::ConcurrentCalls(None)).await;
    assert!(matches!(
        ask(wrong, scopes).await,
        RouterError::SpendCap { .. }
    ));
    assert_eq!(house.submits(), 0);
    assert_eq!(house.balance().await.1, 0, "every hold was given back");
    assert_eq!(house.record().await.len(), 14, "each of them is on record");

    // And the key is free, whatever came before.
    house.change(AccountChange::CommittedSpendCents(None)).await;
    let call = house.begin(wrong).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("a result");
}

#[tokio::test]
async fn all_violations_are_told_at_once() {
    let house = House::new().await;
    let refused = house
        .refused(call(r#"{"prompt":"longer","cents":"x"}"#))
        .await;
    let RouterError::Schema(violations) = refused else {
        panic!("{refused:?}");
    };
    let kinds: Vec<&str> = violations.iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds, ["string_too_long", "int_type"]);
}

#[tokio::test]
async fn a_body_is_json_by_its_media_type() {
    let house = House::new().await;
    for (content_type, good) in [
        (None, true),
        (Some("application/json"), true),
        (Some("Application/JSON; charset=utf-8"), true),
        (Some("application/vnd.x+json"), true),
        (Some(""), false),
        (Some("text/json+x"), false),
        (Some("text/plain"), false),
        (Some("application/x-www-form-urlencoded"), false),
    ] {
        let opened = house
            .open(Call {
                content_type,
                ..call("{}")
            })
            .await;
        assert_eq!(opened.is_ok(), good, "{content_type:?}");
    }
}

#[tokio::test]
async fn a_key_has_1_to_255_printable_characters_and_comes_once() {
    let house = House::new().await;
    let caller = house.caller().await;
    let long = "x".repeat(255);
    let longer = "x".repeat(256);
    let cases: [(&[&[u8]], bool); 8] = [
        (&[], true),
        (&[b"k"], true),
        (&[long.as_bytes()], true),
        (&[longer.as_bytes()], false),
        (&[b""], false),
        (&[b"a\tb"], false),
        (&[b"\xff"], false),
        (&[b"k", b"k"], false),
    ];
    for (keys, good) in cases {
        let head = CallHead {
            request: RequestId(uuid::Uuid::nil()),
            provider: "bfl",
            model: "flux-2",
            query: "",
            content_type: None,
            keys,
            labels: &[],
        };
        let opened = house.router.open(&caller, head, start()).await;
        assert_eq!(opened.is_ok(), good, "{keys:?}");
    }
}

#[tokio::test]
async fn concurrency_clears_when_a_call_of_ones_own_finishes() {
    let house = House::new().await;
    house.change(AccountChange::ConcurrentCalls(Some(1))).await;
    let first = house.begin(call("{}")).await;
    let (_, answer) = house.submitted().await;
    let refused = house.refused(call("{}")).await;
    assert_eq!(refused.bucket(), Bucket::ConcurrencyLimitExceeded);
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    first.answer().await.expect("a result");
    // The room is free as soon as the answer is there.
    let second = house.begin(call("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    second.answer().await.expect("a result");
}

#[tokio::test]
async fn the_committed_spend_is_what_calls_in_flight_may_cost() {
    let house = House::new().await;
    house
        .change(AccountChange::CommittedSpendCents(Some(100)))
        .await;
    let first = house.begin(call(r#"{"cents":70}"#)).await;
    let (_, answer) = house.submitted().await;
    assert_eq!(house.balance().await, (1_000, 70));
    let refused = house.refused(call(r#"{"cents":31}"#)).await;
    let told = matches!(
        refused,
        RouterError::SpendCap {
            hold_cents: 31,
            limit_cents: 100,
            current_cents: 70
        }
    );
    assert!(told, "{refused:?}");
    let dearer = house.refused(call(r#"{"cents":101}"#)).await;
    assert_eq!(
        dearer.to_string(),
        "the call may cost 101 US cents, and calls in flight may commit 100 at most; ask for less, or have the cap raised"
    );
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    first.answer().await.expect("a result");
    assert_eq!(house.load().await, crate::Load::default());
}

/// A body of 300 KB under a key: its waiter and its execution run.
async fn large(house: &House) -> UnderWay {
    let open = house.open(keyed("")).await.expect("its head is right");
    let filler = " ".repeat(300 * 1024);
    under_way(open.run(format!("{{\"cents\":1{filler}}}").into()))
}

#[tokio::test]
async fn a_large_body_is_hashed_and_judged_aside() {
    let house = House::new().await;
    let call = large(&house).await;
    for _ in 0..2 {
        assert_eq!(house.submits(), 0);
        let work = house.aside.next().await;
        work();
    }
    let (submission, answer) = house.submitted().await;
    assert!(submission.body.len() > 300 * 1024);
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("a result");
    assert_eq!(house.balance().await, (999, 0));
}

#[tokio::test]
async fn a_panic_aside_fails_its_call_alone_and_frees_its_key() {
    let house = House::new().await;
    for pieces_done in [0, 1] {
        let call = large(&house).await;
        for _ in 0..pieces_done {
            let work = house.aside.next().await;
            work();
        }
        drop(house.aside.next().await);
        let error = call.answer().await.expect_err("nobody judged it");
        assert_eq!(error.bucket(), Bucket::InternalError);
    }
    assert_eq!((house.submits(), house.balance().await), (0, (1_000, 0)));
    let call = house.begin(keyed("{}")).await;
    let (_, answer) = house.submitted().await;
    answer
        .send(Ok(Submitted::Done(done("{}"))))
        .expect("awaited");
    call.answer().await.expect("the key was free");
}

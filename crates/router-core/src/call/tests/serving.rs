//! Calls that name who serves them.

use std::time::Duration;

use accounts::AccountChange;
use serde_json::json;

use super::world::*;
use crate::{Bucket, Failure, Ran, Refusal, RouterError, Usage, UsageQuery, Violation};

const PROMPT: &str = r#"{"prompt":"cat"}"#;

fn ask(query: &'static str) -> Ask<'static> {
    Ask {
        query,
        key: None,
        body: PROMPT,
    }
}

fn keyed(query: &'static str) -> Ask<'static> {
    Ask {
        key: Some("key"),
        ..ask(query)
    }
}

fn partners(world: &World) -> Vec<&'static str> {
    world.sent().iter().map(|sent| sent.partner).collect()
}

#[track_caller]
fn violations(told: &Told) -> Vec<(String, &'static str)> {
    let Err(RouterError::Schema(violations)) = &told.result else {
        panic!("{:?}", told.result);
    };
    let told = |one: &Violation| (one.message.clone(), one.kind);
    violations.iter().map(told).collect()
}

#[tokio::test]
async fn whoever_may_fall_back_on_anybody_falls_back_on_whom_it_may_use() {
    let world = World::new().await;
    let entitled = "own/*".parse().expect("patterns");
    world
        .change(AccountChange::Entitlements(Some(entitled)))
        .await;
    let router = world.router(1, None);
    let any = world.ask(&router, 1, ask("fallback_provider=true"));
    assert_eq!(any.expect("alive").json()["picture"], json!("own-0"));
    for (n, query, parameter) in [
        (2, "fallback_provider=other", "fallback_provider"),
        (
            3,
            "model_provider=other&fallback_provider=true",
            "model_provider",
        ),
    ] {
        let named = world.ask(&router, n, ask(query)).expect("alive");
        let told = named.result.expect_err("it may not");
        assert_eq!(
            told.to_string(),
            format!("this workspace is not entitled to other/flux, which `{parameter}` names")
        );
    }
    let entitled = "own/*,third/*".parse().expect("patterns");
    world
        .change(AccountChange::Entitlements(Some(entitled)))
        .await;
    world.plan(
        0,
        [Deed::Fails(Failure::Transient {
            message: "away".to_owned(),
        })],
    );
    let any = world.ask(&router, 4, ask("fallback_provider=true"));
    assert_eq!(any.expect("alive").json()["picture"], json!("third-2"));
}

#[tokio::test]
async fn a_provider_that_cannot_send_a_body_does_not_serve_it() {
    let world = World::new().await;
    let router = world.router(1, None);
    let taboo = |query| Ask {
        body: r#"{"prompt":"taboo"}"#,
        ..ask(query)
    };
    let refused = world.ask(&router, 1, taboo("model_provider=other"));
    assert_eq!(
        violations(&refused.expect("alive")),
        [(
            "other does not take this body: it cannot be sent".to_owned(),
            "not_served"
        )]
    );
    let served = world.ask(&router, 2, taboo("fallback_provider=other"));
    assert_eq!(served.expect("alive").json()["picture"], json!("own-0"));
    assert_eq!(partners(&world), ["own"]);
}

#[tokio::test]
async fn a_call_is_served_by_whom_it_names_in_its_own_words() {
    let world = World::new().await;
    let router = world.router(1, None);
    let named = world
        .ask(&router, 1, ask("model_provider=other"))
        .expect("alive");
    assert_eq!(named.json(), json!({"picture": "other-0"}));
    assert_eq!(world.sent()[0].body, json!({"text": "cat"}));
    assert_eq!(named.charge_cents, Some(7));
    let serving = named.serving.expect("it was named");
    assert_eq!(
        (serving.model.as_str(), serving.fallback()),
        ("other/flux", None)
    );
    // Its own partner may be named too, and a query of something else names nobody.
    for (n, query) in ["model_provider=own", "x=1", ""].into_iter().enumerate() {
        let n = u128::try_from(n).expect("few");
        let own = world.ask(&router, 10 + n, ask(query)).expect("alive");
        assert_eq!(own.json()["picture"], json!(format!("own-{}", n + 1)));
        assert_eq!((own.serving, own.charge_cents), (None, Some(5)));
    }
    assert_eq!(world.sent()[1].body, json!({"prompt": "cat"}));
    assert_eq!(world.balance().await, (1_000 - 7 - 3 * 5, 0));
}

#[tokio::test]
async fn what_is_dropped_is_told_and_refused_in_strict_mode() {
    let world = World::new().await;
    let router = world.router(1, None);
    let body = r#"{"prompt":"cat","seed":7,"style":null}"#;
    let loose = Ask {
        body,
        ..ask("model_provider=other")
    };
    let told = world.ask(&router, 1, loose).expect("alive");
    let serving = told.serving.as_ref().expect("it was named");
    assert_eq!(serving.dropped, ["seed (other has no such field)"]);
    let strict = Ask {
        body,
        ..ask("model_provider=other&strict_mode=true")
    };
    let told = world.ask(&router, 2, strict).expect("alive");
    assert_eq!(
        violations(&told),
        [("other has no such field".to_owned(), "not_served")]
    );
    // Where nothing is dropped the mode changes nothing.
    let told = world.ask(&router, 3, ask("model_provider=other&strict_mode=true"));
    assert_eq!(told.expect("alive").json()["picture"], "other-1");
    assert_eq!(world.balance().await, (1_000 - 2 * 7, 0));
}

#[tokio::test]
async fn what_would_make_another_call_of_it_is_refused_before_anything_is_sent() {
    let world = World::new().await;
    let router = world.router(1, None);
    let picture = Ask {
        body: r#"{"prompt":"cat","picture":"p"}"#,
        ..keyed("model_provider=other")
    };
    let told = world.ask(&router, 1, picture).expect("alive");
    assert_eq!(
        violations(&told),
        [(
            "other makes pictures of words alone".to_owned(),
            "not_served"
        )]
    );
    let long = Ask {
        body: r#"{"prompt":"a long prompt"}"#,
        ..keyed("model_provider=other")
    };
    let told = world.ask(&router, 2, long).expect("alive");
    let [(message, kind)] = &violations(&told)[..] else {
        panic!("one violation");
    };
    assert!(
        message.starts_with("other does not take this body: "),
        "{message}"
    );
    assert_eq!(*kind, "not_served");
    assert!(world.sent().is_empty());
    // Nobody was asked, so the key is free.
    let told = world
        .ask(&router, 3, keyed("model_provider=other"))
        .expect("alive");
    assert_eq!(told.json()["picture"], "other-0");
}

#[tokio::test]
async fn a_provider_that_does_not_serve_the_model_is_named_with_those_that_do() {
    let world = World::new().await;
    let router = world.router(1, None);
    for query in ["model_provider=nobody", "fallback_provider=other,nobody"] {
        let told = world.ask(&router, 1, ask(query)).expect("alive");
        let error = told.result.expect_err("it is refused");
        assert_eq!(error.bucket(), Bucket::InvalidInput);
        let parameter = query.split('=').next().expect("a name");
        assert_eq!(
            error.to_string(),
            format!(
                "`{parameter}` names no provider that serves own/flux here; it is served by own, other, third"
            )
        );
    }
    assert!(world.sent().is_empty());
}

#[tokio::test]
async fn the_next_one_is_asked_after_a_proven_failure_and_the_record_lists_both() {
    let failures = [
        nothing_ran(),
        in_vain(),
        Failure::Transient {
            message: "busy".to_owned(),
        },
        Failure::Account {
            ran: Ran::Nothing,
            message: "no money".to_owned(),
        },
        Failure::TimedOut {
            ran: Ran::InVain,
            message: "gave up".to_owned(),
        },
    ];
    for failure in failures {
        let accepted = Deed::Accepts(2, Box::new(Err(failure.clone())));
        for deed in [Deed::Fails(failure.clone()), accepted] {
            let world = World::new().await;
            let router = world.router(1, None);
            world.plan(0, [deed]);
            let asked = keyed("fallback_provider=other");
            let told = world.ask(&router, 1, asked).expect("alive");
            assert_eq!(told.json(), json!({"picture": "other-1"}));
            assert_eq!(partners(&world), ["own", "other"]);
            let serving = told.serving.expect("it was named");
            assert_eq!(serving.fallback(), Some("other"));
            assert_eq!(told.charge_cents, Some(7));
            assert_eq!(world.balance().await, (993, 0));
            let again = world.ask(&router, 2, asked).expect("alive");
            assert!(again.replayed);
            assert_eq!(again.serving.as_ref(), Some(&serving));
            let record = world.calls.page(&UsageQuery::default(), None, 10).await;
            let record = record.expect("memory answers");
            let kept = record[1].generation.as_ref().expect("it ran");
            assert_eq!(kept.serving.as_ref(), Some(&serving));
            let [failed] = &serving.failed[..] else {
                panic!("one failed: {serving:?}");
            };
            assert_eq!(failed.model.as_str(), "own/flux");
            assert!(failed.began_at <= failed.ended_at && failed.ended_at <= serving.began_at);
        }
    }
}

#[tokio::test]
async fn what_is_unknown_or_an_answer_of_the_partner_never_falls_back() {
    let failures = [
        unknown(),
        Failure::TimedOut {
            ran: Ran::Perhaps,
            message: "late".to_owned(),
        },
        Failure::Account {
            ran: Ran::Perhaps,
            message: "later".to_owned(),
        },
        Failure::Refused {
            refusal: Refusal::Content {
                code: "c".to_owned(),
                message: "m".to_owned(),
            },
            charge: crate::Charge::Cents(0),
        },
        Failure::Policy {
            message: "no".to_owned(),
            detail: None,
            charge: crate::Charge::Cents(0),
        },
    ];
    for failure in failures {
        let world = World::new().await;
        let router = world.router(1, None);
        world.plan(0, [Deed::Fails(failure.clone())]);
        let asked = keyed("fallback_provider=other,third");
        let told = world.ask(&router, 1, asked).expect("alive");
        told.result.expect_err("it failed");
        let again = world.ask(&router, 2, asked).expect("alive");
        again.result.expect_err("the key has the failure");
        assert!(again.replayed, "{failure:?}");
        assert_eq!(partners(&world), ["own"], "{failure:?}");
        assert_eq!(world.balance().await, (1_000, 0));
    }
}

#[tokio::test]
async fn a_key_is_free_after_all_only_if_nobody_ran_anything() {
    for (first, is_free) in [(nothing_ran(), true), (in_vain(), false)] {
        let world = World::new().await;
        let router = world.router(1, None);
        world.plan(0, [Deed::Fails(first)]);
        world.plan(1, [Deed::Fails(nothing_ran())]);
        let asked = keyed("fallback_provider=other");
        let told = world.ask(&router, 1, asked).expect("alive");
        assert_eq!(
            told.result.expect_err("all failed").bucket(),
            Bucket::ProviderError
        );
        assert_eq!(world.balance().await, (1_000, 0));
        let again = world.ask(&router, 2, asked).expect("alive");
        assert_eq!((again.result.is_ok(), again.replayed), (is_free, !is_free));
    }
}

#[tokio::test]
async fn fallbacks_are_asked_in_their_order_and_those_that_do_not_take_the_body_are_left_out() {
    let world = World::new().await;
    let router = world.router(1, None);
    let all = [Deed::Fails(nothing_ran())];
    for (place, _) in PARTNERS.iter().enumerate() {
        world.plan(place, all.clone());
    }
    let query = "model_provider=third&fallback_provider=own,other,third";
    let told = world.ask(&router, 1, ask(query)).expect("alive");
    told.result.expect_err("all failed");
    assert_eq!(partners(&world), ["third", "own", "other"]);
    world.plan(0, all.clone());
    world.plan(1, all.clone());
    let told = world
        .ask(&router, 2, ask("fallback_provider=true"))
        .expect("alive");
    assert_eq!(told.json()["picture"], "third-5");
    world.plan(0, all);
    let picture = Ask {
        body: r#"{"picture":"p"}"#,
        ..ask("fallback_provider=true")
    };
    let told = world.ask(&router, 3, picture).expect("alive");
    told.result.expect_err("nobody else takes pictures");
    assert_eq!(partners(&world)[6..], ["own"]);
}

#[tokio::test]
async fn the_hold_is_for_the_dearest_and_the_bill_is_of_who_served() {
    let world = World::new().await;
    let router = world.router(1, None);
    world.plan(0, [Deed::Accepts(3, Box::new(Ok(())))]);
    let caller = at_once(accounts::Accounts::by_id(
        &*world.accounts,
        &super::harness::acme(),
    ));
    let caller = caller.expect("memory answers").expect("it is there");
    let opened = router.open_estimate(
        &caller,
        ("own", "flux"),
        ("fallback_provider=true", None),
        world.now(),
    );
    let opened = at_once(opened).expect("a model");
    let estimate = at_once(router.estimate(&opened, PROMPT.into())).expect("a price");
    assert_eq!(
        (estimate.price, estimate.hold_cents),
        (crate::Price::Exact { cents: 5 }, 7)
    );
    let told = world
        .ask(&router, 1, ask("fallback_provider=true"))
        .expect("alive");
    assert_eq!(told.charge_cents, Some(5));
    let record = world.calls.page(&UsageQuery::default(), None, 10).await;
    let record = record.expect("memory answers");
    let kept = record[0].generation.as_ref().expect("it ran");
    assert_eq!((kept.hold_cents, kept.charge_cents), (7, Some(5)));
}

#[tokio::test]
async fn accepted_work_of_a_fallback_is_picked_up_after_a_crash_in_its_own_words() {
    let world = World::new().await;
    world.plan(0, [Deed::Accepts(1, Box::new(Err(in_vain())))]);
    world.plan(1, [Deed::Accepts(20, Box::new(Ok(())))]);
    let asked = keyed("fallback_provider=other");
    // It dies at a look at the second task.
    let router = world.router(1, Some(25));
    assert!(world.ask(&router, 1, asked).is_none());
    assert_eq!(partners(&world), ["own", "other"]);
    drop(router);
    world.advance(Duration::from_secs(31));
    let router = world.router(2, None);
    world.recover(&router).expect("it lives");
    let told = world.ask(&router, 2, asked).expect("alive");
    assert_eq!(told.json(), json!({"picture": "other-1"}));
    assert!(told.replayed);
    assert_eq!(
        told.serving.expect("it was named").fallback(),
        Some("other")
    );
    assert_eq!(
        (partners(&world).len(), world.balance().await),
        (2, (993, 0))
    );
}

#[tokio::test]
async fn a_handle_of_the_attempt_before_is_not_taken_for_one_of_this() {
    // The first one accepted and failed; the second one was sent, and the router died before it heard anything.
    for dies_after in 0..40 {
        let world = World::new().await;
        world.plan(0, [Deed::Accepts(0, Box::new(Err(in_vain())))]);
        world.plan(1, [Deed::Accepts(0, Box::new(Ok(())))]);
        let asked = keyed("fallback_provider=other");
        let router = world.router(1, Some(dies_after));
        let told = world.ask(&router, 1, asked);
        drop(router);
        world.advance(Duration::from_secs(31));
        let router = world.router(2, None);
        world.recover(&router).expect("it lives");
        if told.is_none() {
            world.ask(&router, 2, asked).expect("alive");
        }
        let sent = world.sent();
        let of_second = sent.iter().filter(|sent| sent.partner == "other");
        assert!(of_second.count() <= 1, "{dies_after}: {sent:?}");
        assert_eq!(world.wrong_handles(), 0, "{dies_after}");
    }
}

#[tokio::test]
async fn what_another_process_took_over_is_not_sent_to_anybody_else() {
    let world = World::new().await;
    let router = world.router(1, None);
    world.plan(0, [Deed::Fails(nothing_ran())]);
    world.steal();
    let told = world
        .ask(&router, 1, keyed("fallback_provider=other"))
        .expect("alive");
    let error = told.result.expect_err("it is another process' now");
    assert!(matches!(error, RouterError::TakenOver { .. }), "{error:?}");
    assert_eq!(partners(&world), ["own"]);
}

//! What goes wrong between the router and a partner, and what may be concluded from it.

use std::time::Duration;

use it::partners::{Fault, Outcome, Partner, Partners, Plan, Step};
use providers::{Source, load};
use router_core::{Collected, Failure, Ran, Refusal, Submitted};

use super::{Bench, Clock, environment, settings};

const SYNC: &str = "fal-sync/flux-dev";
const POLL: &str = "runway/gen4_turbo";

fn ran(failure: &Failure) -> Option<Ran> {
    match failure {
        Failure::Failed { ran, .. }
        | Failure::TimedOut { ran, .. }
        | Failure::Account { ran, .. } => Some(*ran),
        Failure::InStream { .. } => Some(Ran::Perhaps),
        Failure::Refused { .. } | Failure::Policy { .. } | Failure::Transient { .. } => None,
    }
}

#[tokio::test]
async fn a_connect_failure_is_provably_nothing_ran() {
    let partners = Partners::start().await.unwrap();
    let clock = Clock::new();
    let settings = settings(&partners, &clock);
    let loaded = load(&Source::with_builtin(None), &settings, &environment).unwrap();
    let bench = Bench {
        partners: Partners::start().await.unwrap(),
        loaded,
        clock,
    };
    // What was found while it was there is gone now.
    drop(partners);
    for model in [SYNC, POLL] {
        let failure = loop {
            let failure = bench.submit(model, "{}").await.unwrap_err();
            // A connection that was accepted before the socket closed may still break.
            if ran(&failure).is_none() {
                break failure;
            }
        };
        assert!(matches!(failure, Failure::Transient { .. }), "{failure:?}");
    }
}

#[tokio::test]
async fn a_submit_with_unknown_outcome_is_said_so_and_not_repeated() {
    for fault in [
        Fault::CutAfterRequest,
        Fault::CutMidAnswer,
        Fault::CutUnread,
        Fault::Malformed,
    ] {
        for (model, partner) in [(SYNC, Partner::FalSync), (POLL, Partner::Runway)] {
            let bench = Bench::start().await;
            bench.partners.fault(partner, Step::Submit, fault.clone());
            let failure = bench.submit(model, "{}").await.unwrap_err();
            assert_eq!(ran(&failure), Some(Ran::Perhaps), "{fault:?}: {failure:?}");
            let submits = bench.partners.requests_of(partner, Step::Submit);
            assert_eq!(submits.len(), 1, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_past_the_cap_is_not_read() {
    for fault in [Fault::Huge(1 << 40), Fault::HugeChunked(1 << 40)] {
        let bench = Bench::start().await;
        bench
            .partners
            .fault(Partner::FalSync, Step::Submit, fault.clone());
        let failure = bench.submit(SYNC, "{}").await.unwrap_err();
        assert_eq!(ran(&failure), Some(Ran::Perhaps), "{fault:?}: {failure:?}");

        let handle = bench.accepted(POLL, "{}").await;
        bench
            .partners
            .fault(Partner::Runway, Step::Poll, fault.clone());
        let failure = bench.collected(POLL, &handle).await.unwrap_err();
        assert_eq!(ran(&failure), Some(Ran::Perhaps), "{fault:?}: {failure:?}");
    }
}

#[tokio::test]
async fn a_silent_partner_is_given_up_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let partner = "name = \"fal\"\nbase_url = \"https://fal.run\"\n\
                   [auth]\nkind = \"header\"\nname = \"Authorization\"\nprefix = \"Key \"\nsecret = { env = \"FAL_SYNC\" }\n\
                   [call.x]\nstyle = \"sync\"\nsubmit = { path = \"/x\" }\ntimeouts = { submit_ms = 50 }\n";
    let model = "charges_on_policy_rejection = \"no\"\n[price]\nkind = \"fixed\"\ncents = 1\n";
    std::fs::create_dir(folder.path().join("hasty")).unwrap();
    std::fs::write(folder.path().join("hasty/partner.toml"), partner).unwrap();
    std::fs::write(folder.path().join("hasty/x.toml"), model).unwrap();
    let source = Source {
        builtin: false,
        folder: Some(folder.path().to_owned()),
    };
    let partners = Partners::start().await.unwrap();
    let clock = Clock::new();
    let environment = |name: &str| (name == "FAL_SYNC").then(|| Partner::FalSync.secret());
    let loaded = load(&source, &settings(&partners, &clock), &environment).unwrap();
    let bench = Bench {
        partners,
        loaded,
        clock,
    };
    bench
        .partners
        .fault(Partner::FalSync, Step::Submit, Fault::Stall);
    let failure = bench.submit("hasty/x", "{}").await.unwrap_err();
    assert!(
        matches!(
            failure,
            Failure::TimedOut {
                ran: Ran::Perhaps,
                ..
            }
        ),
        "{failure:?}"
    );
    let submits = bench.partners.requests_of(Partner::FalSync, Step::Submit);
    assert_eq!(submits.len(), 1);
}

#[tokio::test]
async fn not_found_right_after_submit_keeps_polling_a_while() {
    let bench = Bench::start().await;
    let handle = bench.accepted(POLL, "{}").await;
    for _ in 0..3 {
        bench
            .partners
            .fault(Partner::Runway, Step::Poll, Fault::Status(404));
    }
    let done = bench.collected(POLL, &handle).await;
    assert!(done.is_ok(), "{done:?}");

    let handle = bench.accepted(POLL, "{}").await;
    bench.clock.pass(Duration::from_secs(60));
    bench
        .partners
        .fault(Partner::Runway, Step::Poll, Fault::Status(404));
    let failure = bench
        .provider(POLL)
        .collect(&handle, &router_core::Contact::default())
        .await
        .unwrap_err();
    assert_eq!(ran(&failure), Some(Ran::Perhaps), "{failure:?}");
}

#[tokio::test]
async fn an_unknown_state_is_asked_again() {
    let bench = Bench::start().await;
    let handle = bench.accepted(POLL, "{}").await;
    for body in [
        "{\"status\":\"WARMING_UP\"}",
        "{}",
        "[]",
        "<html>",
        "{\"status\":",
    ] {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let fault = Fault::Answer(200, headers, body.as_bytes().to_vec());
        bench.partners.fault(Partner::Runway, Step::Poll, fault);
        let collected = bench
            .provider(POLL)
            .collect(&handle, &router_core::Contact::default())
            .await;
        assert!(
            matches!(collected, Ok(Collected::Pending { .. })),
            "{body}: {collected:?}"
        );
    }
    assert!(bench.collected(POLL, &handle).await.is_ok());
}

#[tokio::test]
async fn a_partner_that_names_a_time_is_left_alone_until_then() {
    let bench = Bench::start().await;
    let handle = bench.accepted(POLL, "{}").await;
    let headers = vec![("retry-after".to_owned(), "120".to_owned())];
    let fault = Fault::Answer(429, headers, b"{}".to_vec());
    bench.partners.fault(Partner::Runway, Step::Poll, fault);
    let collected = bench
        .provider(POLL)
        .collect(&handle, &router_core::Contact::default())
        .await
        .unwrap();
    let Collected::Pending { poll_after } = collected else {
        panic!("{collected:?}");
    };
    assert_eq!(poll_after, Duration::from_secs(120));
}

#[tokio::test]
async fn a_handle_is_good_after_a_restart() {
    let bench = Bench::start().await;
    bench.partners.plan(Partner::Bfl, Plan::held());
    let handle = bench
        .accepted("bfl/flux-pro-1.1", r#"{"prompt":"a cat"}"#)
        .await;
    // Nothing but the bytes of the handle is left of the process that submitted.
    let again = load(
        &Source::with_builtin(None),
        &settings(&bench.partners, &bench.clock),
        &environment,
    );
    let bench = Bench {
        loaded: again.unwrap(),
        ..bench
    };
    bench.partners.end(Partner::Bfl, "task-1", Outcome::Succeed);
    let done = bench.collected("bfl/flux-pro-1.1", &handle).await.unwrap();
    assert_eq!(done.task_id.as_deref(), Some("task-1"));
    assert_eq!(
        bench.partners.requests_of(Partner::Bfl, Step::Submit).len(),
        1
    );
}

#[tokio::test]
async fn collecting_twice_gives_the_same_result() {
    let bench = Bench::start().await;
    let handle = bench.accepted("minimax/hailuo-02", "{}").await;
    let first = bench.collected("minimax/hailuo-02", &handle).await;
    let second = bench.collected("minimax/hailuo-02", &handle).await;
    assert!(first.is_ok());
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_cancel_asks_the_partner_to_stop() {
    for (model, partner) in [
        ("fal/flux-dev", Partner::FalQueue),
        ("replicate/flux-schnell", Partner::Replicate),
        ("runway/gen4_turbo", Partner::Runway),
        ("luma/ray-2", Partner::Luma),
        ("byteplus/seedance-1-0-pro", Partner::Byteplus),
    ] {
        let bench = Bench::start().await;
        bench.partners.plan(partner, Plan::held());
        let handle = bench.accepted(model, "{}").await;
        bench.provider(model).cancel(&handle).await;
        assert_eq!(bench.partners.requests_of(partner, Step::Cancel).len(), 1);
        // Whatever a partner calls it, a cancelled task has no result.
        if partner != Partner::FalQueue {
            let failure = bench.collected(model, &handle).await;
            assert!(failure.is_err(), "{model}: {failure:?}");
        }
    }
    // A partner that cannot stop is not asked to.
    let bench = Bench::start().await;
    let handle = bench.accepted("tripo/text-to-model", "{}").await;
    bench.provider("tripo/text-to-model").cancel(&handle).await;
    assert_eq!(bench.partners.requests().len(), 1);
}

#[tokio::test]
async fn a_broken_result_step_is_taken_again() {
    let bench = Bench::start().await;
    let handle = bench.accepted("minimax/hailuo-02", "{}").await;
    for fault in [Fault::Status(502), Fault::CutMidAnswer, Fault::Status(404)] {
        bench.partners.fault(Partner::Minimax, Step::Result, fault);
    }
    assert!(bench.collected("minimax/hailuo-02", &handle).await.is_ok());
    assert_eq!(
        bench
            .partners
            .requests_of(Partner::Minimax, Step::Submit)
            .len(),
        1
    );
    assert_eq!(
        bench
            .partners
            .requests_of(Partner::Minimax, Step::Result)
            .len(),
        4
    );
}

#[tokio::test]
async fn a_foreign_handle_is_a_failure_and_asks_nothing() {
    let bench = Bench::start().await;
    let foreign = router_core::Handle(b"not of ours".to_vec().into());
    assert!(
        bench
            .provider(POLL)
            .collect(&foreign, &router_core::Contact::default())
            .await
            .is_err()
    );
    bench.provider(POLL).cancel(&foreign).await;
    assert!(bench.partners.requests().is_empty());
    assert!(matches!(
        bench.submit(POLL, "{}").await,
        Ok(Submitted::Accepted { .. })
    ));
}

/// JSON by its grammar that `serde_json` does not hold as a value.
fn odd_values() -> [String; 3] {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    [r#""\ud83d""#.to_owned(), "1e400".to_owned(), deep]
}

#[tokio::test]
async fn an_answer_that_no_value_can_hold_is_read_all_the_same() {
    for odd in odd_values() {
        let bench = Bench::start().await;
        let answer = |status: u16, body: &str| {
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            Fault::Answer(status, headers, body.as_bytes().to_vec())
        };
        let body = format!(r#"{{"odd":{odd},"id":"task-7"}}"#);
        let submit = answer(200, &body);
        bench.partners.fault(Partner::Runway, Step::Submit, submit);
        let submitted = bench.submit(POLL, "{}").await;
        let Ok(Submitted::Accepted {
            handle, task_id, ..
        }) = submitted
        else {
            panic!("{odd:.10}: {submitted:?}");
        };
        assert_eq!(task_id.as_deref(), Some("task-7"));

        let body = format!(r#"{{"status":"SUCCEEDED","odd":{odd}}}"#);
        let poll = answer(200, &body);
        bench.partners.fault(Partner::Runway, Step::Poll, poll);
        let collected = bench
            .provider(POLL)
            .collect(&handle, &router_core::Contact::default())
            .await;
        let Ok(Collected::Done(done)) = collected else {
            panic!("{odd:.10}: {collected:?}");
        };
        assert_eq!(done.answer.body, body, "byte for byte");

        let body = format!(r#"{{"detail":[{{"msg":"no","ctx":{odd}}}]}}"#);
        let refused = answer(422, &body);
        bench
            .partners
            .fault(Partner::FalSync, Step::Submit, refused);
        let failure = bench.submit(SYNC, "{}").await.unwrap_err();
        let Failure::Refused { refusal, .. } = failure else {
            panic!("{odd:.10}: {failure:?}");
        };
        let Refusal::Detail(detail) = refusal else {
            panic!("{odd:.10}: {refusal:?}");
        };
        assert_eq!(detail.body, body, "byte for byte");

        let body = format!(r#"{{"data":[{{"is_image_safe":true,"url":"a","odd":{odd}}}]}}"#);
        let safe = answer(200, &body);
        bench.partners.fault(Partner::Ideogram, Step::Submit, safe);
        let made = bench.submit("ideogram/ideogram-v3", "{}").await;
        assert!(
            matches!(made, Ok(Submitted::Done(_))),
            "{odd:.10}: {made:?}"
        );
        let body = format!(r#"{{"data":[{{"is_image_safe":false,"odd":{odd}}}]}}"#);
        let guarded = answer(200, &body);
        bench
            .partners
            .fault(Partner::Ideogram, Step::Submit, guarded);
        let failure = bench.submit("ideogram/ideogram-v3", "{}").await;
        assert!(
            matches!(failure, Err(Failure::Policy { .. })),
            "{odd:.10}: {failure:?}"
        );
    }
}

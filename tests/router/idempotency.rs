//! One key, one generation: replays, conflicts, pick-ups.

use it::Request;
use it::partners::{Fault, Outcome, Partner, Plan, Step};

use super::*;

fn replayed(answer: &Answer) -> Option<&str> {
    answer.header("idempotent-replayed")
}

/// Status, type and body: what a replay repeats.
fn repeated(answer: &Answer) -> (u16, Option<&str>, &[u8], Option<&str>) {
    (
        answer.status,
        answer.header("content-type"),
        &answer.body,
        answer.header("x-service-error-type"),
    )
}

#[tokio::test]
async fn a_replay_repeats_the_result_under_an_id_of_its_own_and_reaches_no_partner() {
    let mut rig = Rig::start().await;
    let first = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!((first.status, replayed(&first)), (200, None));
    let second = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!(replayed(&second), Some("true"));
    assert_eq!(repeated(&second), repeated(&first));
    let id = "x-service-request-id";
    assert_ne!(first.header(id), second.header(id));
    // Under the alias it is the same request, and after a restart too.
    rig.end().await;
    rig.begin().await;
    let alias = Request::post_json(&format!("/v2/models/{AT_ONCE}"), &prompt("a"));
    let third = rig
        .send(of("acme", alias).header("Idempotency-Key", "k"))
        .await;
    assert_eq!(replayed(&third), Some("true"));
    assert_eq!(repeated(&third), repeated(&first));
    assert_eq!(rig.submits(Partner::FalSync), 1);
    let record = rig.record().await;
    let charged: u64 = record
        .iter()
        .filter(|row| row.call.generation.map(|id| id.0) == Some(row.call.request.0))
        .filter_map(|row| row.generation.as_ref()?.charge_cents)
        .sum();
    assert_eq!((record.len(), charged), (3, 1));
}

#[tokio::test]
async fn a_providers_refusal_is_recorded_and_replayed() {
    let rig = Rig::start().await;
    rig.partners
        .plan(Partner::FalSync, Plan::of(Outcome::RefuseInput));
    let first = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!(first.status, 422);
    let second = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!(replayed(&second), Some("true"));
    assert_eq!(repeated(&second), repeated(&first));
    assert_eq!(rig.submits(Partner::FalSync), 1);
}

#[tokio::test]
async fn another_request_under_the_key_is_a_conflict_that_says_nothing_of_the_first() {
    let rig = Rig::start().await;
    assert_eq!(rig.keyed("k", AT_ONCE, &prompt("a")).await.status, 200);
    let detail = "this Idempotency-Key was used for another request; use a new key";
    // A changed space is another request, so are another model and another query.
    let spaced = Request::new("POST", &path_of(AT_ONCE))
        .header("Content-Type", "application/json")
        .body(r#"{"prompt": "a"}"#);
    let asked = Request::post_json(&format!("{}?x=1", path_of(AT_ONCE)), &prompt("a"));
    let other = Request::post_json(&path_of(POLLED), &prompt("a"));
    for request in [spaced, asked, other] {
        let answer = rig
            .send(of("acme", request).header("Idempotency-Key", "k"))
            .await;
        assert_error(&answer, 409, "invalid_input", detail, &[]);
    }
    assert_eq!(rig.submits(Partner::FalSync), 1);
}

#[tokio::test]
async fn a_key_belongs_to_its_workspace() {
    let rig = Rig::with(&[], &[("other", Vec::new())]).await;
    assert_eq!(rig.keyed("k", AT_ONCE, &prompt("a")).await.status, 200);
    let request = call_of("other", AT_ONCE, &prompt("b")).header("Idempotency-Key", "k");
    let answer = rig.send(request).await;
    assert_eq!((answer.status, replayed(&answer)), (200, None));
}

#[tokio::test]
async fn a_retry_picks_up_a_polled_generation_and_a_further_one_is_told_to_wait() {
    let rig = Rig::with(&["--deadline", "1s"], &[]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let late = rig.keyed("k", POLLED, &prompt("a")).await;
    let detail = late.json()["detail"].as_str().unwrap().to_owned();
    assert_error(
        &late,
        504,
        "deadline_exceeded",
        &detail,
        &["retry-after: 1"],
    );
    let seen = rig.partners.requests_of(Partner::Bfl, Step::Poll).len();
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    let body = prompt("a");
    let waiting = rig.keyed("k", POLLED, &body);
    let further = async {
        // Polls go on, and meanwhile the retry has taken the only seat.
        rig.partners.seen(Partner::Bfl, Step::Poll, seen + 4).await;
        let further = rig.keyed("k", POLLED, &prompt("a")).await;
        let detail =
            "a call with this Idempotency-Key is in flight; try again when it has finished";
        let retry = format!(
            "retry-after: {}",
            further.header("retry-after").unwrap_or("-")
        );
        assert_error(
            &further,
            409,
            "concurrency_limit_exceeded",
            detail,
            &[&retry],
        );
        rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    };
    let (answer, ()) = tokio::join!(waiting, further);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

#[tokio::test]
async fn a_retry_picks_up_a_synchronous_generation() {
    let rig = Rig::with(&["--deadline", "1s"], &[]).await;
    rig.partners
        .fault(Partner::FalSync, Step::Submit, Fault::Stall);
    let late = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    let detail = late.json()["detail"].as_str().unwrap().to_owned();
    assert_error(
        &late,
        504,
        "deadline_exceeded",
        &detail,
        &["retry-after: 5"],
    );
    rig.partners.release();
    let answer = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::FalSync), 1);
}

#[tokio::test]
async fn a_task_without_a_name_is_no_pick_up_yet_and_its_retry_waits_for_it() {
    let rig = Rig::with(&["--deadline", "1s"], &[]).await;
    rig.partners.fault(Partner::Bfl, Step::Submit, Fault::Stall);
    let late = rig.keyed("k", POLLED, &prompt("a")).await;
    let detail = late.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&late, 504, "deadline_exceeded", &detail, &[]);
    rig.partners.release();
    let answer = rig.keyed("k", POLLED, &prompt("a")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

#[tokio::test]
async fn a_key_belongs_to_a_model_however_its_path_is_written() {
    let rig = Rig::start().await;
    let first = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!((first.status, replayed(&first)), (200, None));
    let spelled = AT_ONCE.replacen('-', "%2D", 1);
    assert_ne!(spelled, AT_ONCE);
    let again = rig.keyed("k", &spelled, &prompt("a")).await;
    assert_eq!((again.status, replayed(&again)), (200, Some("true")));
    assert_eq!(rig.submits(Partner::FalSync), 1);
}

#[tokio::test]
async fn a_failure_after_dispatch_consumes_the_key() {
    let rig = Rig::start().await;
    rig.partners.plan(Partner::Bfl, Plan::of(Outcome::Fail));
    let first = rig.keyed("k", POLLED, &prompt("a")).await;
    assert_eq!(first.status, 502);
    let second = rig.keyed("k", POLLED, &prompt("a")).await;
    assert_eq!(replayed(&second), Some("true"));
    assert_eq!(repeated(&second), repeated(&first));
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

#[tokio::test]
async fn a_refusal_before_dispatch_releases_the_key() {
    let rig = Rig::start().await;
    let refused = rig.keyed("k", AT_ONCE, &serde_json::json!({})).await;
    assert_eq!(refused.status, 422);
    let fresh = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!((fresh.status, replayed(&fresh)), (200, None));
}

#[tokio::test]
async fn a_result_over_the_cap_is_not_replayable() {
    let rig = Rig::start().await;
    let large = vec![b'x'; (8 << 20) + 1];
    rig.partners
        .answer_with(Partner::FalSync, "application/octet-stream", large.clone());
    let first = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_eq!((first.status, first.body.len()), (200, large.len()));
    let second = rig.keyed("k", AT_ONCE, &prompt("a")).await;
    assert_error(
        &second,
        409,
        "invalid_input",
        "the result of this Idempotency-Key was too large to be kept; use a new key to run again",
        &[],
    );
}

#[tokio::test]
async fn a_key_has_1_to_255_printable_characters_and_comes_once() {
    let rig = Rig::start().await;
    let long = "x".repeat(256);
    for key in ["", &long, "a\u{7f}"] {
        let answer = rig.keyed(key, AT_ONCE, &prompt("a")).await;
        assert_eq!(answer.status, 400, "{key:?}");
    }
    let twice = call_of("acme", AT_ONCE, &prompt("a"))
        .header("Idempotency-Key", "a")
        .header("Idempotency-Key", "a");
    assert_eq!(rig.send(twice).await.status, 400);
    assert_eq!(rig.submits(Partner::FalSync), 0);
    let longest = rig.keyed(&"x".repeat(255), AT_ONCE, &prompt("a")).await;
    assert_eq!(longest.status, 200);
}

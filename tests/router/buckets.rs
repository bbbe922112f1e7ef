//! Every bucket that a request can meet, with status, headers and body whole.
//!
//! `internal_error` is a defect or a store that fails for good, which nothing a client does brings about; it is shown where
//! a provider can be made to panic: `bins/router-server/tests/broken.rs`.

use accounts::AccountChange;
use it::Request;
use it::partners::{Fault, Outcome, Partner, Plan, Step};
use serde_json::json;

use super::*;

#[tokio::test]
async fn invalid_input() {
    let rig = Rig::start().await;
    let malformed = Request::new("POST", &path_of(POLLED))
        .header("Content-Type", "application/json")
        .body("{");
    let answer = rig.send(of("acme", malformed)).await;
    assert_eq!(answer.status, 400);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("the body is not valid JSON: "),
        "{detail}"
    );
    assert_error(&answer, 400, "invalid_input", &detail, &[]);

    let broken = rig.call(POLLED, &json!({"width": 1, "seed": "x"})).await;
    assert_eq!(broken.status, 422);
    let text = whole(&broken);
    let head = "422 cache-control: no-store; content-type: application/json; x-service-error-type: invalid_input\n";
    let body = text.strip_prefix(head).unwrap_or_else(|| panic!("{text}"));
    assert!(body.starts_with(r#"{"detail":[{"loc":["body""#), "{body}");
    assert_eq!(broken.json()["detail"].as_array().unwrap().len(), 3);
    assert_eq!(rig.submits(Partner::Bfl), 0);
}

#[tokio::test]
async fn content_policy_violation() {
    let rig = Rig::start().await;
    rig.partners.plan(Partner::Bfl, Plan::of(Outcome::Moderate));
    let answer = rig.call(POLLED, &prompt("a")).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&answer, 400, "content_policy_violation", &detail, &[]);

    // A provider that says so in a `detail` array is not rewritten.
    rig.partners
        .plan(Partner::FalSync, Plan::of(Outcome::RefusePolicy));
    let answer = rig.call(AT_ONCE, &prompt("a")).await;
    assert_eq!(
        whole(&answer),
        "422 cache-control: no-store; content-type: application/json; x-service-error-type: content_policy_violation\n\
         {\"detail\": [{\"loc\":[\"body\",\"prompt\"], \"msg\":\"flagged\", \"type\":\"content_policy_violation\", \
         \"odd\" : 1.0,  \"odd\":123456789012345678901234567890 , \"text\":\"\\u00e9\\/\"}]}"
    );
}

#[tokio::test]
async fn provider_error() {
    let rig = Rig::start().await;
    rig.partners.plan(Partner::Bfl, Plan::of(Outcome::Fail));
    let answer = rig.call(POLLED, &prompt("a")).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&answer, 502, "provider_error", &detail, &[]);
}

#[tokio::test]
async fn provider_timeout_never_says_when_to_retry() {
    let rig = Rig::start().await;
    rig.partners
        .fault(Partner::FalSync, Step::Submit, Fault::Stall);
    let answer = rig.keyed("k", IMPATIENT, &prompt("a")).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&answer, 504, "provider_timeout", &detail, &[]);
}

#[tokio::test]
async fn insufficient_credits_come_before_the_body_is_judged() {
    let poor = ("poor", vec![AccountChange::Billed(true)]);
    let rig = Rig::with(&[], &[poor]).await;
    let answer = rig
        .send(call_of("poor", POLLED, &json!({"width": "wrong"})))
        .await;
    assert_error(
        &answer,
        402,
        "insufficient_credits",
        "the workspace does not have enough credits for this call; add credits and try again",
        &[],
    );
}

#[tokio::test]
async fn model_not_found_suggests_models_that_the_caller_may_view() {
    let only = "fal-sync/*".parse().unwrap();
    let narrow = ("narrow", vec![AccountChange::Entitlements(Some(only))]);
    let rig = Rig::with(&[], &[narrow]).await;
    let answer = rig.call("bfl/flux-2-pr0", &prompt("a")).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("did you mean bfl/flux-2-pro"), "{detail}");
    assert!(detail.matches('/').count() <= 3, "{detail}");
    assert_error(&answer, 404, "model_not_found", &detail, &[]);
    let answer = rig
        .send(call_of("narrow", "bfl/flux-2-pr0", &prompt("a")))
        .await;
    assert!(!answer.text().contains("bfl/"), "{}", answer.text());
}

#[tokio::test]
async fn unauthorized() {
    let rig = Rig::start().await;
    let detail =
        "the credentials are missing or invalid; send `Authorization: Bearer <token or key>`";
    let key = key_named("acme");
    let good = format!("Bearer {}", key.text.expose_secret());
    let requests = [
        Request::get("/v1/models"),
        Request::get("/v1/models").header("Authorization", "Bearer easel_no_such_key"),
        Request::get("/v1/models").header("Authorization", "Basic eDp5"),
        Request::get("/v1/models")
            .header("Authorization", &good)
            .header("Authorization", &good),
        Request::get("/v1/models")
            .header("Authorization", &good)
            .header("X-API-Key", "easel_wrong"),
    ];
    for request in requests {
        let answer = rig.send(request).await;
        let headers = ["www-authenticate: Bearer"];
        assert_error(&answer, 401, "unauthorized", detail, &headers);
    }
    // The other way round it wins as well.
    let wins = Request::get("/v1/models")
        .header("Authorization", "bearer easel_wrong")
        .header("X-API-Key", key.text.expose_secret());
    assert_eq!(rig.send(wins).await.status, 200);
}

#[tokio::test]
async fn forbidden() {
    let only = "fal-sync/*".parse().unwrap();
    let narrow = ("narrow", vec![AccountChange::Entitlements(Some(only))]);
    let lapsed = ("lapsed", vec![AccountChange::Subscribed(false)]);
    let rig = Rig::with(&[], &[narrow, lapsed]).await;
    for (account, detail) in [
        ("reader", "this credential does not allow router:run"),
        ("narrow", "this workspace is not entitled to this model"),
        ("lapsed", "the subscription of this workspace is not active"),
    ] {
        let answer = rig.send(call_of(account, POLLED, &prompt("a"))).await;
        assert_error(&answer, 403, "forbidden", detail, &[]);
    }
    assert_eq!(rig.submits(Partner::Bfl), 0);
}

#[tokio::test]
async fn concurrency_limit_exceeded_by_count() {
    let narrow = ("narrow", vec![AccountChange::ConcurrentCalls(Some(1))]);
    let rig = Rig::with(&[], &[narrow]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let first = rig.send(call_of("narrow", POLLED, &prompt("a")));
    let second = async {
        rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
        let answer = rig.send(call_of("narrow", AT_ONCE, &prompt("b"))).await;
        assert_error(
            &answer,
            429,
            "concurrency_limit_exceeded",
            "the workspace already runs its 1 concurrent calls; try again when one of them has finished",
            &["retry-after: 1"],
        );
        let task = rig.partners.tasks(Partner::Bfl).remove(0);
        rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(first.status, 200);
    let again = rig.send(call_of("narrow", AT_ONCE, &prompt("b"))).await;
    assert_eq!(again.status, 200);
}

#[tokio::test]
async fn concurrency_limit_exceeded_by_spend_refuses_what_is_dearer_than_the_cap_when_idle() {
    let thrifty = ("thrifty", vec![AccountChange::CommittedSpendCents(Some(2))]);
    let rig = Rig::with(&[], &[thrifty]).await;
    let answer = rig.send(call_of("thrifty", POLLED, &prompt("a"))).await;
    assert_error(
        &answer,
        429,
        "concurrency_limit_exceeded",
        "the call may cost 3 US cents, and calls in flight may commit 2 at most; ask for less, or have the cap raised",
        &[
            "retry-after: 1",
            "x-committed-spend-current: 0",
            "x-committed-spend-limit: 2",
            "x-committed-spend-remaining: 2",
        ],
    );
}

#[tokio::test]
async fn a_budget_refuses_what_it_has_not_left_before_anything_is_sent() {
    let with = |budgets: &str| vec![AccountChange::Budgets(Some(budgets.parse().unwrap()))];
    let accounts = [
        ("hourly", with("2/hour")),
        ("daily", with("9/day,100/month")),
        ("monthly", with("9/hour,2/month")),
    ];
    let rig = Rig::with(&[], &accounts).await;
    for (account, status, bucket, left) in [
        (
            "hourly",
            429,
            "rate_limited",
            "the budget of 2 cents for this hour has 2 cents left",
        ),
        (
            "monthly",
            402,
            "insufficient_credits",
            "the budget of 2 cents for this month has 2 cents left",
        ),
    ] {
        let answer = rig.send(call_of(account, POLLED, &prompt("a"))).await;
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(
            detail.starts_with("the call may cost 3 US cents, and "),
            "{detail}"
        );
        assert!(detail.contains(left), "{detail}");
        let after = answer.header("retry-after").map(str::to_owned);
        assert_eq!(after.is_some(), status == 429);
        let headers: Vec<String> = after
            .iter()
            .map(|after| format!("retry-after: {after}"))
            .collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        assert_error(&answer, status, bucket, &detail, &headers);
        let path = format!("{}/requests", path_of(POLLED));
        let queued = rig
            .send(of(account, Request::post_json(&path, &prompt("a"))))
            .await;
        assert_eq!(queued.status, status, "{}", queued.text());
    }
    assert_eq!(rig.submits(Partner::Bfl), 0);

    let mut answered = 0;
    let refused = loop {
        let answer = rig.send(call_of("daily", POLLED, &prompt("a"))).await;
        if answer.status != 200 {
            break answer;
        }
        answered += 1;
        assert!(answered <= 2, "three calls of 4 cents in a budget of 9");
    };
    assert_eq!((refused.status, answered), (429, 2), "{}", refused.text());
    assert!(
        refused
            .text()
            .contains("cents for this day has 1 cents left"),
        "{}",
        refused.text()
    );
    assert_eq!(rig.submits(Partner::Bfl), 2);
    let shown = super::limits::operate(&rig, &["account", "show", "daily"]).await;
    assert!(
        shown.contains("budget of day    $0.01 of $0.09 is left until "),
        "{shown}"
    );
    assert!(
        shown.contains("budget of month  $0.92 of $1.00 is left until "),
        "{shown}"
    );
}

#[tokio::test]
async fn deadline_exceeded_says_when_to_retry_only_with_a_key() {
    let rig = Rig::with(&["--deadline", "1s"], &[]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let answer = rig.call(POLLED, &prompt("a")).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&answer, 504, "deadline_exceeded", &detail, &[]);
}

#[tokio::test]
async fn not_enabled() {
    let rig = Rig::with(&[], &[("off", vec![AccountChange::Router(false)])]).await;
    let answer = rig.send(of("off", Request::get("/v1/models"))).await;
    let detail = "the model router is not enabled for this workspace";
    assert_error(&answer, 403, "not_enabled", detail, &[]);
}

#[tokio::test]
async fn service_unavailable_is_our_own_trouble_at_the_partner() {
    let rig = Rig::start().await;
    rig.partners
        .plan(Partner::Bfl, Plan::of(Outcome::RefuseFunds));
    let answer = rig.call(POLLED, &prompt("a")).await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&answer, 503, "service_unavailable", &detail, &[]);
}

#[tokio::test]
async fn rate_limited_names_the_window_and_counts_reads() {
    let windows = accounts::RateWindow::read_list("2/366d").unwrap();
    let slow = ("slow", vec![AccountChange::RateWindows(Some(windows))]);
    let rig = Rig::with(&[], &[slow]).await;
    for _ in 0..2 {
        let answer = rig.send(of("slow", Request::get("/v1/models"))).await;
        assert_eq!(answer.status, 200);
    }
    let answer = rig.send(call_of("slow", POLLED, &prompt("a"))).await;
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=366 * 86_400).contains(&after), "{after}");
    let retry = format!("retry-after: {after}");
    let detail = "the quota of 2 requests per 366d is used up; wait for the window to end";
    assert_error(&answer, 429, "rate_limited", detail, &[&retry]);
}

#[tokio::test]
async fn client_disconnected_stands_in_log_and_record_and_what_completed_is_billed() {
    let mut rig = Rig::start().await;
    let mut log = it::Log::of(&rig.folder.path().join("log"));
    rig.partners.plan(Partner::Bfl, Plan::held());
    let call = call_of("acme", POLLED, &prompt("a")).header("Idempotency-Key", "k");
    let mut connection = it::Connection::open(rig.server().address).await.unwrap();
    let bytes = call.bytes(rig.server().address);
    connection.write(&bytes).await.unwrap();
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    drop(connection);
    let line = log.next("request answered").await;
    assert_eq!(line["status"], 499, "{line}");
    assert_eq!(line["bucket"], "client_disconnected", "{line}");
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    // The same key gets what completed meanwhile.
    let answer = rig.send(call).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);

    let record = rig.record().await;
    let [gone, got] = record.as_slice() else {
        panic!("{record:?}")
    };
    assert_eq!(
        gone.call.bucket.map(|bucket| bucket.name()),
        Some("client_disconnected")
    );
    assert!(!gone.call.delivered && got.call.delivered);
    assert_eq!(got.call.bucket, None);
    assert_eq!(gone.call.generation, got.call.generation);
    let generation = gone.generation.as_ref().unwrap();
    assert_eq!(generation.bucket, None);
    assert_eq!(generation.charge_cents, Some(4));
    assert_eq!(generation.task_id.as_deref(), Some("task-1"));
}

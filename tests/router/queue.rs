//! The queued form: submitted, looked at, collected, cancelled, and never lost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use accounts::AccountChange;
use it::partners::{Fault, Outcome, Partner, Plan, Step};
use it::skipped;
use tokio::process::Command;

use super::*;

mod money;

/// A model whose partner can be asked to cancel.
const CANCELLABLE: &str = "fal/flux-dev";

fn requests_of(dialect: &str, model: &str) -> String {
    format!("/{dialect}/models/{model}/requests")
}

/// A submitted request: what its submission said.
struct Submitted(Value);

impl Submitted {
    #[track_caller]
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 201, "{}", answer.text());
        Self(answer.json())
    }

    fn id(&self) -> &str {
        self.0["request_id"].as_str().unwrap()
    }

    /// The path of one of its addresses.
    fn path(&self, name: &str) -> String {
        let url = self.0[name].as_str().unwrap();
        let (_, rest) = url.split_once("://").unwrap();
        rest[rest.find('/').unwrap()..].to_owned()
    }
}

impl Rig {
    async fn submit_as(&self, account: &str, dialect: &str, model: &str, body: &Value) -> Answer {
        let request = Request::post_json(&requests_of(dialect, model), body);
        self.send(of(account, request)).await
    }

    async fn submit(&self, model: &str, body: &Value) -> Submitted {
        Submitted::of(&self.submit_as("acme", "v2", model, body).await)
    }

    async fn status(&self, submitted: &Submitted) -> Value {
        let answer = self.get(&submitted.path("status_url")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Its result, once it is over.
    async fn collect(&self, submitted: &Submitted) -> Answer {
        let started = Instant::now();
        loop {
            let answer = self.get(&submitted.path("response_url")).await;
            if answer.status != 202 {
                return answer;
            }
            assert!(answer.header("retry-after").is_some());
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "{}",
                answer.text()
            );
        }
    }

    async fn cancel(&self, submitted: &Submitted) -> Answer {
        let request = Request::new("PUT", &submitted.path("cancel_url"));
        self.send(of("acme", request)).await
    }
}

/// A rig whose account `acme` runs one call at a time, and `other` too.
async fn one_at_a_time(flags: &[&str]) -> Rig {
    let rig = Rig::with(
        flags,
        &[("other", vec![AccountChange::ConcurrentCalls(Some(1))])],
    )
    .await;
    super::limits::operate(&rig, &["account", "tier", "acme", "--calls", "1"]).await;
    rig
}

#[tokio::test]
async fn a_queued_result_is_byte_for_byte_that_of_the_waiting_call() {
    let rig = Rig::start().await;
    for (dialect, model) in [("v2", POLLED), ("v2", AT_ONCE), ("v1", POLLED)] {
        let path = format!("/{dialect}/models/{model}");
        let at_once = of("acme", Request::post_json(&path, &prompt("a")));
        let at_once = rig.send(at_once).await;
        assert_eq!(at_once.status, 200);
        let answer = rig.submit_as("acme", dialect, model, &prompt("a")).await;
        let submitted = Submitted::of(&answer);
        assert_eq!(answer.header("x-service-request-id"), Some(submitted.id()));
        assert!(["IN_QUEUE", "IN_PROGRESS"].contains(&submitted.0["status"].as_str().unwrap()));
        let queued = rig.collect(&submitted).await;
        assert_eq!(queued.status, 200, "{}", queued.text());
        let names = |answer: &Answer| {
            let mut names: Vec<String> =
                answer.headers.iter().map(|one| one.0.to_owned()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&queued), names(&at_once));
        for name in ["x-service-credits-used", "x-committed-spend-current"] {
            assert_eq!(queued.header(name), at_once.header(name), "{name}");
            assert_eq!(queued.header(name).is_some(), dialect == "v2");
        }
        // But for the name that the partner gave each of them.
        assert_eq!(queued.body.len(), at_once.body.len());
        assert_eq!(
            queued.header("content-type"),
            at_once.header("content-type")
        );
        let status = rig.status(&submitted).await;
        assert_eq!(
            (&status["status"], status.get("error_type")),
            (&json!("COMPLETED"), None)
        );
        // As often as anybody asks.
        assert_eq!(rig.collect(&submitted).await.body, queued.body);
    }
}

#[tokio::test]
async fn a_body_is_judged_when_it_is_submitted_and_a_key_is_one_request() {
    let rig = Rig::start().await;
    let wrong = rig
        .submit_as("acme", "v2", AT_ONCE, &json!({"image_size": 7}))
        .await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    let keyed = |body: Value| {
        let request = Request::post_json(&requests_of("v2", AT_ONCE), &body);
        rig.send(of("acme", request).header("Idempotency-Key", "k"))
    };
    let first = Submitted::of(&keyed(prompt("a")).await);
    let result = rig.collect(&first).await;
    let again = Submitted::of(&keyed(prompt("a")).await);
    assert_eq!(
        (first.id(), &again.0["status"]),
        (again.id(), &json!("COMPLETED"))
    );
    assert_eq!(rig.collect(&again).await.body, result.body);
    let other = keyed(prompt("b")).await;
    assert_eq!(
        (other.status, other.header("x-comfy-error-type")),
        (409, Some("invalid_input"))
    );
    // Nor does the key of a request run a call.
    assert_eq!(rig.keyed("k", AT_ONCE, &prompt("a")).await.status, 409);
    assert_eq!(rig.submits(Partner::FalSync), 1);
}

#[tokio::test]
async fn what_waits_has_its_exact_position_and_is_withdrawn_without_a_bill() {
    let mut rig = one_at_a_time(&[]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let runs = rig.submit(POLLED, &prompt("a")).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    let mut waiting = Vec::new();
    for position in 0..3 {
        let submitted = rig.submit(POLLED, &prompt("b")).await;
        assert_eq!(submitted.0["status"], "IN_QUEUE");
        assert_eq!(submitted.0["queue_position"], position);
        waiting.push(submitted);
    }
    let status = rig.status(&runs).await;
    assert_eq!(
        (&status["status"], status.get("queue_position")),
        (&json!("IN_PROGRESS"), None)
    );
    let cancelled = rig.cancel(&waiting[0]).await;
    assert_eq!(
        (cancelled.status, cancelled.json()),
        (202, json!({"status": "CANCELLATION_REQUESTED"}))
    );
    let status = rig.status(&waiting[0]).await;
    assert_eq!(
        (&status["status"], &status["error_type"]),
        (&json!("COMPLETED"), &json!("cancelled"))
    );
    let none = rig.get(&waiting[0].path("response_url")).await;
    assert_eq!(
        (none.status, none.header("x-comfy-error-type")),
        (409, Some("cancelled"))
    );
    let in_v1 = waiting[0].path("response_url").replacen("/v2/", "/v1/", 1);
    let none = rig.get(&in_v1).await;
    assert_eq!(
        (none.status, none.header("x-comfy-error-type")),
        (409, Some("invalid_input"))
    );
    let late = rig.cancel(&waiting[0]).await;
    assert_eq!(
        (late.status, late.json()),
        (409, json!({"status": "ALREADY_COMPLETED"}))
    );
    assert_eq!(late.header("x-service-error-type"), None);
    let record = format!("/v1/generations/{}", waiting[0].id());
    let record = rig.get(&record).await.json();
    assert_eq!(
        (&record["status"], &record["generation"]),
        (&json!("ok"), &Value::Null)
    );
    assert_eq!(record["queued"]["status"], "COMPLETED", "{record}");
    assert_eq!(record["queued"]["error_type"], "cancelled", "{record}");
    assert_eq!(rig.status(&waiting[2]).await["queue_position"], 1);

    let listed = rig
        .get(&format!("{}?limit=3", requests_of("v2", POLLED)))
        .await
        .json();
    let ids: Vec<&str> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["request_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [waiting[2].id(), waiting[1].id(), waiting[0].id()]);
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest = rig
        .get(&format!("{}?cursor={cursor}", requests_of("v2", POLLED)))
        .await
        .json();
    assert_eq!(
        (&rest["has_more"], &rest["data"][0]["request_id"]),
        (&json!(false), &json!(runs.id()))
    );

    // A cursor of another list, or of nobody, is never the end of this one.
    for model in [POLLED, AT_ONCE] {
        let foreign = match model {
            AT_ONCE => runs.id().to_owned(),
            _ => Uuid::max().to_string(),
        };
        let path = format!("{}?cursor={foreign}", requests_of("v2", model));
        let refused = rig.get(&path).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
    }

    // The others go as soon as there is room, one after the other.
    rig.partners.plan(Partner::Bfl, Plan::of(Outcome::Succeed));
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    for submitted in [&runs, &waiting[1], &waiting[2]] {
        assert_eq!(rig.collect(submitted).await.status, 200);
    }
    assert_eq!(rig.submits(Partner::Bfl), 3);
    let record = rig.record().await;
    let bills: Vec<_> = record
        .iter()
        .filter_map(|row| row.generation.as_ref()?.charge_cents)
        .collect();
    assert_eq!(bills, [4, 4, 4]);
}

#[tokio::test]
async fn of_what_runs_the_partner_is_asked_to_stop() {
    let rig = Rig::start().await;
    rig.partners.plan(Partner::FalQueue, Plan::held());
    let submitted = rig.submit(CANCELLABLE, &prompt("a")).await;
    rig.partners.seen(Partner::FalQueue, Step::Poll, 1).await;
    assert_eq!(rig.cancel(&submitted).await.status, 202);
    rig.partners.seen(Partner::FalQueue, Step::Cancel, 1).await;
    let answer = rig.collect(&submitted).await;
    assert_eq!(
        (answer.status, answer.header("x-comfy-error-type")),
        (409, Some("cancelled")),
        "{}",
        answer.text()
    );
    assert_eq!(
        rig.partners
            .requests_of(Partner::FalQueue, Step::Cancel)
            .len(),
        1
    );
}

#[tokio::test]
async fn killed_at_any_moment_nothing_is_lost_and_nothing_runs_twice() {
    let mut rig = one_at_a_time(&[]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let runs = rig.submit(POLLED, &prompt("a")).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    let large = prompt(&"b".repeat(300_000));
    let waits = rig.submit(AT_ONCE, &prompt("b")).await;
    let withdrawn = rig.submit(AT_ONCE, &prompt("c")).await;
    let with_file = rig.submit(AT_ONCE, &large).await;
    rig.cancel(&withdrawn).await;
    rig.kill().await;
    rig.begin().await;
    assert_eq!(rig.status(&runs).await["status"], "IN_PROGRESS");
    assert_eq!(rig.status(&waits).await["queue_position"], 0);
    assert_eq!(rig.status(&with_file).await["queue_position"], 1);
    assert_eq!(rig.status(&withdrawn).await["error_type"], "cancelled");
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    for submitted in [&runs, &waits, &with_file] {
        let answer = rig.collect(submitted).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let sent = rig.partners.requests_of(Partner::FalSync, Step::Submit);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].body, serde_json::to_vec(&large).unwrap());
    // One that was sent and never answered is over, and is not sent again.
    rig.partners
        .fault(Partner::FalSync, Step::Submit, Fault::Stall);
    let sent = rig.submit(AT_ONCE, &prompt("d")).await;
    rig.partners.seen(Partner::FalSync, Step::Submit, 3).await;
    rig.kill().await;
    rig.begin().await;
    let answer = rig.collect(&sent).await;
    assert_eq!(
        (answer.status, answer.header("x-comfy-error-type")),
        (502, Some("provider_error"))
    );
    assert_eq!(
        (rig.submits(Partner::Bfl), rig.submits(Partner::FalSync)),
        (1, 3)
    );
    // Results outlive the process.
    rig.end().await;
    rig.begin().await;
    assert_eq!(rig.collect(&runs).await.status, 200);
}

#[tokio::test]
async fn accounts_take_turns_and_one_cannot_fill_the_queue() {
    let rig = one_at_a_time(&["--queued-calls", "2"]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let runs = rig.submit(POLLED, &prompt("a")).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    for _ in 0..2 {
        rig.submit(POLLED, &prompt("b")).await;
    }
    for (dialect, word) in [
        ("v2", "queue_backlog_full"),
        ("v1", "concurrency_limit_exceeded"),
    ] {
        let full = rig.submit_as("acme", dialect, POLLED, &prompt("b")).await;
        assert_eq!(
            (full.status, full.header("x-comfy-error-type")),
            (429, Some(word))
        );
        assert_eq!(full.header("retry-after"), Some("1"));
    }
    // Another account neither waits for that nor sees anything of it.
    let others = Submitted::of(&rig.submit_as("other", "v2", AT_ONCE, &prompt("a")).await);
    let started = Instant::now();
    loop {
        let path = others.path("response_url");
        let answer = rig.send(of("other", Request::get(&path))).await;
        if answer.status == 200 {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{}",
            answer.text()
        );
    }
    for path in ["status_url", "response_url"] {
        let answer = rig.get(&others.path(path)).await;
        assert_eq!(
            (answer.status, answer.header("x-comfy-error-type")),
            (404, Some("request_not_found"))
        );
        let foreign = rig.send(of("other", Request::get(&runs.path(path)))).await;
        assert_eq!(foreign.text(), answer.text());
    }
    // Nor is a request to be had under another model.
    let elsewhere = format!("{}/{}", requests_of("v1", AT_ONCE), runs.id());
    let answer = rig.get(&elsewhere).await;
    assert_eq!(
        (answer.status, answer.header("x-comfy-error-type")),
        (404, Some("invalid_input"))
    );
    let no_model = format!("{}/{}", requests_of("v2", "no/such"), runs.id());
    let answer = rig.get(&no_model).await;
    assert_eq!(
        (answer.status, answer.header("x-comfy-error-type")),
        (404, Some("model_not_found"))
    );
}

#[tokio::test]
async fn what_waits_too_long_ends_without_a_dispatch() {
    let rig = one_at_a_time(&["--queue-time", "1s"]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    rig.submit(POLLED, &prompt("a")).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    let waits = rig.submit(POLLED, &prompt("b")).await;
    let answer = rig.collect(&waits).await;
    assert_eq!(
        (answer.status, answer.header("x-comfy-error-type")),
        (504, Some("queue_timeout"))
    );
    let status = rig.status(&waits).await;
    assert_eq!(status["error_type"], "queue_timeout");
    let in_v1 = waits.path("status_url").replacen("/v2/", "/v1/", 1);
    assert_eq!(
        rig.get(&in_v1).await.json()["error_type"],
        "deadline_exceeded"
    );
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

#[tokio::test]
async fn comfy_sdk_0_5_0_queues_requests_unmodified() {
    let test = "comfy_sdk_0_5_0_queues_requests_unmodified";
    let variable = "EASEL_SDK_0_5_0";
    let Some(python) = std::env::var_os(variable).map(PathBuf::from) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{variable} must be set where nothing may be skipped"
        );
        let why =
            format!("{variable} does not name a Python with the client; `.ci/run` installs one");
        return skipped(test, &why);
    };
    let rig = Rig::start().await;
    // The first request of the model runs until the scenario cancels it.
    rig.partners.plan(Partner::FalQueue, Plan::held());
    let key = key_named("acme").text.expose_secret().to_owned();
    let status = Command::new(python)
        .arg(root().join("tests/clients/queue_scenario.py"))
        .args([POLLED, AT_ONCE, CANCELLABLE])
        .env(
            "COMFY_ROUTER_BASE_URL",
            format!("http://{}", rig.server().address),
        )
        .env("COMFY_API_KEY", key)
        .kill_on_drop(true)
        .status()
        .await
        .unwrap();
    assert!(status.success(), "the scenario ended with {status}");
    // What was cancelled before it was sent, the partner never heard of; `of_what_runs_the_partner_is_asked_to_stop` has the other case
    // for certain. It hears on a connection of its own, which the client does not wait for.
    let sent = rig.partners.requests_of(Partner::FalQueue, Step::Submit);
    let cancelled = rig
        .partners
        .seen(Partner::FalQueue, Step::Cancel, sent.len())
        .await;
    assert_eq!(cancelled.len(), sent.len());
}

//! Calls that name who serves them, and whom to ask after a failure.

use std::path::PathBuf;

use it::partners::{Fault, Outcome, Partner, Plan, Step};
use it::skipped;
use tokio::process::Command;

use super::*;

mod killed;

/// A model that three others serve too: it is polled at its own partner, and answers at once at the first of them.
const SERVED: &str = "fal/flux-schnell";

const DROPPED: &str = "x-service-router-dropped-params";
const FALLBACK: &str = "x-service-router-fallback-provider";
const UPSTREAM: &str = "x-service-upstream-status";

fn together() -> Partner {
    named("together")
}

fn named(prefix: &str) -> Partner {
    let mut all = Partner::all();
    all.find(|partner| partner.prefix() == prefix).unwrap()
}

/// A rig that has the credentials of the alternates.
async fn rig(flags: &[&str]) -> Rig {
    let mut rig = Rig::with(flags, &[]).await;
    rig.end().await;
    let secrets = [
        ("TOGETHER_API_KEY", together()),
        ("REPLICATE_API_TOKEN", Partner::Replicate),
        ("RUNWARE_API_KEY", named("runware")),
    ];
    let secrets = secrets.map(|(name, partner)| (name.to_owned(), partner.secret()));
    rig.launch.variables.extend(secrets);
    rig.begin().await;
    rig
}

fn asked(dialect: &str, model: &str, query: &str, body: &Value) -> Request {
    let path = format!("/{dialect}/models/{model}{query}");
    of("acme", Request::post_json(&path, body))
}

/// A call of the model that others serve too.
fn call(query: &str) -> Request {
    asked("v2", SERVED, query, &prompt("a cat"))
}

/// What a partner was sent last, as JSON.
fn sent(rig: &Rig, partner: Partner) -> Value {
    let sent = rig.partners.requests_of(partner, Step::Submit);
    serde_json::from_slice(&sent.last().unwrap().body).unwrap()
}

fn bills(record: &[UsageRow]) -> Vec<u64> {
    let began = record.iter().filter(|row| row.began());
    let bills = began.filter_map(|row| row.generation.as_ref()?.charge_cents);
    bills.collect()
}

#[tokio::test]
async fn a_call_is_served_by_the_provider_that_it_names_in_its_own_words() {
    let mut rig = rig(&[]).await;
    let body =
        json!({"prompt": "a cat", "image_size": "portrait_4_3", "seed": 7, "acceleration": "high"});
    for dialect in ["v1", "v2"] {
        let request = asked(dialect, SERVED, "?model_provider=together", &body);
        let answer = rig.send(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let expected = json!({"images": [{"url": "https://api.together.ai/imgproxy/x"}]});
        assert_eq!(answer.json(), expected);
        let dropped = answer.header(DROPPED).unwrap();
        let told: Vec<String> = serde_json::from_str(dropped).unwrap();
        assert_eq!(told, ["acceleration (together has no such choice)"]);
        assert_eq!(
            answer.header("x-comfy-router-dropped-params"),
            Some(dropped)
        );
        assert_eq!(answer.header(FALLBACK), None);
        let expected = json!({"model": "black-forest-labs/FLUX.1-schnell", "prompt": "a cat", "width": 768,
            "height": 1024, "seed": 7, "output_format": "jpeg"});
        assert_eq!(sent(&rig, together()), expected);
    }
    let polled = rig.send(call("?model_provider=replicate")).await;
    assert_eq!(polled.status, 200, "{}", polled.text());
    assert!(
        polled.json()["images"][0]["url"].is_string(),
        "{}",
        polled.text()
    );
    assert_eq!(
        sent(&rig, Partner::Replicate)["input"]["aspect_ratio"],
        "4:3"
    );
    // Its own partner was never asked.
    assert_eq!(rig.submits(Partner::FalQueue), 0);
    let record = rig.record().await;
    assert_eq!(bills(&record), [1, 1, 1]);
    let served: Vec<String> = record
        .iter()
        .map(|row| {
            let generation = row.generation.as_ref().unwrap();
            generation.serving.as_ref().unwrap().model.to_string()
        })
        .collect();
    assert_eq!(
        served,
        [
            "together/flux.1-schnell",
            "together/flux.1-schnell",
            "replicate/flux-schnell"
        ]
    );
}

#[tokio::test]
async fn after_a_fallback_only_who_is_asked_now_says_when_to_retry() {
    let rig = rig(&["--deadline", "2s"]).await;
    let fault = Fault::Status(401);
    rig.partners.fault(together(), Step::Submit, fault);
    rig.partners
        .fault(Partner::Replicate, Step::Submit, Fault::Stall);
    let request = call("?model_provider=together&fallback_provider=replicate");
    let late = rig.send(request.header("Idempotency-Key", "k")).await;
    assert_eq!(late.status, 504, "{}", late.text());
    assert_eq!(late.header("retry-after"), None);
    assert_eq!(rig.submits(Partner::Replicate), 1);
    rig.partners.release();
}

#[tokio::test]
async fn what_a_provider_does_not_take_is_told_before_anything_is_sent() {
    let rig = rig(&[]).await;
    let body = json!({"prompt": "a cat", "acceleration": "high"});
    let strict = "?model_provider=together&strict_mode=true";
    let answer = rig.send(asked("v2", SERVED, strict, &body)).await;
    assert_eq!(answer.status, 422);
    assert_eq!(
        answer.json(),
        json!({"detail": [{"loc": ["body", "acceleration"], "msg": "together has no such choice", "type": "not_served"}]})
    );
    let shaped = json!({"prompt": "a cat", "image_size": {"width": 100, "height": 100}});
    let answer = rig
        .send(asked("v2", SERVED, "?model_provider=replicate", &shaped))
        .await;
    assert_eq!(answer.status, 422);
    assert_eq!(
        answer.json()["detail"][0],
        json!({"loc": ["body", "image_size"], "msg": "replicate takes a named shape alone", "type": "not_served"})
    );
    // One of them has no credentials here.
    for (query, parameter) in [
        ("?model_provider=nobody", "model_provider"),
        ("?model_provider=deepinfra", "model_provider"),
        ("?fallback_provider=together%2Cnobody", "fallback_provider"),
    ] {
        let detail = format!(
            "`{parameter}` names no provider that serves {SERVED} here; it is served by fal, together, replicate"
        );
        assert_error(
            &rig.send(call(query)).await,
            400,
            "invalid_input",
            &detail,
            &[],
        );
    }
    assert!(rig.partners.requests().is_empty());
    let detail = rig.get(&path_of(SERVED)).await.json();
    assert_eq!(
        detail["serving_providers"],
        json!(["fal", "together", "replicate"])
    );
    let alone = rig.get(&path_of(AT_ONCE)).await.json();
    assert_eq!(alone.get("serving_providers"), None);
}

#[tokio::test]
async fn an_estimate_is_that_of_the_provider_and_the_hold_that_of_the_dearest() {
    let rig = rig(&[]).await;
    let estimate = async |query: &str| {
        let path = format!("/v2/models/{SERVED}/estimate{query}");
        let body = json!({"prompt": "a cat", "num_images": 4, "image_size": {"width": 2000, "height": 2000}});
        let request = of("acme", Request::post_json(&path, &body));
        let answer = rig.send(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        (
            answer.json()["amount_cents"].clone(),
            answer.json()["hold_cents"].clone(),
        )
    };
    // 0.27 cents for each of 16 megapixels, and what is held where a size is no word.
    assert_eq!(
        estimate("?model_provider=together").await,
        (json!(5), json!(5))
    );
    let (amount, hold) = estimate("?fallback_provider=together").await;
    assert_eq!((amount, hold), (Value::Null, json!(12)));
    let both = "?model_provider=together&fallback_provider=fal";
    assert_eq!(estimate(both).await, (json!(5), json!(12)));
}

#[tokio::test]
async fn the_next_provider_is_asked_after_a_proven_failure_and_never_otherwise() {
    let mut rig = rig(&[]).await;
    let query = "?fallback_provider=together";
    // Refused before any work ran: no money, too busy; and failed for good without a bill, as fal documents it.
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
    let funds = rig.send(call(query)).await;
    rig.partners
        .fault(Partner::FalQueue, Step::Submit, Fault::Status(429));
    let busy = rig.send(call(query)).await;
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::Fail));
    let failed = rig.send(call(query)).await;
    for answer in [funds, busy, failed] {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header(FALLBACK), Some("together"));
        assert_eq!(
            answer.header("x-comfy-router-fallback-provider"),
            Some("together")
        );
    }
    assert_eq!(rig.submits(together()), 3);
    // Nobody knows what became of these.
    for fault in [
        Fault::CutAfterRequest,
        Fault::CutMidAnswer,
        Fault::Malformed,
        Fault::Status(503),
    ] {
        let status = matches!(fault, Fault::Status(503) | Fault::Malformed);
        rig.partners.fault(Partner::FalQueue, Step::Submit, fault);
        let unknown = rig.send(call(query)).await;
        assert_eq!(unknown.header(UPSTREAM).is_some(), status);
        assert_eq!(
            unknown.header("x-service-error-type"),
            Some("provider_error")
        );
        assert_eq!(unknown.header(FALLBACK), None);
    }
    // What a partner says of the content is its answer.
    for outcome in [Outcome::RefusePolicy, Outcome::RefuseInput] {
        rig.partners.plan(Partner::FalQueue, Plan::of(outcome));
        let refused = rig.send(call(query)).await;
        assert_eq!(
            (refused.status, refused.header(UPSTREAM)),
            (422, Some("422"))
        );
    }
    assert_eq!(rig.submits(together()), 3);
    // Where the first one serves, nothing is told of the others.
    let first = rig.send(call(query)).await;
    assert_eq!((first.status, first.header(FALLBACK)), (200, None));
    let record = rig.record().await;
    assert_eq!(bills(&record).iter().sum::<u64>(), 4);
    let attempts: Vec<usize> = record
        .iter()
        .map(|row| {
            row.generation
                .as_ref()
                .unwrap()
                .serving
                .as_ref()
                .unwrap()
                .failed
                .len()
        })
        .collect();
    assert_eq!(attempts, [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[tokio::test]
async fn one_key_is_one_answer_one_bill_and_one_record_of_every_attempt() {
    let mut rig = rig(&[]).await;
    let keyed = || call("?fallback_provider=together,replicate").header("Idempotency-Key", "k");
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
    rig.partners
        .fault(together(), Step::Submit, Fault::Status(429));
    let first = rig.send(keyed()).await;
    assert_eq!(
        (first.status, first.header(FALLBACK)),
        (200, Some("replicate"))
    );
    // Also after a restart.
    rig.end().await;
    rig.begin().await;
    let again = rig.send(keyed()).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.body, first.body);
    for name in [FALLBACK, DROPPED] {
        assert_eq!(again.header(name), first.header(name));
    }
    // Another query is another request.
    let other = call("?fallback_provider=together").header("Idempotency-Key", "k");
    assert_eq!(rig.send(other).await.status, 409);
    let listed = rig.get("/v1/calls").await.json();
    let rows = listed["data"].as_array().unwrap();
    let first_row = rows.iter().find(|row| row["generation"]["began"] == true);
    let generation = &first_row.unwrap()["generation"];
    assert_eq!(generation["failed_attempts"][1]["upstream_status"], 429);
    assert_eq!(generation["served_by"], "replicate/flux-schnell");
    let failed: Vec<(&Value, &Value)> = generation["failed_attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["model"], &one["status"]))
        .collect();
    let unavailable = json!("service_unavailable");
    assert_eq!(
        failed,
        [
            (&json!(SERVED), &unavailable),
            (&json!("together/flux.1-schnell"), &unavailable)
        ]
    );
    for partner in [Partner::FalQueue, together(), Partner::Replicate] {
        assert_eq!(rig.submits(partner), 1, "{partner:?}");
    }
    assert_eq!(bills(&rig.record().await), [1]);
}

#[tokio::test]
async fn a_queued_request_falls_back_as_a_waiting_call_does() {
    let rig = rig(&[]).await;
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
    let waiting = asked(
        "v2",
        SERVED,
        "?fallback_provider=together",
        &prompt("a cat"),
    );
    let waiting = rig.send(waiting).await;
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
    let path = format!("/v2/models/{SERVED}/requests?fallback_provider=together");
    let submitted = rig
        .send(of("acme", Request::post_json(&path, &prompt("a cat"))))
        .await;
    assert_eq!(submitted.status, 201, "{}", submitted.text());
    let id = submitted.json()["request_id"].as_str().unwrap().to_owned();
    let result = format!("/v2/models/{SERVED}/requests/{id}");
    let queued = loop {
        let answer = rig.get(&result).await;
        if answer.status != 202 {
            break answer;
        }
    };
    assert_eq!(queued.body, waiting.body);
    assert_eq!(queued.header(FALLBACK), Some("together"));
    let names = |answer: &Answer| {
        let mut names: Vec<String> = answer.headers.iter().map(|one| one.0.to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&queued), names(&waiting));
    // A body that nobody takes is refused when it is submitted.
    let path = format!("/v2/models/{SERVED}/requests?model_provider=replicate");
    let shaped = json!({"prompt": "a cat", "image_size": {"width": 100, "height": 100}});
    assert_eq!(
        rig.send(of("acme", Request::post_json(&path, &shaped)))
            .await
            .status,
        422
    );
}

#[tokio::test]
async fn an_export_lists_every_attempt() {
    let mut rig = rig(&[]).await;
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
    assert_eq!(
        rig.send(call("?fallback_provider=together")).await.status,
        200
    );
    assert_eq!(rig.send(call("")).await.status, 200);
    // What was handed in is written down then.
    rig.end().await;
    let exported = super::limits::operate(&rig, &["usage", "export"]).await;
    let rows: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows[0]["served_by"], "together/flux.1-schnell");
    assert_eq!(rows[0]["failed_attempts"][0]["model"], SERVED);
    assert_eq!(
        (&rows[1]["served_by"], &rows[1]["failed_attempts"]),
        (&Value::Null, &Value::Null)
    );
    let csv = super::limits::operate(&rig, &["usage", "export", "--format", "csv"]).await;
    let first = csv.lines().nth(1).unwrap();
    assert!(
        first.contains(r#"together/flux.1-schnell,"[{""model"":""fal/flux-schnell""#),
        "{first}"
    );
}

#[tokio::test]
async fn comfy_sdk_0_5_0_names_serving_providers_unmodified() {
    let (test, variable) = (
        "comfy_sdk_0_5_0_names_serving_providers_unmodified",
        "EASEL_SDK_0_5_0",
    );
    let Some(python) = std::env::var_os(variable).map(PathBuf::from) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{variable} must be set where nothing may be skipped"
        );
        return skipped(
            test,
            &format!("{variable} does not name a Python with the client; `.ci/run` installs one"),
        );
    };
    let rig = rig(&[]).await;
    // The second call of the scenario falls back.
    rig.partners
        .plan(Partner::FalQueue, Plan::of(Outcome::RefuseFunds));
    let key = key_named("acme").text.expose_secret().to_owned();
    let status = Command::new(python)
        .arg(root().join("tests/clients/serving_scenario.py"))
        .arg(SERVED)
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
    assert_eq!(
        (rig.submits(Partner::FalQueue), rig.submits(together())),
        (1, 3)
    );
}

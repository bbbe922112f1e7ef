//! What is told of money: before a call, with its answer, and at its deadline.

use super::*;

#[tokio::test]
async fn an_estimate_is_what_the_call_is_billed_and_dispatches_nothing() {
    let mut rig = Rig::start().await;
    let estimate = |dialect: &str, model: &str, body: &Value| {
        let path = format!("/{dialect}/models/{model}/estimate");
        rig.send(of("acme", Request::post_json(&path, body)))
    };
    let small = estimate("v2", AT_ONCE, &prompt("a")).await;
    assert_eq!(small.status, 200, "{}", small.text());
    let small = small.json();
    assert_eq!(small["source"], "exact", "{small}");
    let told = estimate("v1", POLLED, &prompt("a")).await.json();
    // Its partner has the last word.
    assert_eq!(
        told,
        json!({"source": "estimated", "min_cents": 3, "max_cents": 3, "hold_cents": 3})
    );
    let wrong = estimate("v2", AT_ONCE, &json!({"image_size": 7})).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    let missing = estimate("v2", "no/such", &prompt("a")).await;
    assert_eq!(
        missing.header("x-comfy-error-type"),
        Some("model_not_found")
    );
    assert_eq!(
        (rig.submits(Partner::Bfl), rig.submits(Partner::FalSync)),
        (0, 0)
    );
    assert_eq!(rig.call(AT_ONCE, &prompt("a")).await.status, 200);
    let record = rig.record().await;
    assert_eq!(record.len(), 1, "estimates are no calls");
    let charge = record[0].generation.as_ref().unwrap().charge_cents;
    assert_eq!(small["amount_cents"].as_u64(), charge);
}

#[tokio::test]
async fn the_second_dialect_tells_what_a_call_cost_and_what_is_committed() {
    let rig = Rig::start().await;
    let call = |dialect: &str| {
        let path = format!("/{dialect}/models/{POLLED}");
        let request = of("acme", Request::post_json(&path, &prompt("a")));
        rig.send(request.header("Idempotency-Key", dialect))
    };
    let headers = [
        ("x-comfy-credits-used", "4"),
        ("x-committed-spend-limit", "10000"),
        ("x-committed-spend-current", "0"),
        ("x-committed-spend-remaining", "10000"),
    ];
    let first = call("v2").await;
    let replayed = call("v2").await;
    let of_v1 = call("v1").await;
    for (name, value) in headers {
        assert_eq!(first.header(name), Some(value), "{name}");
        assert_eq!(replayed.header(name), None, "{name}");
        assert_eq!(of_v1.header(name), None, "{name}");
    }
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
}

#[tokio::test]
async fn the_second_dialect_tells_what_is_committed_at_a_deadline_too() {
    let rig = Rig::with(&["--deadline", "1s"], &[]).await;
    for (dialect, current) in [("v1", None), ("v2", Some("6"))] {
        rig.partners.plan(Partner::Bfl, Plan::held());
        let path = format!("/{dialect}/models/{POLLED}");
        let request = of("acme", Request::post_json(&path, &prompt("a")));
        let late = rig.send(request).await;
        assert_eq!(late.status, 504, "{}", late.text());
        assert_eq!(late.header("x-committed-spend-current"), current);
        assert_eq!(late.header("x-service-credits-used"), None);
    }
}

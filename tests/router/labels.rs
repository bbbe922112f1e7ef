//! Labels of calls: on record and in reports, and nowhere else.

use it::partners::{Partner, Step};

use super::limits::operate;
use super::*;

/// A request with labels.
fn labelled(request: Request, labels: &[&str]) -> Request {
    let with = |request: Request, label: &&str| request.header("X-Service-Label", label);
    labels.iter().fold(request, with)
}

/// The lines of the record of a workspace, as soon as they are so many: a call is written down once its answer was delivered,
/// which its caller cannot see.
async fn calls(rig: &Rig, count: usize) -> Vec<Value> {
    loop {
        let list = rig.get("/v1/calls").await.json();
        let calls = list["data"].as_array().unwrap();
        if calls.len() == count {
            return calls.clone();
        }
    }
}

#[tokio::test]
async fn labels_are_on_record_and_in_reports_and_no_partner_sees_them() {
    let mut rig = Rig::start().await;
    let call = |key: &str, labels: &[&str]| {
        let call = call_of("acme", AT_ONCE, &prompt("a")).header("Idempotency-Key", key);
        labelled(call, labels)
    };
    let first = rig.send(call("k", &["team=blue", "note=Größe, 1=2"])).await;
    assert_eq!(first.status, 200, "{}", first.text());
    // Labels do not belong to what a key stands for.
    let again = rig.send(call("k", &["team=red"])).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let plain = rig.call(AT_ONCE, &prompt("b")).await;
    assert_eq!(plain.status, 200);
    let unkeyed = call_of("acme", AT_ONCE, &prompt("c"));
    let unkeyed = rig.send(labelled(unkeyed, &["team=blue"])).await;
    assert_eq!(unkeyed.status, 200);
    let refused = call_of("acme", AT_ONCE, &json!({}));
    let refused = rig.send(labelled(refused, &["team=blue"])).await;
    assert_eq!(refused.status, 422);
    let submission = Request::post_json(&format!("{}/requests", path_of(AT_ONCE)), &prompt("d"));
    let submission = labelled(of("acme", submission), &["team=red"]);
    let queued = rig.send(submission).await;
    assert_eq!(queued.status, 201, "{}", queued.text());
    rig.partners.seen(Partner::FalSync, Step::Submit, 4).await;

    let named = json!({"team": "blue", "note": "Größe, 1=2"});
    let expected = [
        json!({"team": "red"}),
        json!({"team": "blue"}),
        json!({"team": "blue"}),
        Value::Null,
        json!({"team": "red"}),
        named,
    ];
    let told = |calls: &[Value]| -> Vec<Value> {
        let labels = calls.iter().map(|call| call["labels"].clone());
        labels.collect()
    };
    assert_eq!(told(&calls(&rig, 6).await), expected);
    for request in rig.partners.requests_of(Partner::FalSync, Step::Submit) {
        let raw = String::from_utf8_lossy(&request.raw).to_lowercase();
        assert!(!raw.contains("label") && !raw.contains("team"), "{raw}");
    }

    // What is on record stays through a crash, and money counts where it was spent.
    let settled = |calls: &[Value]| calls[0]["generation"]["settled_at"].is_string();
    while !settled(&calls(&rig, 6).await) {}
    rig.kill().await;
    rig.begin().await;
    assert_eq!(told(&calls(&rig, 6).await), expected);
    for report in ["?label=team", "?label=team&by=day"] {
        let report = rig.get(&format!("/v1/usage{report}")).await.json();
        let data = report["data"].as_array().unwrap();
        let rows = data.iter().map(|row| {
            let Value::Object(row) = row else {
                panic!("{row}")
            };
            (
                row["label"].clone(),
                row["calls"].clone(),
                row["charge_cents"].clone(),
            )
        });
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                (Value::Null, json!(1), json!(1)),
                (json!("blue"), json!(3), json!(2)),
                (json!("red"), json!(2), json!(1)),
            ]
        );
    }
    let unlabelled = rig.get("/v1/usage").await.json();
    assert_eq!(unlabelled["data"][0].get("label"), None);
    let wrong = rig.get("/v1/usage?label=a%20b").await;
    assert_eq!(wrong.status, 400, "{}", wrong.text());

    let totals = operate(&rig, &["usage", "totals", "--label", "team"]).await;
    assert_eq!(
        totals,
        "workspace,model,label:team,calls,succeeded,generations,charge_cents\n\
         acme,fal-sync/flux-schnell,,1,1,1,1\n\
         acme,fal-sync/flux-schnell,blue,3,2,2,2\n\
         acme,fal-sync/flux-schnell,red,2,2,1,1\n"
    );
    let exported = operate(&rig, &["usage", "export"]).await;
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert_eq!(first["labels"], expected[5]);
}

#[tokio::test]
async fn a_label_that_breaks_a_rule_is_refused_before_its_key_is_taken() {
    let rig = Rig::start().await;
    let many: Vec<String> = (0..17).map(|n| format!("k{n}=v")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = format!("k={}", "x".repeat(501));
    let wrong: [(&[&str], &str); 5] = [
        (&["team"], "KEY=VALUE"),
        (&["a b=c"], "a key has 1 to 40"),
        (&[&long], "a value has at most 500 characters"),
        (&["team=a", "team=b"], "more than once"),
        (&many, "more than 16"),
    ];
    for (labels, reason) in wrong {
        let call = call_of("acme", AT_ONCE, &prompt("a")).header("Idempotency-Key", "k");
        let refused = rig.send(labelled(call, labels)).await;
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(reason), "{detail}");
        assert_error(&refused, 400, "invalid_input", &detail, &[]);
        let submission =
            Request::post_json(&format!("/v2/models/{AT_ONCE}/requests"), &prompt("a"));
        let submission = of("acme", submission).header("Idempotency-Key", "k");
        assert_eq!(rig.send(labelled(submission, labels)).await.status, 400);
    }
    assert_eq!(rig.submits(Partner::FalSync), 0);
    let free = rig.keyed("k", AT_ONCE, &prompt("b")).await;
    assert_eq!(free.status, 200, "{}", free.text());
}

#[tokio::test]
async fn budgets_of_a_key_and_of_a_label_hold_beside_those_of_the_workspace() {
    let mut rig = Rig::with(&[], &[("acme2", Vec::new())]).await;
    let key = key_named("acme").id.to_string();
    let of_key = format!("key:{key}");
    for (account, scope, budgets) in [
        ("acme", "label:team=dark blue", "9/day"),
        ("acme", "label:team=red", "2/month"),
        ("acme2", "label:team=dark blue", "100/day"),
    ] {
        operate(&rig, &["account", "budget", account, scope, budgets]).await;
    }
    let call =
        |account: &str, labels: &[&str]| labelled(call_of(account, POLLED, &prompt("a")), labels);
    let blue: &[&str] = &["team=dark blue"];
    // Each costs 4 cents, and as many are held.
    let mut answered = 0;
    let refused = loop {
        let answer = rig.send(call("acme", blue)).await;
        if answer.status != 200 {
            break answer;
        }
        answered += 1;
        assert!(answered <= 2, "three calls of 4 cents in a budget of 9");
    };
    assert_eq!((refused.status, answered), (429, 2), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    let names = "the budget of 9 cents for the label team=dark blue for this day has 1 cents left";
    assert!(detail.contains(names), "{detail}");
    for (account, labels, status) in [
        ("acme", &[][..], 200),
        ("acme", &["team=light blue"], 200),
        ("acme2", blue, 200),
    ] {
        let answer = rig.send(call(account, labels)).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    let month = rig.send(call("acme", &["team=red"])).await;
    assert_eq!(
        (month.status, month.header("retry-after")),
        (402, None),
        "{}",
        month.text()
    );
    let queued = Request::post_json(&format!("{}/requests", path_of(POLLED)), &prompt("a"));
    let queued = rig.send(labelled(of("acme", queued), blue)).await;
    assert_eq!(queued.status, 429, "{}", queued.text());
    let shown = operate(&rig, &["account", "show", "acme"]).await;
    let told = "budget of day of label:team=dark blue: $0.01 of $0.09 is left until ";
    assert!(shown.contains(told), "{shown}");

    // What was charged stays charged when the server is killed.
    rig.kill().await;
    rig.begin().await;
    assert_eq!(rig.send(call("acme", blue)).await.status, 429);
    operate(
        &rig,
        &["account", "budget", "acme", "label:team=dark blue", "none"],
    )
    .await;
    assert_eq!(rig.send(call("acme", blue)).await.status, 200);

    // A queued request counts against the budget of the key that submitted it, too.
    operate(&rig, &["account", "budget", "acme", &of_key, "4/day"]).await;
    let queued = Request::post_json(&format!("{}/requests", path_of(POLLED)), &prompt("a"));
    let queued = rig.send(of("acme", queued)).await;
    assert_eq!(queued.status, 201, "{}", queued.text());
    let url = queued.json()["response_url"].as_str().unwrap().to_owned();
    let path = url.split_once("/v1/").unwrap().1;
    while rig.get(&format!("/v1/{path}")).await.status == 202 {}
    let refused = rig.send(call("acme", &[])).await;
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    let names =
        format!("the budget of 4 cents for the API key {key} for this day has 0 cents left");
    assert!(detail.contains(&names), "{detail}");
    assert_eq!(rig.send(call("acme2", &[])).await.status, 200);
}

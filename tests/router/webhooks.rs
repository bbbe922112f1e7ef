//! What webhooks hear of calls, queued requests and budgets.

use std::collections::BTreeSet;

use accounts::AccountChange;
use it::partners::{Outcome, Partner, Plan, Step};
use it::{Received, Receivers};
use serde_json::{Value, json};

use super::*;

/// A rig with receivers, of which `/takes/all` hears of everything of these accounts.
async fn rig(accounts: &[Differs<'_>]) -> (Rig, Receivers) {
    let receivers = Receivers::start().await.unwrap();
    let rig = Rig::with(&["--webhook-private-hosts", &receivers.host()], accounts).await;
    for (account, _) in [("acme", Vec::new())].iter().chain(accounts) {
        let url = receivers.url(&format!("/takes/{account}"));
        let events = "call.ended,budget.reached";
        let words = ["webhook", "add", account, "--url", &url, "--events", events];
        super::limits::operate(&rig, &words).await;
    }
    (rig, receivers)
}

/// The events of an account so far. What a server that was killed sent again counts once.
fn events(receivers: &Receivers, account: &str) -> Vec<Value> {
    let mut taken = receivers.taken(&format!("/takes/{account}"));
    let mut known = BTreeSet::new();
    taken.retain(|one| known.insert(one.id.clone()));
    taken.iter().map(Received::json).collect()
}

/// Waits for so many messages.
async fn count(receivers: &Receivers, count: usize) {
    let ids =
        |all: &[Received]| -> BTreeSet<String> { all.iter().map(|one| one.id.clone()).collect() };
    receivers.until(|all| ids(all).len() >= count).await;
}

#[tokio::test]
async fn the_end_of_every_call_is_told_with_and_without_a_key() {
    let (rig, receivers) = rig(&[]).await;
    let answered = rig.call(POLLED, &prompt("a")).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    count(&receivers, 1).await;
    let keyed = of("acme", Request::post_json(&path_of(AT_ONCE), &prompt("b")));
    let keyed = rig.send(keyed.header("Idempotency-Key", "once")).await;
    assert_eq!(keyed.status, 200, "{}", keyed.text());
    count(&receivers, 2).await;
    rig.partners.plan(Partner::Bfl, Plan::of(Outcome::Fail));
    let failed = rig.call(POLLED, &prompt("c")).await;
    assert_ne!(failed.status, 200);
    count(&receivers, 3).await;

    let told = events(&receivers, "acme");
    let statuses: Vec<&Value> = told.iter().map(|it| &it["data"]["status"]).collect();
    assert_eq!(statuses, ["succeeded", "succeeded", "failed"]);
    let models: Vec<&Value> = told.iter().map(|it| &it["data"]["model"]).collect();
    assert_eq!(models, [POLLED, AT_ONCE, POLLED]);
    assert!(
        told[0]["data"]["charge_cents"].as_u64().unwrap() > 0,
        "{}",
        told[0]
    );
    assert_eq!(told[0]["data"]["error_type"], Value::Null);
    assert_eq!(
        told[2]["data"]["error_type"],
        failed.header("x-comfy-error-type").unwrap()
    );
}

#[tokio::test]
async fn a_queued_request_is_told_whether_it_ran_or_was_withdrawn() {
    let (rig, receivers) = rig(&[]).await;
    super::limits::operate(&rig, &["account", "tier", "acme", "--calls", "1"]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let submit = async |text: &str| {
        let path = format!("{}/requests", path_of(POLLED));
        let answer = rig
            .send(of("acme", Request::post_json(&path, &prompt(text))))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["request_id"].as_str().unwrap().to_owned()
    };
    let runs = submit("a").await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    let waits = submit("b").await;
    let cancel = format!("{}/requests/{waits}/cancel", path_of(POLLED));
    let cancelled = rig.send(of("acme", Request::new("PUT", &cancel))).await;
    assert!(cancelled.status < 300, "{}", cancelled.text());
    count(&receivers, 1).await;
    let told = events(&receivers, "acme");
    assert_eq!(
        (&told[0]["data"]["id"], &told[0]["data"]["status"]),
        (&json!(waits), &json!("cancelled"))
    );
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    count(&receivers, 2).await;
    let told = events(&receivers, "acme");
    assert_eq!(
        (&told[1]["data"]["id"], &told[1]["data"]["status"]),
        (&json!(runs), &json!("succeeded"))
    );
}

#[tokio::test]
async fn a_budget_is_told_once_when_it_refuses_the_first_call() {
    let budgets = "2/month".parse().unwrap();
    let poor = ("poor", vec![AccountChange::Budgets(Some(budgets))]);
    let (rig, receivers) = rig(&[poor]).await;
    for _ in 0..3 {
        let refused = rig.send(call_of("poor", POLLED, &prompt("a"))).await;
        assert_eq!(refused.status, 402, "{}", refused.text());
    }
    count(&receivers, 1).await;
    let other = rig.call(AT_ONCE, &prompt("b")).await;
    assert_eq!(other.status, 200, "{}", other.text());
    count(&receivers, 2).await;
    let told = events(&receivers, "poor");
    assert_eq!(told.len(), 1, "once in a window: {told:#?}");
    let data = &told[0]["data"];
    assert_eq!(told[0]["type"], "budget.reached");
    assert_eq!(
        (
            &data["account"],
            &data["window"],
            &data["limit_cents"],
            &data["left_cents"]
        ),
        (&json!("poor"), &json!("month"), &json!(2), &json!(2))
    );
    assert_eq!(data["of"], Value::Null);
}

#[tokio::test]
async fn budgets_of_a_key_and_of_a_label_are_told_as_the_accounts_own() {
    let (mut rig, receivers) = rig(&[]).await;
    let shown = super::limits::operate(&rig, &["key", "list", "acme", "--json"]).await;
    let keys: Value = serde_json::from_str(&shown).unwrap();
    let key = format!("key:{}", keys[0]["id"].as_str().unwrap());
    let label = "label:project=posters";
    for (scope, budget) in [(label, "2/month"), (key.as_str(), "2/day")] {
        super::limits::operate(&rig, &["account", "budget", "acme", scope, budget]).await;
    }
    let labelled =
        || call_of("acme", POLLED, &prompt("a")).header("X-Service-Label", "project=posters");
    for _ in 0..2 {
        // Of both the month ends last.
        let refused = rig.send(labelled()).await;
        assert_eq!(refused.status, 402, "{}", refused.text());
        let refused = rig.send(call_of("acme", POLLED, &prompt("a"))).await;
        assert_eq!(refused.status, 429, "{}", refused.text());
    }
    count(&receivers, 2).await;
    // Also by a process that knows nothing of what was told.
    rig.kill().await;
    rig.begin().await;
    let refused = rig.send(labelled()).await;
    assert_eq!(refused.status, 402, "{}", refused.text());
    for scope in [label, &key] {
        super::limits::operate(&rig, &["account", "budget", "acme", scope, "none"]).await;
    }
    let other = rig.call(AT_ONCE, &prompt("b")).await;
    assert_eq!(other.status, 200, "{}", other.text());
    count(&receivers, 3).await;
    let told = events(&receivers, "acme");
    assert_eq!(told.len(), 3, "each once in a window: {told:#?}");
    for (of, window) in [(label, "month"), (key.as_str(), "day")] {
        let is_it = |told: &&Value| told["data"]["of"] == of && told["data"]["window"] == window;
        assert_eq!(told.iter().filter(is_it).count(), 1, "{told:#?}");
    }
}

#[tokio::test]
async fn the_end_of_a_call_is_told_although_the_router_was_killed() {
    let (mut rig, receivers) = rig(&[]).await;
    let mut calls = 0;
    for round in 0..4 {
        for _ in 0..5 {
            let answered = rig.call(AT_ONCE, &prompt("a")).await;
            assert_eq!(answered.status, 200, "{}", answered.text());
            calls += 1;
        }
        // What was answered a moment ago may be in the log alone.
        rig.kill().await;
        rig.begin().await;
        count(&receivers, (round + 1) * 5).await;
    }
    let told = events(&receivers, "acme");
    let mut ids: Vec<&str> = told
        .iter()
        .map(|it| it["data"]["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), calls, "each call is told");
}

//! Who pays, who may not, and where the submitted key is never found.

use it::operate;
use secrecy::ExposeSecret;

use super::*;
use crate::router::key_named;

fn key_of(name: &str) -> String {
    key_named(name).text.expose_secret().to_owned()
}

/// What the older API tells of a job that failed.
async fn exception(rig: &Rig, id: &str) -> String {
    let history = rig.get(&format!("/api/history/{id}")).await;
    let messages = history[id]["status"]["messages"]
        .as_array()
        .unwrap()
        .clone();
    let told = messages
        .iter()
        .find(|message| message[0] == "execution_error");
    told.unwrap()[1]["exception_type"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn fails(rig: &Rig, id: &str, expected: &str) {
    let job = rig.ended(id).await;
    assert_eq!(job["status"], "failed", "{job:#}");
    assert_eq!(job["error"]["code"], "node_execution_error", "{job:#}");
    assert_eq!(exception(rig, id).await, expected, "{job:#}");
    assert_eq!(rig.submits(Partner::OpenaiImages), 0);
}

fn answering(rig: &Rig) {
    let body = json!({"data": [{"b64_json": base64_of(&edited())}]}).to_string();
    rig.partners
        .answer_with(Partner::OpenaiImages, "application/json", body);
}

#[tokio::test]
async fn an_account_without_enough_credits_pays_nothing_and_gets_nothing() {
    let rig = Rig::with(&[], &[AccountChange::Billed(true)]).await;
    answering(&rig);
    let body = json!({"workflow": make("a cat")});
    let refused = rig.send(Request::post_json("/api/v2/jobs", &body)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (402, "insufficient_credits")
    );

    // One cent is enough to submit, and not for the model.
    let granted = operate(&rig.data(), ["account", "credit", "acme", "1"]).await;
    assert_eq!(granted.code, 0, "{granted:?}");
    let id = rig.submit(&make("a cat")).await;
    fails(&rig, &id, "InsufficientFundsError").await;
}

#[tokio::test]
async fn an_account_without_the_entitlement_is_told_so() {
    let only = "bfl/*".parse().unwrap();
    let rig = Rig::with(&[], &[AccountChange::Entitlements(Some(only))]).await;
    answering(&rig);
    let id = rig.submit(&make("a cat")).await;
    fails(&rig, &id, "PermissionError").await;
}

#[tokio::test]
async fn whoever_may_not_call_models_cannot_even_submit() {
    let rig = Rig::start().await;
    let workflow = json!({"workflow": make("a cat")});
    let request = Request::post_json("/api/v2/jobs", &workflow);
    let answer = rig
        .server
        .as_ref()
        .unwrap()
        .send(&of("jobs", request))
        .await
        .unwrap();
    assert_eq!(
        (answer.status, answer.error_code().as_str()),
        (403, "forbidden"),
        "{}",
        answer.text()
    );
    let request = Request::post_json("/api/prompt", &json!({"prompt": make("a cat")}));
    let answer = rig
        .server
        .as_ref()
        .unwrap()
        .send(&of("jobs", request))
        .await
        .unwrap();
    assert_eq!(answer.status, 403, "{}", answer.text());
    let error = &answer.json()["error"];
    assert_eq!(error["type"], "PARTNER_NODE_DISABLED");
    assert_eq!(error["class_types"], json!([AT_ONCE]));
    assert_eq!(error["providers"], json!([AT_ONCE.split(':').nth(1)]));

    let rig = Rig::with(&[], &[AccountChange::Router(false)]).await;
    let answer = rig
        .send(Request::post_json("/api/v2/jobs", &workflow))
        .await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(rig.submits(Partner::OpenaiImages), 0);
}

#[tokio::test]
async fn a_submitted_key_pays_and_is_found_nowhere() {
    // The account itself may call nothing; the owner of the key pays.
    let mut rig = Rig::with(&[], &[AccountChange::Router(false)]).await;
    answering(&rig);
    let key = key_of("other");
    let body = json!({"workflow": make("a cat"), "extra_data": {"api_key_service_org": key}});
    let id = rig.submit_with(&body).await;
    let job = rig.ended(&id).await;
    let picture = rig.output(&job).await;
    assert_eq!(decoded(&picture), edited());
    let body = json!({"prompt": make("a dog"), "extra_data": {"api_key_comfy_org": key}});
    let answer = rig.send(Request::post_json("/api/prompt", &body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let older = answer.json()["prompt_id"].as_str().unwrap().to_owned();
    assert_eq!(rig.ended(&older).await["status"], "succeeded");

    let secret = key.rsplit('_').next().unwrap().to_owned();
    for target in [
        format!("/api/v2/jobs/{id}"),
        format!("/api/v2/jobs/{id}/logs"),
        format!("/api/history/{older}"),
        format!("/api/jobs/{older}"),
        "/api/queue".to_owned(),
        "/api/object_info".to_owned(),
    ] {
        let answer = rig.send(Request::get(&target)).await;
        assert!(!answer.text().contains(&secret), "{target}");
    }
    for request in rig.partners.requests() {
        let raw = String::from_utf8_lossy(&request.raw).into_owned();
        assert!(!raw.contains(&secret), "a partner hears of it");
    }
    assert!(!String::from_utf8_lossy(&picture).contains(&secret));
    assert!(rig.spent("other").await > 0);
    let mut found = Vec::new();
    files(rig.folder.path(), &mut found);
    assert!(found.len() > 3);
    for (path, bytes) in found {
        let has = bytes
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!has, "{} holds the key", path.display());
    }
}

#[tokio::test]
async fn a_submitted_key_that_counts_no_more_is_not_replaced_by_the_account_itself() {
    let rig = Rig::start().await;
    answering(&rig);
    let body = json!({"workflow": make("a cat"), "extra_data": {"api_key_service_org": "easel_nobody_nothing"}});
    let id = rig.submit_with(&body).await;
    fails(&rig, &id, "UnauthorizedError").await;
}

#[tokio::test]
async fn a_submitted_key_that_a_restart_lost_fails_the_job() {
    let mut rig = Rig::start().await;
    rig.partners.plan(Partner::Bfl, it::partners::Plan::held());
    let picture = rig.upload(&small()).await;
    let body = json!({"workflow": edit(&picture, "slow"), "extra_data": {"api_key_service_org": key_of("other")}});
    let id = rig.submit_with(&body).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    rig.kill().await;
    rig.begin().await;
    let job = rig.ended(&id).await;
    assert_eq!(job["error"]["code"], "secret_lost", "{job:#}");
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

//! Accounts and their own webhooks: what each may do with them, and that none reaches another one's.

use it::Answer;

use super::*;

/// A request with a key.
struct Client<'a> {
    rig: &'a Rig,
    key: String,
}

impl<'a> Client<'a> {
    /// With a new key of an account.
    async fn of(rig: &'a Rig, account: &str, scopes: &str) -> Self {
        let words = ["key", "add", account, "--scopes", scopes];
        let key = rig.command(&words).await;
        Self { rig, key }
    }

    async fn ask(&self, method: &str, below: &str, body: Value) -> Answer {
        let request = Request::new(method, &format!("/api/v2/webhooks{below}"))
            .header("Authorization", &format!("Bearer {}", self.key));
        let request = match body.is_null() {
            true => request,
            false => request
                .header("Content-Type", "application/json")
                .body(body.to_string()),
        };
        self.rig.server().send(&request).await.unwrap()
    }

    async fn done(&self, method: &str, below: &str, status: u16, body: Value) -> Value {
        let answer = self.ask(method, below, body).await;
        assert_eq!(answer.status, status, "{below}: {}", answer.text());
        match status {
            204 => Value::Null,
            _ => answer.json(),
        }
    }

    async fn refused(&self, method: &str, below: &str, status: u16, body: Value) -> Value {
        let answer = self.ask(method, below, body).await;
        assert_eq!(answer.status, status, "{below}: {}", answer.text());
        answer.json()["error"].clone()
    }
}

#[tokio::test]
async fn every_server_lets_an_account_manage_its_own_webhooks() {
    for package in ["all-in-one", "router-server", "workflow-server"] {
        let rig = Rig::start_as(package).await;
        rig.command(&["account", "add", "acme"]).await;
        let acme = Client::of(&rig, "acme", "router:run,jobs:write").await;
        let wish = json!({"url": rig.receivers.url("/takes/own"), "events": ["job.ended"]});
        let added = acme.done("POST", "", 201, wish).await;
        assert_eq!(added["account"], "acme");
        let secret = added["secret"].as_str().unwrap();
        let of = format!("/{}", added["id"].as_str().unwrap());

        let sent = acme
            .done("POST", &format!("{of}/test"), 202, Value::Null)
            .await;
        assert_eq!(sent["event"], "webhook.test");
        rig.receivers.until(|all| !all.is_empty()).await;
        let received = rig.receivers.received();
        assert_eq!(received[0].signatures_of(secret), 1);
        loop {
            let page = acme
                .done("GET", &format!("{of}/deliveries"), 200, Value::Null)
                .await;
            if page["deliveries"][0]["state"] == "delivered" {
                break;
            }
        }
        let rotation = json!({"overlap_s": 0});
        let rotated = acme
            .done("POST", &format!("{of}/rotate"), 200, rotation)
            .await;
        assert_ne!(rotated["secret"], added["secret"]);
        let disabled = json!({"enabled": false});
        let disabled = acme.done("PATCH", &of, 200, disabled).await;
        assert_eq!(disabled["disabled_reason"], "operator");
        let found = acme.done("GET", &of, 200, Value::Null).await;
        assert_eq!(found["secret"], Value::Null, "it was shown once");
        let page = acme.done("GET", "", 200, Value::Null).await;
        assert_eq!(page["webhooks"].as_array().unwrap().len(), 1);
        acme.done("DELETE", &of, 204, Value::Null).await;
        let page = acme.done("GET", "", 200, Value::Null).await;
        assert_eq!(page["webhooks"], json!([]));
        let log = rig.log();
        assert!(
            log.contains("webhook.add") && !log.contains(secret),
            "{log}"
        );
    }
}

#[tokio::test]
async fn another_accounts_webhook_is_as_absent_as_none() {
    let rig = Rig::start().await;
    rig.command(&["account", "add", "acme"]).await;
    rig.command(&["account", "add", "other"]).await;
    let acme = Client::of(&rig, "acme", "jobs:read,jobs:write").await;
    let other = Client::of(&rig, "other", "jobs:read,jobs:write").await;
    let wish = json!({"url": rig.receivers.url("/takes/own"), "events": "job.ended"});
    let added = acme.done("POST", "", 201, wish).await;
    let theirs = format!("/{}", added["id"].as_str().unwrap());
    let none = "/0198c0de-0000-7000-8000-00000000000a".to_owned();
    for (method, below, body) in [
        ("GET", "", Value::Null),
        ("PATCH", "", json!({"enabled": false})),
        ("DELETE", "", Value::Null),
        ("POST", "/rotate", Value::Null),
        ("POST", "/test", Value::Null),
        ("GET", "/deliveries", Value::Null),
    ] {
        let mut refusals = Vec::new();
        for of in [&theirs, &none] {
            let below = format!("{of}{below}");
            refusals.push(other.refused(method, &below, 404, body.clone()).await);
        }
        assert_eq!(refusals[0], refusals[1], "{method} {below}");
    }
    let page = other.done("GET", "", 200, Value::Null).await;
    assert_eq!(page["webhooks"], json!([]));
    let found = acme.done("GET", &theirs, 200, Value::Null).await;
    assert_eq!(found["state"], "enabled");
}

#[tokio::test]
async fn keys_without_the_scopes_and_wishes_beyond_the_rules_are_refused() {
    let rig = Rig::start().await;
    rig.command(&["account", "add", "acme"]).await;
    let wish = json!({"url": "https://example.com/hooks", "events": "job.ended"});
    let reader = Client::of(&rig, "acme", "jobs:read").await;
    reader.done("GET", "", 200, Value::Null).await;
    let refused = reader.refused("POST", "", 403, wish.clone()).await;
    assert_eq!(refused["code"], "forbidden");
    let assets = Client::of(&rig, "acme", "assets:read,assets:write").await;
    assets.refused("GET", "", 403, Value::Null).await;
    let wrong = Client {
        rig: &rig,
        key: "easel_00000000_no".to_owned(),
    };
    wrong.refused("GET", "", 401, Value::Null).await;

    let writer = Client::of(&rig, "acme", "jobs:write").await;
    for (wish, told) in [
        (
            json!({"url": "http://10.0.0.1/", "events": "job.ended"}),
            "plain http is for hosts",
        ),
        (
            json!({"url": "https://example.com/", "events": "all"}),
            "all",
        ),
        (
            json!({"url": "https://example.com/", "events": "job.ended", "account": "local"}),
            "account",
        ),
    ] {
        let refused = writer.refused("POST", "", 422, wish).await;
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(told), "{message}");
    }
    for _ in 0..20 {
        writer.done("POST", "", 201, wish.clone()).await;
    }
    let refused = writer.refused("POST", "", 422, wish).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("20 webhooks"), "{message}");
}

#[tokio::test]
async fn an_open_server_keeps_the_webhooks_of_its_only_account() {
    let rig = Rig::start().await;
    let answer = rig
        .server()
        .send(&Request::get("/api/v2/webhooks"))
        .await
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["webhooks"], json!([]));
}

//! What operators see and change, and what nobody sees: a secret after it was shown.

use super::*;

#[tokio::test]
async fn a_secret_is_shown_once_and_is_nowhere_else() {
    let mut rig = Rig::start().await;
    let (id, secret) = rig
        .webhook("/takes/x?token=of-the-address", "job.ended")
        .await;
    assert!(secret.starts_with("whsec_"), "{secret}");
    let rotated = rig.command(&["webhook", "rotate", &id]).await;
    rig.submit(1).await;
    rig.receivers.until(|all| !all.is_empty()).await;
    let mut answers = String::new();
    for words in [
        ["webhook", "show", &id].as_slice(),
        &["webhook", "list"],
        &["webhook", "list", "local"],
        &["webhook", "deliveries", &id],
    ] {
        answers += &rig.shown(words).await.to_string();
        answers += &rig.command(words).await;
    }
    assert!(
        rig.server
            .take()
            .unwrap()
            .terminate()
            .await
            .unwrap()
            .success()
    );
    let rows = std::fs::read(rig.data().join("main.db")).unwrap();
    let log = rig.log();
    for text in [&secret, &rotated] {
        let text = text.strip_prefix("whsec_").unwrap();
        assert!(!answers.contains(text), "{answers}");
        assert!(!log.contains(text), "{log}");
        assert!(it::http::find(&rows, text.as_bytes()).is_none());
    }
    assert!(
        answers.contains("of-the-address"),
        "operators see the address"
    );
    assert!(!log.contains("of-the-address"), "{log}");
}

#[tokio::test]
async fn webhooks_are_operated_over_http_and_wrong_wishes_say_what_to_do() {
    let rig = Rig::start().await;
    let key = rig
        .command(&["key", "add", "local", "--scopes", "admin"])
        .await;
    let ask = async |method: &str, path: &str, body: Value| {
        let request = Request::new(method, &format!("/api/v2/admin{path}"))
            .header("Authorization", &format!("Bearer {key}"));
        let request = if body.is_null() {
            request
        } else {
            request
                .header("Content-Type", "application/json")
                .body(body.to_string())
        };
        rig.server().send(&request).await.unwrap()
    };
    let url = rig.receivers.url("/takes/x");
    let body = json!({"url": url, "events": ["job.ended", "job.created"]});
    let added = ask("POST", "/accounts/local/webhooks", body).await;
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(added.header("cache-control"), Some("no-store"));
    let added = added.json();
    assert_eq!(added["events"], json!(["job.created", "job.ended"]));
    assert!(added["secret"].as_str().unwrap().starts_with("whsec_"));
    let path = format!("/webhooks/{}", added["id"].as_str().unwrap());
    let mut shown = added.clone();
    shown.as_object_mut().unwrap().remove("secret");
    assert_eq!(ask("GET", &path, Value::Null).await.json(), shown);
    for list in ["/webhooks", "/accounts/local/webhooks"] {
        let page = ask("GET", list, Value::Null).await.json();
        assert_eq!(page, json!({"webhooks": [shown]}));
    }
    let changed = ask(
        "PATCH",
        &path,
        json!({"events": "call.ended", "enabled": false}),
    )
    .await;
    let changed = changed.json();
    assert_eq!(changed["events"], json!(["call.ended"]));
    assert_eq!(changed["disabled_reason"], "operator");
    let refused = ask("POST", &format!("{path}/test"), Value::Null).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (422, "invalid_request".to_owned())
    );
    ask("PATCH", &path, json!({"enabled": true})).await;
    let sent = ask("POST", &format!("{path}/test"), Value::Null).await;
    assert_eq!(sent.status, 202, "{}", sent.text());
    rig.receivers.until(|all| !all.is_empty()).await;
    assert_eq!(sent.json()["id"], rig.receivers.received()[0].id);
    let rotated = ask("POST", &format!("{path}/rotate"), Value::Null).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text());
    assert_ne!(rotated.json()["secret"], added["secret"]);

    for (method, path, body, status, words) in [
        (
            "POST",
            "/accounts/local/webhooks",
            json!({"url": url}),
            422,
            "events",
        ),
        (
            "POST",
            "/accounts/local/webhooks",
            json!({"url": url, "events": "jobs"}),
            422,
            "job.created, job.ended",
        ),
        (
            "POST",
            "/accounts/local/webhooks",
            json!({"url": "example.com", "events": "job.ended"}),
            422,
            "https://",
        ),
        (
            "POST",
            "/accounts/local/webhooks",
            json!({"url": "http://example.com", "events": "job.ended"}),
            422,
            "webhook_private_hosts",
        ),
        (
            "POST",
            "/accounts/local/webhooks",
            json!({"url": "https://exa_mple..com/", "events": "job.ended"}),
            422,
            "host",
        ),
        (
            "POST",
            "/accounts/nobody/webhooks",
            json!({"url": url, "events": "job.ended"}),
            404,
            "account list",
        ),
        ("PATCH", &path, json!({}), 422, "nothing is to be changed"),
        (
            "PATCH",
            &path,
            json!({"enable": true}),
            422,
            "no such field",
        ),
        (
            "POST",
            &format!("{path}/rotate"),
            json!({"overlap_s": 604_801}),
            422,
            "7 days",
        ),
        ("GET", "/webhooks/x", Value::Null, 422, "UUID"),
        (
            "GET",
            "/webhooks/9c0e6f4a-0000-4000-8000-000000000009",
            Value::Null,
            404,
            "webhook list",
        ),
        (
            "GET",
            &format!("{path}/deliveries?cursor=x"),
            Value::Null,
            400,
            "cursor",
        ),
    ] {
        let answer = ask(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert!(answer.text().contains(words), "{words}: {}", answer.text());
    }
    for _ in 1..20 {
        let body = json!({"url": url, "events": "job.ended"});
        assert_eq!(
            ask("POST", "/accounts/local/webhooks", body).await.status,
            201
        );
    }
    let body = json!({"url": url, "events": "job.ended"});
    let refused = ask("POST", "/accounts/local/webhooks", body).await;
    assert!(refused.text().contains("20 webhooks"), "{}", refused.text());
    assert_eq!(ask("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(ask("DELETE", &path, Value::Null).await.status, 404);
}

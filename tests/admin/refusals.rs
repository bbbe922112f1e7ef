//! Whom admin over HTTP refuses, and which requests.

use it::{Launch, Request};
use serde_json::{Value, json};

use super::{BASE, Operated, TOKEN, command, refusal};

#[tokio::test]
async fn who_is_no_operator_learns_and_changes_nothing() {
    let it = Operated::start("all-in-one").await;
    let data = it.data.path().join("data");
    let user = command(&data, &["key", "add", "local"]).await;
    let bearer = |text: &str| ("Authorization", format!("Bearer {text}"));
    let session = Request::post_json("/api/session", &json!({ "key": it.key }));
    let session = it.server.send(&session).await.unwrap();
    let cookie = session
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let cases = [
        (None, 401),
        (Some(bearer("wrong")), 401),
        (Some(("Cookie", cookie)), 401),
        (Some(bearer(&user)), 403),
        (Some(bearer(TOKEN)), 403),
    ];
    let document = Request::get(&format!("{BASE}/openapi.json"));
    let document = it.server.send(&document).await.unwrap().json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        // Accounts manage their own webhooks without the scope.
        if path.ends_with("/openapi.json") || !path.starts_with(BASE) {
            continue;
        }
        let path = path.replace("{id}", "local");
        for method in methods.as_object().unwrap().keys() {
            for (credential, status) in &cases {
                let mut request = Request::new(&method.to_uppercase(), &path)
                    .header("Content-Type", "application/json")
                    .body(json!({"id": "mine", "router": false}).to_string());
                if let Some((name, value)) = credential {
                    request = request.header(name, value);
                }
                let answer = it.server.send(&request).await.unwrap();
                let code = if *status == 401 {
                    "unauthorized"
                } else {
                    "forbidden"
                };
                let refused = refusal(&answer);
                assert_eq!(
                    (refused.0, refused.1.as_str()),
                    (*status, code),
                    "{method} {path}"
                );
                assert_eq!(answer.header("www-authenticate").is_some(), *status == 401);
                asked += 1;
            }
        }
    }
    assert!(asked >= 60, "{asked}");
    let accounts = it.get("/accounts").await.json();
    assert_eq!(accounts["accounts"].as_array().unwrap().len(), 1);
    assert_eq!(accounts["accounts"][0]["router"], true);

    // A JSON Web Token of an installation that takes them operates it if it says so.
    let secret = "--jwt-secret=a secret of more than 32 bytes, for tests alone";
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch {
        arguments: vec![secret.into()],
        ..Launch::of("router-server")
    };
    let it = Operated::launch(folder, launch).await;
    let data = it.data.path().join("data");
    for (scopes, status) in [("admin", 200), ("jobs:read", 403)] {
        let issue = [
            "token",
            "issue",
            "--workspace",
            "local",
            "--scopes",
            scopes,
            secret,
        ];
        let token = command(&data, &issue).await;
        let request = Request::get(&format!("{BASE}/accounts"));
        let request = request.header("Authorization", &format!("Bearer {token}"));
        assert_eq!(it.server.send(&request).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn a_bad_request_is_refused_with_what_to_do() {
    let it = Operated::start("workflow-server").await;
    let cases = [
        ("POST", "/accounts", json!({}), 422, "`id` must be"),
        ("POST", "/accounts", json!({"id": "Acme"}), 422, "a-z"),
        (
            "POST",
            "/accounts",
            json!({"id": "a", "calls": "many"}),
            422,
            "or default",
        ),
        (
            "POST",
            "/accounts",
            json!({"id": "a", "call": 1}),
            422,
            "no `call`",
        ),
        ("POST", "/accounts", json!([]), 422, "JSON object"),
        (
            "PATCH",
            "/accounts/nobody",
            json!({"name": "x"}),
            404,
            "account list",
        ),
        (
            "PATCH",
            "/accounts/local",
            json!({"calls": [1]}),
            422,
            "`calls` must be",
        ),
        ("GET", "/accounts?limit=x", Value::Null, 400, "1 to 200"),
        ("GET", "/accounts?cursor=", Value::Null, 400, "next_cursor"),
        (
            "GET",
            "/accounts/local/credits?cursor=x",
            Value::Null,
            400,
            "next_cursor",
        ),
        (
            "GET",
            "/accounts/local/keys?cursor=zzzzzzzz",
            Value::Null,
            422,
            "no key",
        ),
        (
            "POST",
            "/accounts/local/credits",
            json!({"amount_cents": 1}),
            422,
            "UUID",
        ),
        (
            "POST",
            "/accounts/local/credits",
            json!({"reference": "x", "amount_cents": 1}),
            422,
            "UUID",
        ),
        (
            "POST",
            "/accounts/local/credits",
            json!({"reference": "x", "amount_cents": 1.5}),
            422,
            "cents",
        ),
        (
            "POST",
            "/accounts/local/keys",
            json!({"scopes": "jobs"}),
            422,
            "jobs:read",
        ),
        (
            "POST",
            "/accounts/local/keys",
            json!({"id": "aaaaaaaa"}),
            422,
            "hash",
        ),
        (
            "POST",
            "/accounts/nobody/keys",
            json!({}),
            404,
            "account list",
        ),
        (
            "POST",
            "/keys/aaaaaaaa/revoke",
            Value::Null,
            404,
            "key list",
        ),
        ("POST", "/keys/x/revoke", Value::Null, 422, "8 characters"),
        ("PUT", "/assets/x/hold", Value::Null, 422, "UUID"),
        (
            "PUT",
            "/assets/9c0e6f4a-0000-4000-8000-000000000009/hold",
            Value::Null,
            404,
            "expired",
        ),
        ("GET", "/catalog", Value::Null, 404, "no catalog"),
        ("GET", "/nothing", Value::Null, 404, "openapi.json"),
        ("DELETE", "/accounts/local", Value::Null, 405, "PATCH"),
    ];
    for (method, path, body, status, says) in cases {
        let asked = format!("{method} {path} {body}");
        let refused = it.refused(method, path, body).await;
        assert_eq!(refused.0, status, "{asked}: {}", refused.2);
        assert!(refused.2.contains(says), "{asked}: {}", refused.2);
    }
    let post = || Request::new("POST", &format!("{BASE}/accounts"));
    let json_type = |request: Request| request.header("Content-Type", "application/json");
    let large = format!(r#"{{"id": "a", "name": "{}"}}"#, "x".repeat(200 * 1024));
    for (request, status) in [
        (post().body("{}"), 415),
        (json_type(post()).body("{"), 400),
        (json_type(post()).body(large), 413),
    ] {
        assert_eq!(refusal(&it.send(request).await).0, status);
    }
    let allowed = it.ask("DELETE", "/accounts/local", Value::Null).await;
    let allow = allowed.header("allow").unwrap();
    assert!(allow.contains("GET") && allow.contains("PATCH"), "{allow}");
}

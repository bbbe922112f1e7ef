//! Admin over HTTP on the real programs: what it changes, what it refuses, and that commands reach it from anywhere.

mod catalog;
mod commands;
mod refusals;
mod workers;

use std::path::Path;

use it::{Answer, Form, Launch, Request, Server, operate};
use serde_json::{Value, json};

/// Every program that serves.
const PROGRAMS: [&str; 3] = ["router-server", "workflow-server", "all-in-one"];

/// The path below which everything is.
const BASE: &str = "/api/v2/admin";

/// The token of the installations: it uses them and does not operate them.
const TOKEN: &str = "the-token-of-this-test";

/// A server and the key of its operator.
struct Operated {
    server: Server,
    data: tempfile::TempDir,
    key: String,
}

async fn command(data: &Path, arguments: &[&str]) -> String {
    let done = operate(data, arguments).await;
    assert_eq!(done.code, 0, "{arguments:?}: {}", done.stderr);
    done.stdout.trim_end().to_owned()
}

impl Operated {
    async fn start(package: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch {
            arguments: vec!["--token".into(), TOKEN.into()],
            log: Some(folder.path().join("log")),
            ..Launch::of(package)
        };
        Self::launch(folder, launch).await
    }

    async fn launch(folder: tempfile::TempDir, launch: Launch) -> Self {
        let data = folder.path().join("data");
        let server = Server::launch(&data, &launch).await.unwrap();
        let key = command(&data, &["key", "add", "local", "--scopes", "admin"]).await;
        Self {
            server,
            data: folder,
            key,
        }
    }

    async fn send(&self, request: Request) -> Answer {
        let bearer = format!("Bearer {}", self.key);
        let request = request.header("Authorization", &bearer);
        self.server.send(&request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(&format!("{BASE}{path}"))).await
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let request = Request::new(method, &format!("{BASE}{path}"));
        let request = if body.is_null() {
            request
        } else {
            request
                .header("Content-Type", "application/json")
                .body(body.to_string())
        };
        self.send(request).await
    }

    /// The answer of a request that must succeed.
    async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.ask(method, path, body).await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
        if answer.body.is_empty() {
            return Value::Null;
        }
        answer.json()
    }

    async fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String, String) {
        refusal(&self.ask(method, path, body).await)
    }
}

/// Status, code and message of an answer in the shape of errors.
fn refusal(answer: &Answer) -> (u16, String, String) {
    assert!(
        answer.header("x-service-request-id").is_some(),
        "{}",
        answer.text()
    );
    let error = answer.json()["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap().to_owned();
    assert!(error.get("details").is_some(), "{error}");
    (answer.status, text("code"), text("message"))
}

#[tokio::test]
async fn every_server_is_operated_over_http() {
    for package in PROGRAMS {
        let it = Operated::start(package).await;
        let added = it
            .ask(
                "POST",
                "/accounts",
                json!({"id": "acme", "name": "Acme", "billing": true, "calls": 7}),
            )
            .await;
        assert_eq!(added.status, 201, "{package}: {}", added.text());
        let account = added.json();
        assert_eq!(
            (&account["name"], &account["billed"]),
            (&json!("Acme"), &json!(true))
        );
        let calls = json!({"name": "calls", "value": "7", "own": true});
        let limits = account["limits"].as_array().unwrap();
        assert!(limits.contains(&calls), "{account:#}");

        let made = it
            .ask("POST", "/accounts/acme/keys", json!({"name": "first"}))
            .await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(made.header("cache-control"), Some("no-store"));
        let key = made.json();
        let text = key["key"].as_str().unwrap().to_owned();
        let status = async || {
            let path = match package {
                "workflow-server" => "/api/v2/jobs",
                _ => "/v1/models",
            };
            let request = Request::get(path).header("Authorization", &format!("Bearer {text}"));
            it.server.send(&request).await.unwrap().status
        };
        assert_eq!(status().await, 200, "{package}");
        let listed = it.get("/accounts/acme/keys").await;
        assert!(!listed.text().contains(&text), "a key is shown once");
        assert_eq!(listed.json()["keys"][0]["name"], "first");

        it.done("PATCH", "/accounts/acme", json!({"state": "suspended"}))
            .await;
        assert_eq!(status().await, 401);
        let account = it
            .done(
                "PATCH",
                "/accounts/acme",
                json!({"state": "active", "calls": null}),
            )
            .await;
        assert_eq!(account["suspended"], false);
        assert_eq!(status().await, 200);
        let revoke = format!("/keys/{}/revoke", key["id"].as_str().unwrap());
        for _ in 0..2 {
            assert_eq!(
                it.done("POST", &revoke, Value::Null).await["state"],
                "revoked"
            );
        }
        assert_eq!(status().await, 401);

        // What the command over the socket says is the same.
        let data = it.data.path().join("data");
        let shown = command(&data, &["account", "show", "acme", "--json"]).await;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown, it.get("/accounts/acme").await.json());
        let metrics = it.server.send(&Request::get("/metrics")).await.unwrap();
        assert!(
            metrics.text().contains("/api/v2/admin/accounts/{id}"),
            "routes are counted"
        );
    }
}

#[tokio::test]
async fn a_repeat_doubles_nothing() {
    let it = Operated::start("workflow-server").await;
    it.done("POST", "/accounts", json!({"id": "acme"})).await;
    let again = it.refused("POST", "/accounts", json!({"id": "acme"})).await;
    assert_eq!((again.0, again.1.as_str()), (409, "already_exists"));

    let grant = json!({"reference": "0198c0de-0000-7000-8000-000000000001", "amount_cents": 500});
    for _ in 0..3 {
        let credits = it
            .done("POST", "/accounts/acme/credits", grant.clone())
            .await;
        assert_eq!(credits["balance_cents"], 500);
    }
    let mut other = grant.clone();
    other["amount_cents"] = json!(700);
    let refused = it.refused("POST", "/accounts/acme/credits", other).await;
    assert_eq!((refused.0, refused.1.as_str()), (409, "reference_reuse"));
    assert!(refused.2.contains("500 cents"), "{}", refused.2);
    for n in 2..6 {
        let reference = format!("0198c0de-0000-7000-8000-00000000000{n}");
        let grant = json!({"reference": reference, "amount_cents": -1});
        it.done("POST", "/accounts/acme/credits", grant).await;
    }
    // Pages of two meet at the first entry.
    let (mut amounts, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = it
            .get(&format!("/accounts/acme/credits?limit=2{cursor}"))
            .await;
        let page = page.json();
        assert_eq!(page["balance_cents"], 496);
        let entries = page["entries"].as_array().unwrap();
        amounts.extend(entries.iter().map(|entry| entry["amount_cents"].clone()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(json!(amounts), json!([-1, -1, -1, -1, 500]));

    // A key that the client made is the same key when it is sent again, and another one of its id is refused.
    let made =
        |hash: &str| json!({"id": "aaaaaaaa", "hash": hash.repeat(32), "scopes": ["jobs:read"]});
    for _ in 0..2 {
        let key = it.done("POST", "/accounts/acme/keys", made("0a")).await;
        assert_eq!((&key["id"], key.get("key")), (&json!("aaaaaaaa"), None));
    }
    let refused = it.refused("POST", "/accounts/acme/keys", made("0b")).await;
    assert_eq!((refused.0, refused.1.as_str()), (409, "already_exists"));
    let keys = it.get("/accounts/acme/keys").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys:#}");
}

#[tokio::test]
async fn an_operator_holds_assets_and_confirms_sweeps() {
    let it = Operated::start("all-in-one").await;
    let data = it.data.path().join("data");
    let user = command(&data, &["key", "add", "local"]).await;
    let bearer = format!("Bearer {user}");
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
        .file("file", "a.txt", b"kept");
    let upload = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .header("Authorization", &bearer)
        .body(form.body());
    let asset = it.server.send(&upload).await.unwrap().json();
    let id = asset["id"].as_str().unwrap();
    let delete = Request::new("DELETE", &format!("/api/v2/assets/{id}"));
    let delete = delete.header("Authorization", &bearer);
    for _ in 0..2 {
        let held = it
            .ask("PUT", &format!("/assets/{id}/hold"), Value::Null)
            .await;
        assert_eq!((held.status, held.body.len()), (204, 0));
    }
    let kept = it.get(&format!("/assets/{id}")).await.json();
    let expected = json!({
        "id": id,
        "account": "local",
        "file_path": "a.txt",
        "content_type": "text/plain",
        "size_bytes": 4,
        "job_id": null,
        "created_at": kept["created_at"],
        "expires_at": kept["expires_at"],
        "holds": [{"kind": "operator", "job_id": null}],
        "has_more_holds": false,
    });
    assert_eq!(kept, expected);
    let shown = command(&data, &["asset", "show", id]).await;
    assert!(shown.contains("kept by  an operator"), "{shown}");
    assert_eq!(it.server.send(&delete).await.unwrap().status, 409);
    it.done("DELETE", &format!("/assets/{id}/hold"), Value::Null)
        .await;
    let free = command(&data, &["asset", "show", id, "--json"]).await;
    let free: Value = serde_json::from_str(&free).unwrap();
    assert_eq!(free["holds"], json!([]), "{free:#}");
    assert_eq!(it.server.send(&delete).await.unwrap().status, 204);
    let gone = it.get(&format!("/assets/{id}")).await;
    assert_eq!(gone.status, 404);
    let confirmed = it.ask("POST", "/sweeps/confirm", Value::Null).await;
    assert_eq!(confirmed.status, 204);

    let router = Operated::start("router-server").await;
    let refused = router
        .refused("PUT", &format!("/assets/{id}/hold"), Value::Null)
        .await;
    assert_eq!(refused.0, 404);
    assert!(refused.2.contains("keeps no assets"), "{}", refused.2);
}

#[tokio::test]
async fn the_log_says_who_did_what_and_no_secret() {
    let it = Operated::start("workflow-server").await;
    let data = it.data.path().join("data");
    it.done("POST", "/accounts", json!({"id": "acme"})).await;
    let key = it.done("POST", "/accounts/acme/keys", json!({})).await;
    let grant = json!({"reference": "0198c0de-0000-7000-8000-000000000001", "amount_cents": 500});
    it.done("POST", "/accounts/acme/credits", grant).await;
    it.refused("POST", "/accounts", json!({"id": "acme"})).await;
    command(&data, &["account", "rename", "acme", "Acme"]).await;
    it.get("/accounts").await;
    let own = it.key.clone();
    assert!(it.server.terminate().await.unwrap().success());

    let log = std::fs::read_to_string(it.data.path().join("log")).unwrap();
    let key_text = key["key"].as_str().unwrap();
    for secret in [own.as_str(), key_text, TOKEN] {
        let secret = secret.rsplit('_').next().unwrap();
        assert!(!log.contains(secret), "{log}");
    }
    let operator = format!("key {} of local", own.split('_').nth(1).unwrap());
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("\"actor\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<String> = lines
        .iter()
        .map(|line| {
            let fields = &line["fields"];
            let fields = if fields.is_null() { line } else { fields };
            let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {} {}", text("actor"), text("action"), text("subject"))
        })
        .collect();
    let expected = [
        // The key of the operator was made through the socket.
        "a user of this machine: key.add local".to_owned(),
        format!("{operator}: account.add acme"),
        format!("{operator}: key.add acme"),
        format!("{operator}: credits.grant acme"),
        format!("{operator}: account.add acme"),
        "a user of this machine: account.change acme".to_owned(),
    ];
    assert_eq!(told, expected, "{lines:#?}");
    assert!(lines[3].to_string().contains("500 cents"), "{}", lines[3]);
    assert!(lines[4].to_string().contains("refused"), "{}", lines[4]);
}

#[tokio::test]
async fn every_server_hands_the_document_out_and_serves_what_it_has() {
    for package in PROGRAMS {
        let it = Operated::start(package).await;
        let document = Request::get(&format!("{BASE}/openapi.json"));
        let document = it.server.send(&document).await.unwrap();
        assert_eq!(document.status, 200);
        let document = document.json();
        let mut operations = 0;
        for (path, methods) in document["paths"].as_object().unwrap() {
            let id = "9c0e6f4a-0000-4000-8000-000000000009";
            let asked = path.replace("{id}", id).replace("{name}", "sdxl");
            for (method, operation) in methods.as_object().unwrap() {
                let request = Request::new(&method.to_uppercase(), &asked);
                let answer = it.send(request).await;
                let status = answer.status.to_string();
                let known = operation["responses"].as_object().unwrap();
                assert!(
                    known.contains_key(&status),
                    "{package}: {method} {path}: {status}"
                );
                assert_ne!(status, "405", "{method} {path}");
                if status == "404" {
                    assert!(!answer.text().contains("no such route"), "{path}");
                }
                operations += 1;
            }
        }
        assert_eq!(operations, 54);
    }
}

//! `accounts`, `keys`, `webhooks` and `usage` before a real server.

use it::{Receivers, operate};

use super::*;

/// A server, its receivers, and a user whose key operates it.
struct Operator {
    server: Server,
    data: TempDir,
    receivers: Receivers,
    user: User,
}

impl Operator {
    async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let receivers = Receivers::start().await.unwrap();
        let host = receivers.host();
        let arguments = [
            "--token",
            "the-token-of-this-test",
            "--webhook-private-hosts",
            &host,
        ];
        let server = Server::start_with(data.path(), arguments).await.unwrap();
        let key = operate(
            data.path(),
            ["key", "add", "local", "--scopes", "admin,jobs:read"],
        )
        .await;
        let user = User::of(&server).with("EASEL_API_KEY", key.stdout.trim());
        Self {
            server,
            data,
            receivers,
            user,
        }
    }
}

#[tokio::test]
async fn an_operator_adds_tests_and_removes_a_webhook() {
    let it = Operator::start().await;
    let url = it.receivers.url("/takes/easel");
    let add = [
        "webhooks",
        "add",
        "local",
        "--url",
        &url,
        "--events",
        "job.ended,call.ended",
    ];
    let ran = it.user.run(&add).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let secret = ran.out.trim().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert!(ran.err.contains("is shown this once"), "{}", ran.err);
    let all = it.user.json("webhooks list", &["webhooks", "list"]).await;
    let id = all[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(all[0]["events"], json!(["job.ended", "call.ended"]));
    it.user.good(&["webhooks", "test", &id]).await;
    it.receivers.until(|all| !all.is_empty()).await;
    assert_eq!(it.receivers.received()[0].signatures_of(&secret), 1);
    let rotated = it
        .user
        .json(
            "webhooks rotate",
            &["webhooks", "rotate", &id, "--overlap", "1h"],
        )
        .await;
    let second = rotated["secret"].as_str().unwrap().to_owned();
    it.user.good(&["webhooks", "test", &id]).await;
    it.receivers.until(|all| all.len() == 2).await;
    let message = &it.receivers.received()[1];
    assert_eq!(
        (
            message.signatures_of(&secret),
            message.signatures_of(&second)
        ),
        (1, 1)
    );
    let deliveries = ["webhooks", "deliveries", &id];
    let sent = loop {
        let sent = it.user.json("webhooks deliveries", &deliveries).await;
        if sent[0]["state"] == "delivered" {
            break sent;
        }
    };
    assert_eq!(sent.as_array().unwrap().len(), 2, "{sent:#}");
    let table = it.user.good(&deliveries).await;
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(
        table.contains("\twebhook.test\tdelivered\t1\t204\t"),
        "{table}"
    );
    for words in [
        ["webhooks", "disable", &id].as_slice(),
        &["webhooks", "enable", &id],
        &["webhooks", "show", &id],
        &["webhooks", "change", &id, "--events", "job.created"],
        &["webhooks", "test", &id],
        &["webhooks", "list", "local"],
        &["webhooks", "remove", &id],
    ] {
        it.user.json(&words[..2].join(" "), words).await;
    }
    let (code, error) = it.user.error(&["webhooks", "show", &id]).await;
    assert_eq!(code, 4, "{error}");
    let (code, error) = it.user.error(&["webhooks", "change", &id]).await;
    assert_eq!(code, 2, "{error}");
    assert!(it.server.terminate().await.unwrap().success());
    drop(it.data);
}

#[tokio::test]
async fn an_account_manages_its_own_webhooks_and_an_operator_those_of_others() {
    let it = Operator::start().await;
    let made = operate(it.data.path(), ["account", "add", "acme"]).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    let key = operate(it.data.path(), ["key", "add", "acme"]).await;
    let acme = User::of(&it.server).with("EASEL_API_KEY", key.stdout.trim());
    let url = it.receivers.url("/takes/own");
    let add = ["webhooks", "add", "--url", &url, "--events", "job.ended"];
    assert!(acme.good(&add).await.starts_with("whsec_"));
    let list = ["webhooks", "list"];
    let all = acme.json("webhooks list", &list).await;
    let id = all[0]["id"].as_str().unwrap().to_owned();
    acme.good(&["webhooks", "test", &id]).await;
    it.receivers.until(|all| !all.is_empty()).await;

    // An operator has none of its own, and reaches this one by its id.
    assert_eq!(it.user.json("webhooks list", &list).await, json!([]));
    let everyones = ["webhooks", "list", "--all"];
    let everyones = it.user.json("webhooks list", &everyones).await;
    assert_eq!(everyones[0]["account"], "acme");
    it.user.good(&["webhooks", "disable", &id]).await;
    let shown = acme.json("webhooks show", &["webhooks", "show", &id]).await;
    assert_eq!(shown["state"], "disabled");
    acme.good(&["webhooks", "remove", &id]).await;
    let (code, error) = acme.error(&["webhooks", "show", &id]).await;
    assert_eq!(code, 4, "{error}");
    let (code, error) = acme.error(&["webhooks", "list", "--all"]).await;
    assert_ne!(code, 0, "{error}");
    assert!(it.server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn accounts_keys_and_usage_are_as_their_schemas_say() {
    let it = Operator::start().await;
    operate(
        it.data.path(),
        ["account", "add", "acme", "--budgets", "500/day"],
    )
    .await;
    let all = it.user.json("accounts", &["accounts"]).await;
    let names: Vec<&Value> = all.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(names, ["acme", "local"]);
    it.user.json("account", &["accounts", "acme"]).await;
    let shown = it.user.good(&["accounts", "acme"]).await;
    assert!(shown.contains("$5.00 of $5.00 is left this day"), "{shown}");
    let (code, error) = it.user.error(&["accounts", "nobody"]).await;
    assert_eq!(code, 4, "{error}");

    let made = it
        .user
        .json(
            "keys add",
            &["keys", "add", "acme", "--name", "first", "--expires", "1h"],
        )
        .await;
    let text = made["key"].as_str().unwrap();
    assert!(text.starts_with("easel_"), "{made}");
    let ran = it
        .user
        .run(&["keys", "add", "acme", "--scopes", "jobs:read"])
        .await;
    assert!(ran.out.starts_with("easel_"), "{}", ran.out);
    let keys = it.user.json("keys list", &["keys", "list", "acme"]).await;
    assert_eq!(keys.as_array().unwrap().len(), 2);
    assert!(!keys.to_string().contains(text), "a key is shown once");
    let id = made["id"].as_str().unwrap();
    let revoked = it.user.json("keys revoke", &["keys", "revoke", id]).await;
    assert_eq!(revoked["state"], "revoked");

    let usage = it
        .user
        .json("usage", &["usage", "--by", "day", "--days", "7"])
        .await;
    assert_eq!(usage["data"], json!([]));
    it.user.json("usage", &["usage", "--account", "*"]).await;

    // Who may not operate is told so, with the exit code for it.
    let user = User::of(&it.server).with("EASEL_API_KEY", ran.out.trim());
    for words in [["accounts", "acme"], ["keys", "list"], ["webhooks", "list"]] {
        let words: Vec<&str> = match words[0] {
            "keys" => vec!["keys", "list", "acme"],
            "webhooks" => vec!["webhooks", "list", "--all"],
            _ => words.to_vec(),
        };
        let (code, error) = user.error(&words).await;
        assert_eq!(code, 3, "{words:?}: {error}");
    }
}

//! Commands that list something: tables for people, JSON for programs, and help that is about the command.

use std::collections::BTreeSet;
use std::path::Path;

use it::process::binary_of;
use it::{Request, Server, operate};
use jiff::Timestamp;
use serde_json::Value;
use tokio::process::Command;

async fn listed(data: &Path, arguments: &[&str]) -> Value {
    let ended = operate(data, arguments).await;
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[tokio::test]
async fn accounts_and_keys_are_listed_as_json() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let added = ["account", "add", "acme", "--name", "Acme", "--streams", "3"];
    assert_eq!(operate(data, added).await.code, 0);
    let key = operate(data, ["key", "add", "acme", "--expires", "1d"]).await;
    assert_eq!(key.code, 0, "{key:?}");
    assert_eq!(
        operate(data, ["account", "credit", "acme", "250"])
            .await
            .code,
        0
    );

    let accounts = listed(data, &["account", "list", "--json"]).await;
    let ids: Vec<&str> = accounts.as_array().unwrap().iter().map(id).collect();
    assert_eq!(ids, ["acme", "local"]);
    let shown = listed(data, &["account", "show", "acme", "--json"]).await;
    assert_eq!(accounts[0], shown);
    assert_eq!(shown["name"], "Acme");
    assert_eq!(shown["balance_cents"], 250);
    let limits = shown["limits"].as_array().unwrap();
    let streams = limits.iter().find(|limit| limit["name"] == "streams");
    assert_eq!(streams.unwrap()["value"], "3", "{shown:#}");
    let keys = listed(data, &["key", "list", "acme", "--json"]).await;
    assert_eq!(keys[0]["state"], "active");
    let entries = listed(data, &["account", "credit", "acme", "--json"]).await;
    assert_eq!(entries[0]["amount_cents"], 250);

    // A time with its zone, and nothing else of the key than its id.
    for time in [
        &shown["created_at"],
        &keys[0]["expires_at"],
        &entries[0]["at"],
    ] {
        let time = time.as_str().unwrap();
        assert!(
            time.parse::<Timestamp>().is_ok() && time.ends_with('Z'),
            "{time}"
        );
    }
    let secret = key.stdout.trim().rsplit('_').next().unwrap();
    assert!(!keys.to_string().contains(secret));
    let table = operate(data, ["account", "list"]).await.stdout;
    let created = shown["created_at"].as_str().unwrap();
    assert!(
        table.contains("CREATED") && table.contains(created),
        "{table}"
    );
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

#[tokio::test]
async fn the_listed_nodes_are_those_of_the_server() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let info = server.send(&Request::get("/api/object_info")).await;
    let info = info.unwrap().json();
    let served: BTreeSet<&str> = info
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();

    let nodes = listed(data.path(), &["nodes", "list", "--json"]).await;
    let nodes = nodes.as_array().unwrap();
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| node["state"] == "native");
    let classes = here.iter().map(|node| node["class"].as_str().unwrap());
    assert_eq!(classes.collect::<BTreeSet<_>>(), served);
    for node in elsewhere {
        let class = node["class"].as_str().unwrap();
        assert!(!served.contains(class), "{node}");
        let state = node["state"].as_str().unwrap();
        assert!(["model", "worker"].contains(&state), "{node}");
    }
    for node in here {
        let class = node["class"].as_str().unwrap();
        let served = &info[class];
        // A class without a name of its own is shown by its class.
        let name = served["display_name"].as_str().unwrap_or(class);
        assert_eq!(node["display_name"], name, "{node}");
        assert_eq!(node["category"], served["category"], "{node}");
    }
    let table = operate(data.path(), ["nodes", "list"]).await.stdout;
    assert!(table.starts_with("CLASS "), "{table}");
    assert_eq!(table.lines().count(), nodes.len() + 1);

    // The server of workflows alone has no partners.
    let output = Command::new(binary_of("workflow-server"))
        .args(["nodes", "list"])
        .output();
    let table = String::from_utf8(output.await.unwrap().stdout).unwrap();
    assert!(
        table.contains("LoadImage") && !table.contains("partner:"),
        "{table}"
    );
}

#[tokio::test]
async fn the_help_of_a_run_is_about_runs() {
    let data = tempfile::tempdir().unwrap();
    let help = operate(data.path(), ["run", "--help"]).await.stdout;
    let flags: BTreeSet<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_end_matches([',', ';', '.']))
        .collect();
    for flag in [
        "--input",
        "--out",
        "--config",
        "--data-dir",
        "--threads",
        "--catalog",
    ] {
        assert!(flags.contains(flag), "{flag} in {help}");
    }
    for flag in [
        "--listen",
        "--token",
        "--public-url",
        "--queue-total",
        "--drain-grace",
    ] {
        assert!(!flags.contains(flag), "{flag} in {help}");
    }
    // They are not listed, and not refused: one file of settings serves both.
    let ended = operate(
        data.path(),
        ["run", "--listen", "127.0.0.1:1", "absent.json"],
    )
    .await;
    assert!(ended.stderr.contains("absent.json"), "{ended:?}");
}

#[tokio::test]
async fn a_token_that_is_too_short_is_refused_with_how_to_make_one() {
    let output = Command::new(binary_of("all-in-one"))
        .args(["config", "show"])
        .env("EASEL_TOKEN", "a-long-secret")
        .output();
    let output = output.await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["EASEL_TOKEN", "16", "openssl rand -hex 32"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(!said.contains("a-long-secret"), "{said}");
}

#[tokio::test]
async fn a_role_on_a_data_directory_is_refused_with_what_it_needs() {
    let data = tempfile::tempdir().unwrap();
    for program in ["workflow-server", "all-in-one"] {
        let output = Command::new(binary_of(program))
            .args(["serve", "--role", "worker", "--data-dir"])
            .arg(data.path())
            .output();
        let output = output.await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for words in ["`role` cannot be worker", "`store` and `blobs`"] {
            assert!(said.contains(words), "{words} in {said}");
        }
    }
    assert_eq!(data.path().read_dir().unwrap().count(), 0, "nothing began");
}

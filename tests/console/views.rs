//! Every view in headless Chromium, by the keyboard alone, with an accessibility checker.

use std::io::Write;
use std::path::Path;

use it::comfy::Version;
use it::{Comfy, Receivers, Server, lacks, operate, root};
use serde_json::{Value, json};
use tokio::process::Command;

/// What the test needs and `.ci/run` installs.
pub(super) const NEEDED: [&str; 3] = ["EASEL_PLAYWRIGHT", "EASEL_CHROMIUM", "EASEL_AXE"];

/// What each view reads: requests and streams. D425 says why there is more than one request.
const READ: [(&str, [u64; 2]); 18] = [
    ("overview", [4, 1]),
    ("jobs", [1, 1]),
    ("jobs/one", [3, 1]),
    ("assets", [1, 0]),
    ("models", [1, 0]),
    ("models/one", [1, 0]),
    ("calls", [1, 0]),
    ("usage", [1, 0]),
    ("accounts", [1, 0]),
    ("accounts/one", [3, 0]),
    ("webhooks", [1, 0]),
    ("webhooks/one", [2, 0]),
    ("workers", [1, 0]),
    ("deployments", [1, 0]),
    ("deployments/one", [3, 0]),
    ("published", [1, 0]),
    ("published/one", [1, 0]),
    ("settings", [1, 0]),
];

/// The views that are looked at.
const VIEWS: [&str; 30] = [
    "signin",
    "jobs",
    "job",
    "graph",
    "again",
    "failed",
    "running",
    "overview",
    "assets",
    "asset",
    "models",
    "model",
    "model-file",
    "calls",
    "usage",
    "own-webhooks",
    "keys",
    "accounts",
    "account",
    "webhooks",
    "webhook",
    "holds",
    "workers",
    "fleet",
    "deployments",
    "revision",
    "deployment",
    "published",
    "published-model",
    "settings",
];

#[tokio::test]
async fn every_view_works_by_keyboard_and_live() {
    const TEST: &str = "every_view_works_by_keyboard_and_live";
    if lacks(TEST, &NEEDED) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let key = "a-key-of-the-console-test";
    let receivers = Receivers::start().await.unwrap();
    let host = receivers.host();
    let arguments = [
        "--token",
        key,
        "--job-slots",
        "1",
        "--webhook-private-hosts",
        &host,
    ];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let budgets = ["account", "add", "acme", "--budgets", "500/hour,2000/day"];
    assert_eq!(operate(data.path(), budgets).await.code, 0);
    let made = operate(data.path(), ["key", "add", "acme"]).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    let operator = operate(
        data.path(),
        [
            "key",
            "add",
            "local",
            "--scopes",
            "admin,jobs:read,router:run",
        ],
    )
    .await;
    // Pictures of the page show no folder of the machine that made them.
    let simulated = data.path().join("comfyui");
    std::os::unix::fs::symlink(it::process::binary_of("simulated-comfyui"), &simulated).unwrap();
    let lifeline = it::process::lifeline().to_string();
    let command = [
        simulated.to_str().unwrap(),
        "--port",
        "{port}",
        "--name",
        "{name}",
        "--while",
        &lifeline,
    ];
    let definition = format!(
        "name = \"sim\"\ncommand = {}\nmin = 1\nmax = 3\n",
        json!(command)
    );
    let file = data.path().join("sim.toml");
    std::fs::write(&file, definition).unwrap();
    let applied = operate(data.path(), ["deployment", "apply", file.to_str().unwrap()]).await;
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    publish_twice(data.path()).await;
    let worker = Comfy::start(Version::New).await.unwrap();
    // Kept for people to look at.
    let screenshots = root().join("target/ci/console");
    std::fs::create_dir_all(&screenshots).unwrap();
    let driven = Command::new("node")
        .arg(root().join("tests/clients/console.mjs"))
        .arg(server.address.to_string())
        .arg(key)
        .arg(&screenshots)
        .arg(operator.stdout.trim())
        .arg(receivers.url("/takes/console"))
        .arg(worker.url())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&driven.stdout);
    let complained = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{said}\n{complained}");
    let told: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    // Figures for people; a closed standard error is no reason to fail.
    let _ = writeln!(
        std::io::stderr(),
        "console: {} bytes in {} files, first view in ms {}, requests and streams by view {}",
        told["bytes"],
        told["files"],
        told["firstView"],
        told["read"]
    );
    assert_eq!(told["views"], json!(VIEWS), "{told}");
    for none in ["errors", "outside", "serious"] {
        assert_eq!(told[none], json!([]), "{told:#}");
    }
    let line = "local,easel/resize,2,2,2,0,";
    let columns = "workspace,model,calls,succeeded,generations,charge_cents,api_key";
    assert_eq!(told["csv"], json!([columns, line]), "{told}");
    assert!(told["bytes"].as_u64().unwrap() <= 60 * 1024, "{told}");
    assert_eq!(told["askedAgain"], json!(vec!["/console/"; 5]), "{told}");
    assert_eq!(told["filtered"], "#/jobs?label=customer%3Dacme", "{told}");
    assert_eq!(told["beside"], json!([0, 0]), "beside the form: {told}");
    for (view, most) in READ {
        assert_eq!(
            told["read"][view],
            json!(most),
            "{view}: {:#}",
            told["read"]
        );
    }
    assert_eq!(told["late"][1], "done", "{told}");
    assert_eq!(told["newKey"], json!([]), "{told}");
    assert_eq!(told["hooks"], json!(["local"]), "{told}");
    assert_eq!(told["waterfall"], 6, "the queue and five nodes: {told}");
    assert_eq!(told["again"], json!({"name": "first", "customer": "acme"}));
    assert!(
        told["failure"].as_str().unwrap().contains("out_of_memory"),
        "{told}"
    );
    assert_eq!(told["askedWhileHidden"], 0, "{told}");
    assert_eq!(told["focusReturns"], "output", "{told}");
    assert_eq!(told["needed"], "field-image", "{told}");
    for secret in ["secret", "ownSecret"] {
        assert_eq!(told[secret], "whsec_", "{told}");
    }
    let no_json = told["no_json"].as_str().unwrap();
    assert!(no_json.starts_with("This is no JSON"), "{no_json}");
    assert_eq!(told["leaked"], false, "a secret is shown once: {told}");
    assert_eq!(told["price"], "A call costs $0.00.", "{told}");
    let attempt = told["attempt"].as_str().unwrap();
    let expected = "provider_timeout (the partner said 504) after 7.00 s: it took too long";
    assert!(attempt.ends_with(expected), "{attempt}");
    assert_eq!(told["holds"], json!([["PUT", 204], ["DELETE", 204]]));
    let why = told["why"].as_str().unwrap();
    assert!(why.starts_with("local runs 1 of at most"), "{why}");
    assert_eq!(told["withdrawn"], json!([["easel/square", "withdrawn"]]));
    let settings = told["settings"].as_str().unwrap();
    assert!(
        settings.contains("token") && !settings.contains(key),
        "{settings}"
    );
    assert_eq!(receivers.taken("/takes/console").len(), 1);
    assert_eq!(told["focusAfterRemoval"], "Choose a file for image");
    assert_eq!(told["disabled"], true, "the file stands for the text");
    assert_eq!(told["scaled"], json!([512, 128]), "{told}");
    assert_eq!(told["sent"], true, "the file goes as a data URL: {told}");
    assert_eq!(told["code"], json!([true, true, true]), "{told}");
    assert!(
        told["answer"].as_str().unwrap().starts_with("Answer 200"),
        "{told}"
    );
}

/// Publishes a workflow of the examples, and again with another size.
async fn publish_twice(data: &Path) {
    let example = std::fs::read_to_string(root().join("examples/thumbnail.json")).unwrap();
    let mut graph: Value = serde_json::from_str(&example).unwrap();
    let file = data.join("square.json");
    for size in [96, 128] {
        graph["2"]["inputs"]["width"] = json!(size);
        std::fs::write(&file, graph.to_string()).unwrap();
        let words = ["model", "publish", file.to_str().unwrap()];
        let flags = [
            "--name",
            "square",
            "--price",
            "2",
            "--input",
            "width=2.width",
        ];
        let published = operate(data, words.iter().chain(&flags)).await;
        assert_eq!(published.code, 0, "{}", published.stderr);
    }
}

//! The receivers of the page for receivers, run as they stand there.

use std::process::Stdio;

use it::{Launch, Server, operate, root, skipped};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// The program in the page behind the mark of a language.
fn program(language: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/WEBHOOKS.md")).unwrap();
    let mark = format!("<!-- verified: {language} -->\n```{language}\n");
    let (_, rest) = page.split_once(&mark).unwrap();
    rest.split("```").next().unwrap().to_owned()
}

/// Runs a receiver, sends it tests from a real server, and checks that it takes them and refuses what is not signed.
async fn takes_what_is_signed_alone(interpreter: &str, file: &str, language: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join(file);
    std::fs::write(&script, program(language)).unwrap();
    // A free port; the receiver binds it a moment later.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let data = folder.path().join("data");
    let host = format!("127.0.0.1:{port}");
    let launch = Launch {
        arguments: vec!["--webhook-private-hosts".into(), host.clone().into()],
        ..Launch::of("workflow-server")
    };
    let server = Server::launch(&data, &launch).await.unwrap();
    let url = format!("http://{host}/hooks");
    let add = [
        "webhook",
        "add",
        "local",
        "--url",
        &url,
        "--events",
        "job.ended",
    ];
    let added = operate(&data, add).await;
    let id = added.stderr.split(' ').nth(1).unwrap().to_owned();
    let mut receiver = Command::new(interpreter)
        .arg(&script)
        .env("WEBHOOK_SECRET", added.stdout.trim())
        .env("PORT", port.to_string())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
    let listening = lines.next_line().await.unwrap().unwrap();
    assert!(listening.starts_with("listening"), "{listening}");
    operate(&data, ["webhook", "test", &id]).await;
    let told = lines.next_line().await.unwrap().unwrap();
    assert!(
        told.starts_with("webhook.test") && told.contains(&id),
        "{told}"
    );

    // The secret of another webhook: the message is well formed, and not from here.
    let forged = operate(&data, add).await;
    let forger = forged.stderr.split(' ').nth(1).unwrap().to_owned();
    operate(&data, ["webhook", "test", &forger]).await;
    let refused = loop {
        let shown = operate(&data, ["webhook", "deliveries", &forger, "--json"]).await;
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        if shown[0]["attempts"] == 1 {
            break shown[0].clone();
        }
    };
    assert_eq!(
        (&refused["status"], &refused["state"]),
        (&401.into(), &"waiting".into())
    );
    drop(server);
}

#[tokio::test]
async fn the_receiver_in_python_takes_what_is_signed() {
    takes_what_is_signed_alone("python3", "receiver.py", "python").await;
}

/// Whether an interpreter is a Node that runs TypeScript as it is.
async fn runs_typescript(interpreter: &str) -> bool {
    let asked = Command::new(interpreter).arg("--version").output().await;
    let Ok(told) = asked else { return false };
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let numbers = told.trim_start_matches('v').split('.');
    let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
    numbers.as_slice() >= [22, 18].as_slice()
}

#[tokio::test]
async fn the_receiver_in_typescript_takes_what_is_signed() {
    let node = std::env::var("EASEL_NODE").unwrap_or_else(|_| "node".to_owned());
    if !runs_typescript(&node).await {
        assert!(
            std::env::var_os("CI").is_none(),
            "EASEL_NODE must name a Node 22.18 or later where nothing may be skipped"
        );
        skipped(
            "the_receiver_in_typescript_takes_what_is_signed",
            "neither EASEL_NODE nor node is a Node 22.18 or later; `.ci/run` installs one",
        );
        return;
    }
    takes_what_is_signed_alone(&node, "receiver.ts", "typescript").await;
}

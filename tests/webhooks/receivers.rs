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

#[tokio::test]
async fn the_receiver_in_typescript_takes_what_is_signed() {
    let version = Command::new("node").arg("--version").output().await;
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let is_new = version.is_ok_and(|version| {
        let mut numbers = version
            .trim_start_matches('v')
            .split('.')
            .map(str::parse::<u32>);
        let (major, minor) = (numbers.next(), numbers.next());
        matches!((major, minor), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (22, 18))
    });
    if !is_new {
        skipped(
            "the_receiver_in_typescript_takes_what_is_signed",
            "no Node 22.18 or later is installed, which runs TypeScript as it is",
        );
        return;
    }
    takes_what_is_signed_alone("node", "receiver.ts", "typescript").await;
}

//! A process without descriptors: nothing spins, nothing is given up for good, and closing connections is all that heals it
//! takes.

use std::time::Duration;

use it::{Answer, Connection, Form, Request, Server, process};
use tokio::process::Command;

/// Few enough to be used up by a test, and enough to start.
const DESCRIPTORS: u32 = 64;

fn upload(content: &[u8]) -> Request {
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
        .file("file", "a.txt", content);
    Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .header("Idempotency-Key", "key")
        .body(form.body())
}

/// The value of a metric without labels.
fn metric(page: &Answer, name: &str) -> u64 {
    let text = page.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name}: {text}"));
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn a_server_without_descriptors_heals_when_it_has_some_again() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // How full this machine's disk is must not matter.
    command.env("EASEL_MIN_FREE", "0B");
    command
        .args([
            "-c",
            &format!("ulimit -n {DESCRIPTORS} && exec \"$@\""),
            "sh",
        ])
        .arg(process::binary());
    // Without a bound below its descriptors it meets their end.
    let arguments = ["--max-connections", "1000"];
    let server = Server::start_as(command, data.path(), arguments)
        .await
        .unwrap();

    let mut kept = Connection::open(server.address).await.unwrap();
    let ask = Request::get("/health").bytes(server.address);
    kept.write(&ask).await.unwrap();
    assert_eq!(kept.answer(false).await.unwrap().status, 200);
    let mut crowd = Vec::new();
    for _ in 0..2 * DESCRIPTORS {
        // Those that are not accepted wait where the system keeps them.
        crowd.push(Connection::open(server.address).await.unwrap());
    }
    // The last of those that were accepted took the last descriptor: there is none for a file.
    let refused = loop {
        kept.write(&upload(b"content").bytes(server.address))
            .await
            .unwrap();
        let answer = kept.answer(false).await.unwrap();
        if answer.status != 201 && answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (500, "upstream_error")
    );

    drop(crowd);
    let page = loop {
        if let Ok(page) = server.send(&Request::get("/metrics")).await
            && page.status == 200
        {
            break page;
        }
    };
    let faults = metric(&page, "easel_http_accept_faults_total ");
    // Tens of pauses at most, where a loop without them would have made thousands.
    assert!((1..100).contains(&faults), "{faults}");
    // What is left of the crowd is still accepted and closed: it may take the last descriptor once more.
    let healed = async {
        while ![200, 201].contains(&server.send(&upload(b"content")).await.unwrap().status) {}
        while server.send(&Request::get("/ready")).await.unwrap().status != 200 {}
    };
    tokio::time::timeout(Duration::from_secs(60), healed)
        .await
        .expect("it heals");
    assert!(server.terminate().await.unwrap().success());
}

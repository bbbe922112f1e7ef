//! Uploads whose bytes come slowly or never: they keep nobody else from uploading, and leave nothing behind.

use std::path::Path;
use std::time::Duration;

use it::{Answer, Connection, Form, Request, Server, operate};

/// More than may be under way in all, of one account.
const TRICKLES: usize = 600;

/// Enough that a file of it lies in `tmp`.
const BATCH: usize = 600_000;

/// A test that hangs fails.
const LONG: Duration = Duration::from_secs(60);

async fn key(data: &Path, account: &str) -> String {
    let added = operate(data, ["account", "add", account]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    let key = operate(data, ["key", "add", account]).await;
    key.stdout.trim_end().to_owned()
}

fn upload(key: &str, bytes: &[u8]) -> Request {
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
        .file("file", "a.txt", bytes);
    Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .header("Authorization", &format!("Bearer {key}"))
        .body(form.body())
}

fn older_upload(key: &str) -> Request {
    let form = Form::new().file("image", "a.txt", b"text");
    Request::new("POST", "/api/upload/image")
        .header("Content-Type", &Form::content_type())
        .header("X-API-Key", key)
        .body(form.body())
}

/// Requests that are under way, the one that asks included.
async fn in_flight(server: &Server) -> usize {
    let page: Answer = server.send(&Request::get("/metrics")).await.unwrap();
    let text = page.text();
    let name = "easel_http_requests_in_flight ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{text}"))
        .trim()
        .parse()
        .unwrap()
}

fn temporary_files(data: &Path) -> usize {
    std::fs::read_dir(data.join("tmp")).unwrap().count()
}

#[tokio::test]
async fn uploads_of_one_account_that_trickle_keep_nobody_else_waiting() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--require-credentials"]);
    let server = server.await.unwrap();
    let (hostile, other) = (key(data.path(), "a").await, key(data.path(), "b").await);

    let mut trickles = Vec::new();
    for n in 0..TRICKLES {
        // Every tenth has sent enough for a file.
        let bytes = vec![b'x'; if n % 10 == 0 { BATCH } else { 100 }];
        let whole = upload(&hostile, &bytes).bytes(server.address);
        let mut connection = Connection::open(server.address).await.unwrap();
        // What the server does not read stays in the buffers of the system, or is not written at all.
        let begun = &whole[..whole.len() - 50];
        let write = connection.write(begun);
        let _ = tokio::time::timeout(Duration::from_millis(200), write).await;
        trickles.push(connection);
    }
    while in_flight(&server).await <= TRICKLES {}

    for request in [upload(&other, b"mine"), older_upload(&other)] {
        let answer = tokio::time::timeout(LONG, server.send(&request)).await;
        let answer = answer.expect("nobody else waits").unwrap();
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    }
    let files = temporary_files(data.path());
    assert!((1..=32).contains(&files), "{files} files of one account");

    drop(trickles);
    let gone = async { while in_flight(&server).await > 1 || temporary_files(data.path()) > 0 {} };
    let gone = tokio::time::timeout(LONG, gone).await;
    gone.expect("nothing half-written stays");
    let answer = server.send(&upload(&hostile, b"mine")).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert!(server.terminate().await.unwrap().success());
}

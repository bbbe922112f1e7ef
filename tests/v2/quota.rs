//! What one account may store and submit, on the real program: its own bound stops it and nobody else.

use serde_json::{Value, json};

use super::accounts::{account, closed, run, send, start, submit, upload};
use super::tiny_graph;
use it::{Answer, Request};

/// A refusal for the bytes that are stored.
fn assert_full(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.error_code().as_str()),
        (413, "storage_quota_exceeded"),
        "{}",
        answer.text()
    );
}

/// A graph with a text, which counts with it.
fn long_graph(bytes: usize) -> Value {
    let mut graph = tiny_graph(1);
    let inputs = json!({"value": "x".repeat(bytes)});
    graph["text"] = json!({"class_type": "PrimitiveString", "inputs": inputs});
    graph
}

#[tokio::test]
async fn stored_bytes_are_bounded_by_account_and_counted_across_a_kill() {
    let (data, mut server) = closed().await;
    let (key, other) = (
        account(data.path(), "acme").await,
        account(data.path(), "other").await,
    );
    run(data.path(), "account tier acme --stored-bytes 10KiB").await;
    let text = |letter: &str| letter.repeat(6 << 10);
    let first = upload(&server, &key, "a.txt", &text("a")).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let refused = upload(&server, &key, "b.txt", &text("b")).await;
    assert_full(&refused);
    assert_eq!(
        refused.json()["error"]["details"]["limit_bytes"],
        10 << 10,
        "{}",
        refused.text()
    );
    assert_full(&submit(&server, &key, long_graph(6 << 10)).await);

    server.kill().await.unwrap();
    server = start(data.path()).await;
    assert_full(&upload(&server, &key, "b.txt", &text("b")).await);
    // Nobody else has less, whatever the same bytes are called there.
    for letter in ["a", "b", "c"] {
        let stored = upload(&server, &other, &format!("{letter}.txt"), &text(letter)).await;
        assert_eq!(stored.status, 201, "{}", stored.text());
    }
    assert_eq!(
        submit(&server, &other, long_graph(20 << 10)).await.status,
        201
    );

    let id = first.json()["id"].as_str().unwrap().to_owned();
    let delete = Request::new("DELETE", &format!("/api/v2/assets/{id}"));
    assert_eq!(send(&server, &key, delete).await.status, 204);
    assert_eq!(upload(&server, &key, "b.txt", &text("b")).await.status, 201);
    run(data.path(), "account tier acme --stored-bytes default").await;
    assert_eq!(upload(&server, &key, "c.txt", &text("c")).await.status, 201);
}

#[tokio::test]
async fn submissions_are_counted_by_account() {
    let (data, server) = closed().await;
    let (key, other) = (
        account(data.path(), "acme").await,
        account(data.path(), "other").await,
    );
    run(data.path(), "account tier acme --submissions 2/1h").await;
    for color in [1, 2] {
        assert_eq!(submit(&server, &key, tiny_graph(color)).await.status, 201);
    }
    let refused = submit(&server, &key, tiny_graph(3)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (429, "rate_limited"),
        "{}",
        refused.text()
    );
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&seconds), "{seconds}");
    // The older API counts the same submissions.
    let prompt = Request::post_json("/api/prompt", &json!({ "prompt": tiny_graph(4) }));
    let refused = send(&server, &key, prompt).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    for color in 5..9 {
        assert_eq!(submit(&server, &other, tiny_graph(color)).await.status, 201);
    }
}

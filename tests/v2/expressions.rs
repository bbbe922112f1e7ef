//! Regular expressions that never come to an end by themselves: neither a job nor the server is held by them.

use it::{Request, Server};
use serde_json::{Value, json};

use super::jobs::{events_of, look, submit};
use super::tiny_graph;

fn matches(pattern: &str, text: &str) -> Value {
    json!({
        "1": {"class_type": "RegexMatch", "inputs": {
            "string": text, "regex_pattern": pattern, "case_insensitive": false, "multiline": false, "dotall": false,
        }},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    })
}

/// A server with one thread for nodes and one slot for jobs.
async fn narrow(data: &std::path::Path) -> Server {
    let flags = ["--threads", "1", "--job-slots", "1"];
    Server::start_with(data, &flags).await.unwrap()
}

async fn ended(server: &Server, graph: &Value) -> Value {
    let job = submit(server, &json!({"workflow": graph})).await;
    events_of(server, &job).await;
    look(server, &job).await
}

#[tokio::test]
async fn an_endless_expression_fails_its_node_and_says_the_bound() {
    let data = tempfile::tempdir().unwrap();
    let server = narrow(data.path()).await;
    let looks_ahead = "a".repeat(900_000) + "x";
    let nested = "a".repeat(500_000);
    for (pattern, text, words) in [
        ("(?:(?=.*x)a)*b", &looks_ahead, "within 134217728 steps"),
        ("(?:(?:a?){200}){200}b", &nested, "may be at most 268435456"),
    ] {
        let job = ended(&server, &matches(pattern, text)).await;
        let error = &job["error"];
        assert_eq!(job["status"], json!("failed"), "{pattern}");
        assert_eq!(error["code"], json!("node_execution_error"), "{error}");
        assert_eq!(error["node_id"], json!("1"), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    // Where nothing matches at all, it is decided.
    let job = ended(&server, &matches("(?:(?=.*x)a)*b", &"a".repeat(900_000))).await;
    assert_eq!(job["status"], json!("succeeded"), "{job}");
}

#[tokio::test]
async fn a_job_that_is_canceled_in_an_expression_leaves_the_thread_to_the_next() {
    let data = tempfile::tempdir().unwrap();
    let server = narrow(data.path()).await;
    let text = "a".repeat(900_000) + "x";
    let graph = matches("(?:(?=.*x)a)*b", &text);
    let job = submit(&server, &json!({"workflow": graph})).await;
    let cancel = format!("/api/v2/jobs/{}/cancel", job["id"].as_str().unwrap());
    let answer = server.send(&Request::post_json(&cancel, &json!({}))).await;
    assert!(answer.unwrap().status < 300);
    events_of(&server, &job).await;
    assert_eq!(look(&server, &job).await["status"], json!("canceled"));
    let next = ended(&server, &tiny_graph(1)).await;
    assert_eq!(next["status"], json!("succeeded"), "{next}");
    let metrics = server.send(&Request::get("/metrics")).await.unwrap().text();
    let gauges = [
        "easel_engine_threads_abandoned 0",
        "easel_engine_threads_stuck 0",
    ];
    for gauge in gauges {
        assert!(metrics.lines().any(|line| line == gauge), "{metrics}");
    }
}

#[tokio::test]
async fn texts_do_not_grow_beyond_their_bound() {
    let data = tempfile::tempdir().unwrap();
    let server = narrow(data.path()).await;
    let half = "x".repeat(600_000);
    let many = "x".repeat(1_000);
    for (class, inputs) in [
        (
            "StringConcatenate",
            json!({"string_a": half, "string_b": half, "delimiter": ""}),
        ),
        (
            "StringReplace",
            json!({"string": many, "find": "x", "replace": "y".repeat(2_000)}),
        ),
        (
            "RegexReplace",
            json!({"string": many, "regex_pattern": "x", "replace": "y".repeat(2_000)}),
        ),
        (
            "CaseConverter",
            json!({"string": "ﬁ".repeat(200_000) + &"ΐ".repeat(200_000), "mode": "UPPERCASE"}),
        ),
    ] {
        let graph = json!({
            "1": {"class_type": class, "inputs": inputs},
            "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
        });
        let job = ended(&server, &graph).await;
        let message = job["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("a text may have"), "{class}: {job}");
        assert!(message.contains("1048576"), "{class}: {message}");
    }
}

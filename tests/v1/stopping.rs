//! What stops a job, and what must not.

use it::{Request, Server, Socket, operate};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ends, get, listen, post, slow_graph, submit};

/// A job that runs, and a socket that hears of it.
async fn running(server: &Server) -> (String, Socket) {
    let mut socket = listen(server).await;
    let id = submit(server, &slow_graph()).await;
    socket
        .until(|message| message.kind() == "execution_start")
        .await
        .unwrap();
    (id, socket)
}

async fn status(server: &Server, id: &str) -> Value {
    get(server, &format!("/api/job/{id}/status")).await["status"].clone()
}

#[tokio::test]
async fn an_interrupt_whose_name_did_not_come_whole_stops_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let (id, mut socket) = running(&server).await;

    let name = "11111111-2222-4333-8444-555555555555";
    let long = json!({"pad": "x".repeat(70_000), "prompt_id": name});
    let answer = post(&server, "/api/interrupt", &long).await;
    assert_eq!(answer.status, 413, "{}", answer.text());

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let half = format!(
        "POST /api/interrupt HTTP/1.1\r\nHost: {}\r\nContent-Length: 54\r\n\r\n{{\"prompt_id\": \"11111111",
        server.address
    );
    stream.write_all(half.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    // Whatever it answers, it is done with the request then.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;

    let deep = format!(
        "{{\"a\": {}{}, \"prompt_id\": \"{name}\"}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    let deep = Request::new("POST", "/api/interrupt").body(deep);
    assert_eq!(server.send(&deep).await.unwrap().status, 404);
    assert_eq!(status(&server, &id).await, "executing");

    let named = post(&server, "/api/interrupt", &json!({"prompt_id": id})).await;
    assert_eq!(named.status, 200);
    socket.until(ends).await.unwrap();
    assert_eq!(status(&server, &id).await, "cancelled");
}

#[tokio::test]
async fn a_job_that_is_named_twice_is_told_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let (id, mut socket) = running(&server).await;
    let delete = json!({"delete": [id, id, id.to_uppercase()]});
    let told = post(&server, "/api/queue", &delete).await.json();
    assert_eq!(told, json!({"deleted": [id], "cleared": false}));
    socket.until(ends).await.unwrap();
}

#[tokio::test]
async fn memory_is_freed_by_nobody_and_the_page_hears_no_failure() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for target in ["/api/free", "/free"] {
        let body = json!({"unload_models": true, "free_memory": true});
        assert_eq!(post(&server, target, &body).await.status, 200, "{target}");
    }
}

#[tokio::test]
async fn an_interrupt_without_a_name_leaves_what_waits() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    // Nothing of this account runs, whatever is free.
    operate(data.path(), ["account", "add", "acme"]).await;
    let waits = ["account", "tier", "acme", "--concurrent-jobs", "0"];
    operate(data.path(), waits).await;
    let key = operate(data.path(), ["key", "add", "acme"]).await.stdout;
    let ask = async |request: Request| {
        let answer = server.send(&request.header("X-API-Key", key.trim())).await;
        answer.unwrap()
    };
    let body = json!({"prompt": super::tiny_graph(1)});
    let waiting = ask(Request::post_json("/api/prompt", &body)).await.json();
    let waiting = waiting["prompt_id"].as_str().unwrap().to_owned();
    let interrupt = Request::new("POST", "/api/interrupt");
    assert_eq!(ask(interrupt).await.status, 200);
    let told = ask(Request::get(&format!("/api/job/{waiting}/status"))).await;
    assert_eq!(told.json()["status"], "queued_waiting");
    let told = ask(Request::get(&format!("/api/jobs/{waiting}"))).await;
    assert_eq!(told.json()["queue_reason"], "concurrency_limit");
}

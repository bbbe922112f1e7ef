//! What stops a job, and what must not.

use it::{Request, Server, Socket};
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

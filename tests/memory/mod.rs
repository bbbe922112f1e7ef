//! What one account can make a server keep in memory: bounded, and never in the way of another account.
//!
//! Figures are those of a process of its own, which the system counts.

mod bodies;
mod lists;
mod router;
mod trees;

use std::path::Path;

use it::{Answer, Connection, Request, Server, operate};
use serde_json::{Value, json};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A server with two accounts and a key of each.
struct Fixture {
    data: TempDir,
    server: Server,
    hostile: String,
    other: String,
}

impl Fixture {
    async fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let (hostile, other) = (
            account(data.path(), "hostile").await,
            account(data.path(), "other").await,
        );
        let flags = ["--require-credentials"];
        let server = Server::start_with(data.path(), flags).await.unwrap();
        // What a first request brings into memory is no part of any figure.
        let it = Self {
            data,
            server,
            hostile,
            other,
        };
        it.other_gets_on().await;
        it
    }

    async fn operate(&self, line: &str) {
        run(self.data.path(), line).await;
    }

    fn of(&self, key: &str, request: Request) -> Request {
        request.header("Authorization", &format!("Bearer {key}"))
    }

    async fn hostile(&self, request: Request) -> Answer {
        let request = self.of(&self.hostile, request);
        self.server.send(&request).await.unwrap()
    }

    /// The other account submits a graph, and is served.
    async fn other_gets_on(&self) {
        let body = json!({"workflow": tiny_graph()});
        let request = Request::post_json("/api/v2/jobs", &body);
        let answer = self.server.send(&self.of(&self.other, request)).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    /// By how many bytes the memory grows at most while `work` goes on.
    async fn growth(&self, work: impl Future<Output = ()>) -> u64 {
        self.server.forget_peak().unwrap();
        let before = self.server.resident_bytes();
        work.await;
        self.server.peak_bytes().saturating_sub(before)
    }
}

/// A command that succeeds; its standard output.
async fn run(data: &Path, line: &str) -> String {
    let done = operate(data, line.split(' ')).await;
    assert_eq!(done.code, 0, "{line}: {}", done.stderr);
    done.stdout.trim().to_owned()
}

/// A new account and a key of it.
async fn account(data: &Path, id: &str) -> String {
    run(data, &format!("account add {id}")).await;
    run(data, &format!("key add {id}")).await
}

fn tiny_graph() -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "tiny"}},
    })
}

/// A graph of one node that has so many zeros for an input.
fn zeros(count: usize) -> String {
    let zeros = format!("[{}0]", "0,".repeat(count - 1));
    format!(r#"{{"1":{{"class_type":"SaveImage","inputs":{{"images":{zeros}}}}}}}"#)
}

fn post(path: &str, body: String) -> Request {
    Request::new("POST", path)
        .header("Content-Type", "application/json")
        .body(body)
}

/// The head of a request whose body will have so many bytes.
fn head(path: &str, length: usize) -> Request {
    Request::new("POST", path)
        .header("Content-Type", "application/json")
        .header("Content-Length", &length.to_string())
}

/// A connection on which a request has begun: its head and so many bytes of its body are written.
async fn begun(server: &Server, head: &Request, bytes: usize) -> Connection {
    let mut connection = Connection::open(server.address).await.unwrap();
    connection.write(&head.bytes(server.address)).await.unwrap();
    connection.write(&vec![b' '; bytes]).await.unwrap();
    connection
}

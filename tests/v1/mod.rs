//! The older v1 API, its socket, and the web page of its users.

mod accounts;
mod api;
mod document;
mod files;
mod names;
pub(crate) mod page;
mod recorded;
mod refusals;
mod sessions;
mod socket;
mod stopping;

use it::{Form, Message, Request, Server, Socket};
use serde_json::{Value, json};

/// `EmptyImage -> SaveImage`, told apart by its colour.
fn tiny_graph(color: u32) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": color}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "tiny"}},
    })
}

/// A graph that runs for as long as a test may want to stop it: many nodes, none of them long.
pub(crate) fn slow_graph() -> Value {
    blurs(398)
}

/// A picture that is blurred so many times, one after the other: some 30 ms each.
pub(crate) fn blurs(count: usize) -> Value {
    let size = json!({"width": 1024, "height": 1024, "batch_size": 1, "color": 1});
    let mut graph = json!({"1": {"class_type": "EmptyImage", "inputs": size}});
    for n in 2..count + 2 {
        let inputs = json!({"image": [(n - 1).to_string(), 0], "blur_radius": 31, "sigma": 1.0});
        graph[n.to_string()] = json!({"class_type": "ImageBlur", "inputs": inputs});
    }
    let inputs = json!({"images": [(count + 1).to_string(), 0], "filename_prefix": "slow"});
    graph[(count + 2).to_string()] = json!({"class_type": "SaveImage", "inputs": inputs});
    graph
}

/// Submits a graph; answers the job's id.
async fn submit(server: &Server, graph: &Value) -> String {
    let body = json!({"prompt": graph, "client_id": "c"});
    let answer = server
        .send(&Request::post_json("/api/prompt", &body))
        .await
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["prompt_id"].as_str().unwrap().to_owned()
}

async fn get(server: &Server, target: &str) -> Value {
    let answer = server.send(&Request::get(target)).await.unwrap();
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer.json()
}

async fn post(server: &Server, target: &str, body: &Value) -> it::Answer {
    server
        .send(&Request::post_json(target, body))
        .await
        .unwrap()
}

async fn listen(server: &Server) -> Socket {
    Socket::open(server.address, Request::get("/ws?clientId=c"))
        .await
        .unwrap()
}

/// Whether this message ends a job: nothing of it is executing any more.
fn ends(message: &Message) -> bool {
    message.kind() == "executing" && message.data()["node"].is_null()
}

/// Submits a graph and waits for its end; answers the job's id.
async fn run(server: &Server, graph: &Value) -> String {
    let mut socket = listen(server).await;
    socket.next().await.unwrap();
    let id = submit(server, graph).await;
    socket.until(ends).await.unwrap();
    id
}

/// Uploads a file; answers what the server says of it.
async fn upload(server: &Server, name: &str, bytes: &[u8]) -> Value {
    let form = Form::new()
        .file("image", name, bytes)
        .field("type", "input");
    let request = Request::new("POST", "/upload/image")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let answer = server.send(&request).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The photograph of the examples.
fn photo() -> Vec<u8> {
    std::fs::read(it::root().join("examples/photo.png")).unwrap()
}

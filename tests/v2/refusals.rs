//! Every malformed request gets its status and an envelope that says what to do; nothing answers plain text or 5xx.

use std::net::SocketAddr;

use it::{Answer, Connection, Form, Request, Server};
use serde_json::{Value, json};

use super::tiny_graph;

/// What every answer of this family carries, refusals included.
fn check_envelope(name: &str, answer: &Answer) {
    let id = answer
        .header("x-service-request-id")
        .unwrap_or_else(|| panic!("{name}: no request id"));
    assert_eq!(answer.header("x-comfy-request-id"), Some(id), "{name}");
    assert_eq!(id.len(), 36, "{name}: {id} is no UUID");
    if answer.status >= 400 && !answer.body.is_empty() {
        let content_type = answer.header("content-type").unwrap_or_default();
        assert!(
            content_type.starts_with("application/json"),
            "{name}: {content_type}: {}",
            answer.text()
        );
        let error = &answer.json()["error"];
        assert!(error["code"].is_string(), "{name}: {}", answer.text());
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| message.len() > 5),
            "{name}: {}",
            answer.text()
        );
    }
}

async fn check(
    server: SocketAddr,
    name: &str,
    request: Request,
    status: u16,
    code: &str,
) -> Answer {
    let answer = request
        .send(server)
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    check_envelope(name, &answer);
    assert_eq!(
        (answer.status, answer.error_code().as_str()),
        (status, code),
        "{name}: {}",
        answer.text()
    );
    answer
}

fn submit(body: &str) -> Request {
    Request::new("POST", "/api/v2/jobs")
        .header("Content-Type", "application/json")
        .body(body)
}

fn submit_with(field: &str, value: Value) -> Request {
    let mut body = json!({"workflow": tiny_graph(1)});
    body[field] = value;
    Request::post_json("/api/v2/jobs", &body)
}

fn upload(form: Form) -> Request {
    Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body())
}

fn good_form() -> Form {
    Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
}

mod requests;
mod submissions;
mod uploads;

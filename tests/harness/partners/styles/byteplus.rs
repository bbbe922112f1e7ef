//! BytePlus: images at once, videos as tasks, one set of error codes.

use serde_json::json;

use super::{ODD, at_once, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["api", "v3", "images", "generations"]) => {
            let usual = format!(
                r#"{{"model":"seedream","created":1763760000, {ODD},"data":[{{"url":"https://ark.example/a.jpeg","size":"2048x2048"}}],"usage":{{"generated_images":1}}}}"#
            );
            at_once(desk, request, "application/json", usual, otherwise)
        }
        ("POST", ["api", "v3", "contents", "generations", "tasks"]) => {
            submit(desk, request, otherwise, |id| {
                Reply::value(200, &json!({"id": id}))
            })
        }
        ("GET", ["api", "v3", "contents", "generations", "tasks", id]) => {
            (Step::Poll, look(desk, id))
        }
        ("DELETE", ["api", "v3", "contents", "generations", "tasks", id]) => {
            desk.cancel(id);
            (Step::Cancel, Reply::json(200, "{}"))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let failed = |code: &str| json!({"id": id, "status": "failed", "error": {"code": code, "message": "it failed"}});
    match desk.look(id) {
        None => error(404, "ResourceNotFound", "no such task"),
        Some(View::Queued) => Reply::value(200, &json!({"id": id, "status": "queued"})),
        Some(View::Running) => Reply::value(200, &json!({"id": id, "status": "running"})),
        Some(View::Cancelled) => Reply::value(200, &json!({"id": id, "status": "cancelled"})),
        Some(View::Failed) => Reply::value(200, &failed("InternalServiceError")),
        Some(View::Moderated) => Reply::value(200, &failed("OutputVideoSensitiveContentDetected")),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"id":"{id}","status":"succeeded", {ODD}, "content":{{"video_url":"https://ark.example/{id}.mp4"}},"usage":{{"completion_tokens":108900}}}}"#
            );
            done(desk, id, body)
        }
    }
}

fn otherwise(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Moderate | Outcome::RefusePolicy => {
            error(400, "InputTextSensitiveContentDetected", "sensitive input")
        }
        Outcome::RefuseFunds => error(403, "AccountOverdueError", "the account is overdue"),
        Outcome::RefuseInput => error(400, "InvalidParameter", "size is not valid"),
        Outcome::Succeed | Outcome::Fail => error(500, "InternalServiceError", "internal"),
    }
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"error": {"code": code, "message": message, "param": "", "type": "e"}}),
    )
}

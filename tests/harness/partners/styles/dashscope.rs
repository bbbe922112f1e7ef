//! DashScope: a task only if a header asks for one; its state is inside `output`.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["api", "v1", "services", "aigc", _, _]) => {
            if request.header("x-dashscope-async") != Some("enable") {
                let body = error(403, "AccessDenied", "asynchronous calls only");
                return (Step::Submit, body);
            }
            submit(desk, request, refused, |id| {
                Reply::value(
                    200,
                    &json!({"output": {"task_status": "PENDING", "task_id": id}, "request_id": "r"}),
                )
            })
        }
        ("GET", ["api", "v1", "tasks", id]) => (Step::Poll, look(desk, id)),
        ("POST", ["api", "v1", "tasks", id, "cancel"]) => {
            desk.cancel(id);
            (Step::Cancel, Reply::value(200, &json!({"request_id": "r"})))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let failed = |code: &str| json!({"request_id": "r", "output": {"task_id": id, "task_status": "FAILED", "code": code, "message": "it failed"}});
    let state =
        |state: &str| json!({"request_id": "r", "output": {"task_id": id, "task_status": state}});
    match desk.look(id) {
        None => Reply::value(200, &state("UNKNOWN")),
        Some(View::Queued) => Reply::value(200, &state("PENDING")),
        Some(View::Running) => Reply::value(200, &state("RUNNING")),
        Some(View::Cancelled) => Reply::value(200, &state("CANCELED")),
        Some(View::Failed) => Reply::value(200, &failed("InternalError.Algo")),
        Some(View::Moderated) => Reply::value(200, &failed("DataInspectionFailed")),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"request_id":"r", {ODD}, "output":{{"task_id":"{id}","task_status":"SUCCEEDED","results":[{{"url":"https://dashscope-result.oss/{id}.png"}}]}},"usage":{{"image_count":1}}}}"#
            );
            done(desk, id, body)
        }
    }
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => error(
            400,
            "Arrearage",
            "Access denied, account not in good standing",
        ),
        Outcome::RefusePolicy => error(
            400,
            "DataInspectionFailed",
            "Input data may contain inappropriate content.",
        ),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            error(400, "InvalidParameter", "size must be 1024*1024")
        }
    }
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"code": code, "message": message, "request_id": "r"}),
    )
}

//! Kling: everything in an envelope with a code, the task inside `data`.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path.len() == 3 && path[0] == "v1" => {
            submit(desk, request, refused, |id| task(id, "submitted", ""))
        }
        ("GET", path) if path.len() == 4 && path[0] == "v1" => (Step::Poll, look(desk, path[3])),
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    match desk.look(id) {
        None => envelope(404, 1203, "The requested resource does not exist"),
        Some(View::Queued) => task(id, "submitted", ""),
        Some(View::Running) => task(id, "processing", ""),
        Some(View::Failed | View::Cancelled) => task(id, "failed", "Internal error"),
        Some(View::Moderated) => task(id, "failed", "Failure to pass the risk control system"),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"code":0,"message":"SUCCEED", {ODD}, "data":{{"task_id":"{id}","task_status":"succeed","task_result":{{"videos":[{{"id":"v","url":"https://cdn.klingai.com/{id}.mp4","duration":"5"}}]}}}}}}"#
            );
            done(desk, id, body)
        }
    }
}

fn task(id: &str, state: &str, message: &str) -> Reply {
    Reply::value(
        200,
        &json!({"code": 0, "message": "SUCCEED", "data": {"task_id": id, "task_status": state, "task_status_msg": message}}),
    )
}

fn envelope(status: u16, code: u32, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"code": code, "message": message, "request_id": "r"}),
    )
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => envelope(429, 1102, "Account balance not enough"),
        Outcome::RefusePolicy => {
            envelope(400, 1301, "Trigger the platform's content safety policy")
        }
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            envelope(400, 1201, "duration must be 5 or 10")
        }
    }
}

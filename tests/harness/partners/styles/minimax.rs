//! MiniMax: submission, state and file are three steps, and every error comes inside a 200.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path == ["v1", "video_generation"] => {
            submit(desk, request, refused, |id| {
                Reply::value(
                    200,
                    &json!({"task_id": id, "base_resp": base(0, "success")}),
                )
            })
        }
        ("GET", path) if path == ["v1", "query", "video_generation"] => {
            let id = request.parameter("task_id").unwrap_or_default();
            (Step::Poll, look(desk, id))
        }
        ("GET", path) if path == ["v1", "files", "retrieve"] => {
            let file = request.parameter("file_id").unwrap_or_default();
            (Step::Result, retrieve(desk, file))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let mut code = (0, "success");
    let (state, file) = match desk.look(id) {
        None => return error(2013, "invalid params, task_id"),
        Some(View::Queued) => ("Queueing", String::new()),
        Some(View::Running) => ("Processing", String::new()),
        Some(View::Succeeded) => ("Success", format!("file-of-{id}")),
        Some(View::Failed | View::Cancelled) => {
            code = (1000, "unknown error");
            ("Fail", String::new())
        }
        Some(View::Moderated) => {
            code = (1027, "output new_sensitive");
            ("Fail", String::new())
        }
    };
    Reply::value(
        200,
        &json!({"task_id": id, "status": state, "file_id": file, "base_resp": base(code.0, code.1)}),
    )
}

fn retrieve(desk: &Desk, file: &str) -> Reply {
    let Some(id) = file.strip_prefix("file-of-") else {
        return error(2013, "invalid params, file_id");
    };
    let body = format!(
        r#"{{"file":{{"file_id":"{file}","bytes":5896337,"download_url":"https://public-cdn.minimax.io/{id}.mp4"}}, {ODD}, "base_resp":{{"status_code":0,"status_msg":"success"}}}}"#
    );
    done(desk, id, body)
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => error(1008, "insufficient balance"),
        Outcome::RefusePolicy => error(1026, "input new_sensitive"),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            error(2013, "invalid params, duration must be 6 or 10")
        }
    }
}

fn error(code: u32, message: &str) -> Reply {
    Reply::value(
        200,
        &json!({"task_id": "", "base_resp": base(code, message)}),
    )
}

fn base(code: u32, message: &str) -> serde_json::Value {
    json!({"status_code": code, "status_msg": message})
}

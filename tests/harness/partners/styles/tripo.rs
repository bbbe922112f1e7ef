//! Tripo: tasks inside `data`; refused content is `banned`.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["v2", "openapi", "task"]) => submit(desk, request, refused, |id| {
            Reply::value(200, &json!({"code": 0, "data": {"task_id": id}}))
        }),
        ("GET", ["v2", "openapi", "task", id]) => (Step::Poll, look(desk, id)),
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let state = match desk.look(id) {
        None => return error(404, 2001, "Task not found"),
        Some(View::Queued) => "queued",
        Some(View::Running) => "running",
        Some(View::Failed) => "failed",
        Some(View::Moderated) => "banned",
        Some(View::Cancelled) => "cancelled",
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"code":0, {ODD}, "data":{{"task_id":"{id}","status":"success","progress":100,"output":{{"pbr_model":"https://tripo-data.cdn/{id}.glb"}}}}}}"#
            );
            return done(desk, id, body);
        }
    };
    Reply::value(
        200,
        &json!({"code": 0, "data": {"task_id": id, "status": state, "progress": 0}}),
    )
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => error(403, 2010, "You do not have enough credits"),
        Outcome::RefusePolicy => error(400, 2008, "Input violates content policy"),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            error(400, 2002, "The task type is not supported")
        }
    }
}

fn error(status: u16, code: u32, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"code": code, "message": message, "suggestion": ""}),
    )
}

//! Runway: wants a version, answers with an id alone, and tells refusals by codes that begin with `SAFETY.`.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    if request.header("x-runway-version") != Some("2024-11-06") {
        let (step, _) = route(&mut desk.clone(), request);
        let body = json!({"error": "You must provide the X-Runway-Version header"});
        return (step, Reply::value(400, &body));
    }
    route(desk, request)
}

fn route(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path.len() == 2 && path[0] == "v1" => {
            submit(desk, request, refused, |id| {
                Reply::value(200, &json!({"id": id}))
            })
        }
        ("GET", path) if path.len() == 3 && path[1] == "tasks" => (Step::Poll, look(desk, path[2])),
        ("DELETE", path) if path.len() == 3 && path[1] == "tasks" => {
            desk.cancel(path[2]);
            (Step::Cancel, Reply::of(204, "text/plain", ""))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let failed = |code: &str| json!({"id": id, "status": "FAILED", "failure": "The task did not work out.", "failureCode": code});
    match desk.look(id) {
        None => Reply::value(404, &json!({"error": "Not found"})),
        Some(View::Queued) => Reply::value(200, &json!({"id": id, "status": "PENDING"})),
        Some(View::Running) => Reply::value(
            200,
            &json!({"id": id, "status": "RUNNING", "progress": 0.5}),
        ),
        Some(View::Cancelled) => Reply::value(200, &json!({"id": id, "status": "CANCELLED"})),
        Some(View::Failed) => Reply::value(200, &failed("INTERNAL.BAD_OUTPUT.CODE01")),
        Some(View::Moderated) => Reply::value(200, &failed("SAFETY.INPUT.TEXT")),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"id":"{id}", "status":"SUCCEEDED", {ODD},"output":["https://dnznrvs05pmza.cloudfront.net/{id}.mp4"]}}"#
            );
            done(desk, id, body)
        }
    }
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(
            400,
            &json!({"error": "You do not have enough credits to run this task."}),
        ),
        Outcome::RefusePolicy
        | Outcome::Succeed
        | Outcome::Fail
        | Outcome::Moderate
        | Outcome::RefuseInput => Reply::value(
            400,
            &json!({"error": "Validation of body failed", "issues": [{"code": "too_big", "path": ["promptText"], "message": "Too long"}]}),
        ),
    }
}

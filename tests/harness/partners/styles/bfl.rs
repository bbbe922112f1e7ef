//! BFL: `POST /v1/{endpoint}` answers with the address to ask again at.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("GET", path) if path == ["v1", "get_result"] => {
            let id = request.parameter("id").unwrap_or_default();
            (Step::Poll, look(desk, id))
        }
        ("POST", path) if path.len() == 2 && path[0] == "v1" => {
            submit(desk, request, refused, |id| {
                let url = format!("{}/v1/get_result?id={id}", request.base_url);
                Reply::value(200, &json!({"id": id, "polling_url": url, "cost": 4.0}))
            })
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let state = match desk.look(id) {
        None => {
            let body = json!({"id": id, "status": "Task not found", "result": null});
            return Reply::value(404, &body);
        }
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"id":"{id}","status":"Ready", {ODD}, "result":{{"sample":"https://delivery.bfl.ai/{id}.png"}}}}"#
            );
            return done(desk, id, body);
        }
        Some(View::Queued | View::Running) => "Pending",
        Some(View::Moderated) => "Content Moderated",
        Some(View::Failed | View::Cancelled) => "Error",
    };
    Reply::value(200, &json!({"id": id, "status": state, "result": null}))
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(402, &json!({"detail": "Insufficient credits."})),
        Outcome::RefusePolicy => Reply::value(
            422,
            &json!({"detail": [{"loc": ["body", "prompt"], "msg": "Request Moderated", "type": "content_policy_violation"}]}),
        ),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => Reply::json(
            422,
            format!(
                r#"{{"detail":[ {{"loc":["body","width"],"msg":"too wide","type":"less_than_equal","ctx":{{"le":1440}}, {ODD}}}]}}"#
            ),
        ),
    }
}

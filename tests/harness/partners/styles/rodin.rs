//! Rodin: one task is several jobs; state and result are asked for with POST.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["api", "v2", "rodin"]) => {
            if !request.is_form() {
                return (Step::Submit, refused(Outcome::RefuseInput));
            }
            submit(desk, request, refused, |id| {
                Reply::value(
                    201,
                    &json!({"error": null, "uuid": id, "jobs": {
                        "uuids": ["a", "b"],
                        "subscription_key": format!("key-of-{id}"),
                    }}),
                )
            })
        }
        ("POST", ["api", "v2", "status"]) => {
            let body = request.json();
            let key = body["subscription_key"].as_str().unwrap_or_default();
            let id = key.trim_start_matches("key-of-");
            (Step::Poll, look(desk, id))
        }
        ("POST", ["api", "v2", "download"]) => {
            let body = request.json();
            let id = body["task_uuid"].as_str().unwrap_or_default();
            let usual = format!(
                r#"{{"error":"OK", {ODD}, "list":[{{"url":"https://rodin.cdn/{id}.glb","name":"base_basic_pbr.glb"}}]}}"#
            );
            (Step::Result, done(desk, id, usual))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    // The first job is always ahead of the second.
    let (first, second) = match desk.look(id) {
        None => return Reply::value(404, &json!({"error": "NO_SUCH_TASK"})),
        Some(View::Queued) => ("Generating", "Waiting"),
        Some(View::Running) => ("Done", "Generating"),
        Some(View::Succeeded) => ("Done", "Done"),
        Some(View::Failed | View::Moderated | View::Cancelled) => ("Done", "Failed"),
    };
    Reply::value(
        201,
        &json!({"error": null, "jobs": [{"uuid": "a", "status": first}, {"uuid": "b", "status": second}]}),
    )
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(
            402,
            &json!({"error": "INSUFFICIENT_FUND", "message": "top up first"}),
        ),
        Outcome::RefusePolicy => Reply::value(
            400,
            &json!({"error": "SENSITIVE_CONTENT", "message": "the prompt is refused"}),
        ),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            Reply::value(400, &json!({"error": "INVALID_REQUEST", "message": "tier"}))
        }
    }
}

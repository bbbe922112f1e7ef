//! fal: the queue with its three addresses, and the synchronous form of the same models.

use serde_json::json;

use super::{ODD, at_once, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn queue(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    let Some(at) = path.iter().position(|segment| *segment == "requests") else {
        if method != "POST" {
            return unknown();
        }
        let model = request.path.clone();
        return submit(desk, request, refused, |id| {
            let url = format!("{}{model}/requests/{id}", request.base_url);
            Reply::value(
                200,
                &json!({
                    "status": "IN_QUEUE",
                    "request_id": id,
                    "response_url": url,
                    "status_url": format!("{url}/status"),
                    "cancel_url": format!("{url}/cancel"),
                    "queue_position": 0,
                }),
            )
        });
    };
    let id = path.get(at + 1).copied().unwrap_or_default().to_owned();
    match (method, path.get(at + 2).copied()) {
        ("GET", Some("status")) => (Step::Poll, status(desk, &id)),
        ("GET", None) => (Step::Result, result(desk, &id)),
        ("PUT", Some("cancel")) => {
            desk.cancel(&id);
            let body = json!({"status": "CANCELLATION_REQUESTED"});
            (Step::Cancel, Reply::value(202, &body))
        }
        _ => unknown(),
    }
}

pub(in crate::partners) fn sync(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    if request.method != "POST" {
        return unknown();
    }
    at_once(
        desk,
        request,
        "application/json",
        picture(),
        |outcome| match outcome {
            Outcome::Fail => failed(),
            Outcome::Succeed
            | Outcome::Moderate
            | Outcome::RefusePolicy
            | Outcome::RefuseInput
            | Outcome::RefuseFunds => refused(outcome),
        },
    )
}

fn status(desk: &mut Desk, id: &str) -> Reply {
    let (status, state) = match desk.look(id) {
        None => return Reply::not_found(),
        Some(View::Queued) => (202, "IN_QUEUE"),
        Some(View::Running) => (202, "IN_PROGRESS"),
        // Whether it went well is told by the other address.
        Some(View::Succeeded | View::Failed | View::Moderated | View::Cancelled) => {
            (200, "COMPLETED")
        }
    };
    Reply::value(status, &json!({"status": state, "request_id": id}))
}

fn result(desk: &mut Desk, id: &str) -> Reply {
    match desk.look(id) {
        None => Reply::not_found(),
        Some(View::Succeeded) => done(desk, id, picture()),
        Some(View::Moderated) => refused(Outcome::RefusePolicy),
        Some(View::Failed | View::Cancelled) => failed(),
        Some(View::Queued | View::Running) => {
            Reply::value(400, &json!({"detail": "Request is still in progress"}))
        }
    }
}

fn picture() -> String {
    format!(
        r#"{{ {ODD}, "images":[{{"url":"https://v3.fal.media/files/a.png","width":1024}}],"seed":7 }}"#
    )
}

fn failed() -> Reply {
    Reply::value(500, &json!({"detail": "Internal Server Error"}))
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(
            403,
            &json!({"detail": "User is locked. Reason: Exhausted balance."}),
        ),
        Outcome::RefusePolicy | Outcome::Moderate => Reply::json(
            422,
            format!(
                r#"{{"detail": [{{"loc":["body","prompt"], "msg":"flagged", "type":"content_policy_violation", {ODD}}}]}}"#
            ),
        ),
        Outcome::Succeed | Outcome::Fail | Outcome::RefuseInput => Reply::json(
            422,
            format!(
                r#"{{"detail": [{{"loc":["body","image_size"], "msg":"no such size", "type":"enum", {ODD}}}]}}"#
            ),
        ),
    }
}

//! Luma: a generation with a state and a reason for its failure.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    let Some(rest) = path.strip_prefix(&["dream-machine", "v1", "generations"][..]) else {
        return unknown();
    };
    match (method, rest) {
        ("POST", [] | ["image"]) => submit(desk, request, refused, |id| {
            Reply::value(
                201,
                &json!({"id": id, "state": "queued", "failure_reason": null}),
            )
        }),
        ("GET", [id]) => (Step::Poll, look(desk, id)),
        ("DELETE", [id]) => {
            desk.cancel(id);
            (Step::Cancel, Reply::of(204, "text/plain", ""))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let (state, reason) = match desk.look(id) {
        None => return Reply::value(404, &json!({"detail": "Generation not found"})),
        Some(View::Queued) => ("queued", None),
        Some(View::Running) => ("dreaming", None),
        Some(View::Failed | View::Cancelled) => ("failed", Some("internal error")),
        Some(View::Moderated) => ("failed", Some("400: frame moderation failed")),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"id":"{id}","state":"completed", {ODD} ,"assets":{{"video":"https://storage.cdn-luma.com/{id}.mp4"}}}}"#
            );
            return done(desk, id, body);
        }
    };
    Reply::value(
        200,
        &json!({"id": id, "state": state, "failure_reason": reason}),
    )
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(400, &json!({"detail": "Insufficient credits"})),
        Outcome::RefusePolicy => Reply::value(400, &json!({"detail": "prompt moderation failed"})),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            Reply::value(
                400,
                &json!({"detail": "Prompt is too short, minimum length is 3"}),
            )
        }
    }
}

//! xAI videos: 202 while pending; a video that fell to moderation is done without being one.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["v1", "videos", "generations"]) => submit(desk, request, refused, |id| {
            Reply::value(200, &json!({"request_id": id}))
        }),
        ("GET", ["v1", "videos", id]) => (Step::Poll, look(desk, id)),
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    match desk.look(id) {
        None => Reply::value(
            404,
            &json!({"code": "not-found", "error": "no such request"}),
        ),
        Some(View::Queued | View::Running) => Reply::value(202, &json!({"status": "pending"})),
        Some(View::Failed | View::Cancelled) => Reply::value(200, &json!({"status": "failed"})),
        Some(View::Moderated) => Reply::value(
            200,
            &json!({"status": "done", "video": {"url": "", "respect_moderation": false}}),
        ),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"status":"done", {ODD}, "video":{{"url":"https://vidgen.x.ai/{id}.mp4","duration":8,"respect_moderation":true}}}}"#
            );
            done(desk, id, body)
        }
    }
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(
            403,
            &json!({"code": "The caller does not have permission", "error": "Your team has no credits"}),
        ),
        Outcome::RefusePolicy => Reply::value(
            400,
            &json!({"code": "Client specified an invalid argument", "error": "Generated video rejected by content moderation."}),
        ),
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            Reply::value(
                400,
                &json!({"code": "Client specified an invalid argument", "error": "duration must be at most 15"}),
            )
        }
    }
}

//! Stability: takes forms, answers with bytes, and with 202 for what is not ready.

use serde_json::json;

use super::{at_once, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

/// Not a picture, but bytes that are no text either.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\xff\xfe not quite";

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["v2beta", "stable-image", "generate", _]) => {
            if !request.is_form() {
                return (Step::Submit, otherwise(Outcome::RefuseInput));
            }
            at_once(desk, request, "image/png", PICTURE, otherwise)
        }
        ("POST", ["v2beta", "stable-image", "upscale", "creative"]) => {
            if !request.is_form() {
                return (Step::Submit, otherwise(Outcome::RefuseInput));
            }
            submit(desk, request, otherwise, |id| {
                Reply::value(200, &json!({"id": id}))
            })
        }
        ("GET", ["v2beta", "results", id]) => (Step::Poll, look(desk, id)),
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    match desk.look(id) {
        None => error(404, "not_found", "no generation of this id"),
        Some(View::Queued | View::Running) => {
            Reply::value(202, &json!({"id": id, "status": "in-progress"}))
        }
        Some(View::Failed | View::Cancelled) => otherwise(Outcome::Fail),
        Some(View::Moderated) => otherwise(Outcome::Moderate),
        Some(View::Succeeded) => Reply::success(desk.success(id, "image/png", PICTURE)),
    }
}

fn otherwise(outcome: Outcome) -> Reply {
    match outcome {
        // Found afterwards, it is a blurred picture, and only a header tells.
        Outcome::Moderate => {
            let mut reply = Reply::of(200, "image/png", PICTURE);
            let told = ("finish-reason".to_owned(), "CONTENT_FILTERED".to_owned());
            reply.headers.push(told);
            reply
        }
        Outcome::RefusePolicy => error(
            403,
            "content_moderation",
            "Your request was flagged by our content moderation system.",
        ),
        Outcome::RefuseFunds => error(402, "payment_required", "You lack credits."),
        Outcome::RefuseInput => error(400, "bad_request", "prompt: must not be empty"),
        Outcome::Succeed | Outcome::Fail => {
            error(500, "internal_error", "An unexpected error occurred.")
        }
    }
}

fn error(status: u16, name: &str, text: &str) -> Reply {
    Reply::value(status, &json!({"id": "e", "name": name, "errors": [text]}))
}

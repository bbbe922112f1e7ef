//! Google: Gemini answers at once and refuses inside a 200; Veo names an operation that is `done` some time.

use serde_json::json;

use super::{ODD, at_once, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    let Some(("v1beta", rest)) = path.split_first().map(|(first, rest)| (*first, rest)) else {
        return unknown();
    };
    match (method, rest) {
        ("POST", ["models", call]) if call.ends_with(":generateContent") => {
            let usual = format!(
                r#"{{"candidates":[{{"content":{{"parts":[{{"inlineData":{{"mimeType":"image/png","data":"iVBORw0KGgo="}}}}],"role":"model"}},"finishReason":"STOP"}}], {ODD}}}"#
            );
            at_once(
                desk,
                request,
                "application/json; charset=UTF-8",
                usual,
                otherwise,
            )
        }
        ("POST", ["models", call]) if call.ends_with(":predictLongRunning") => {
            let model = call.trim_end_matches(":predictLongRunning").to_owned();
            submit(desk, request, refused, |id| {
                Reply::value(
                    200,
                    &json!({"name": format!("models/{model}/operations/{id}")}),
                )
            })
        }
        ("GET", ["models", _, "operations", id]) => (Step::Poll, look(desk, id)),
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let name = format!("models/veo/operations/{id}");
    match desk.look(id) {
        None => error(404, "NOT_FOUND", "Operation not found."),
        Some(View::Queued | View::Running) => Reply::value(200, &json!({"name": name})),
        Some(View::Failed | View::Cancelled) => Reply::value(
            200,
            &json!({"name": name, "done": true, "error": {"code": 13, "message": "Internal error."}}),
        ),
        Some(View::Moderated) => Reply::value(
            200,
            &json!({"name": name, "done": true, "response": {"generateVideoResponse": {
                "raiMediaFilteredCount": 1,
                "raiMediaFilteredReasons": ["The video was filtered for violating usage guidelines."],
            }}}),
        ),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"name":"{name}", "done" : true, {ODD}, "response":{{"generateVideoResponse":{{"generatedSamples":[{{"video":{{"uri":"https://generativelanguage.googleapis.com/v1beta/files/f:download"}}}}]}}}}}}"#
            );
            done(desk, id, body)
        }
    }
}

/// An operation that is not begun.
fn refused(outcome: Outcome) -> Reply {
    if outcome == Outcome::RefusePolicy {
        let text =
            "The prompt could not be submitted: it violates Google's Responsible AI practices.";
        return error(400, "INVALID_ARGUMENT", text);
    }
    otherwise(outcome)
}

fn otherwise(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefusePolicy => Reply::value(
            200,
            &json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}),
        ),
        Outcome::Moderate => Reply::value(
            200,
            &json!({"candidates": [{"finishReason": "IMAGE_SAFETY", "index": 0}], "usageMetadata": {"promptTokenCount": 3}}),
        ),
        Outcome::RefuseFunds => error(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Outcome::RefuseInput => error(
            400,
            "INVALID_ARGUMENT",
            "Invalid JSON payload received. Unknown name \"size\"",
        ),
        Outcome::Succeed | Outcome::Fail => {
            error(500, "INTERNAL", "An internal error has occurred.")
        }
    }
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"error": {"code": status, "message": message, "status": code}}),
    )
}

//! OpenAI images: synchronous; `error.code` tells what went wrong.

use serde_json::json;

use super::{ODD, at_once, unknown};
use crate::partners::desk::{Desk, Outcome};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path == ["v1", "images", "generations"] => {
            let usual = format!(
                r#"{{"created": 1.0, {ODD}, "data":[ {{"b64_json":"iVBORw0KGgo="}} ],"usage":{{"total_tokens":100,"input_tokens":20,"output_tokens":80}}}}"#
            );
            at_once(desk, request, "application/json", usual, otherwise)
        }
        _ => unknown(),
    }
}

fn otherwise(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Moderate | Outcome::RefusePolicy => error(
            400,
            "image_generation_user_error",
            "moderation_blocked",
            "Your request was rejected by the safety system.",
        ),
        Outcome::RefuseFunds => error(
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota.",
        ),
        Outcome::RefuseInput => error(
            400,
            "invalid_request_error",
            "invalid_value",
            "Invalid value: 'huge'. Supported values are: '1024x1024'.",
        ),
        Outcome::Succeed | Outcome::Fail => error(
            500,
            "server_error",
            "server_error",
            "The server had an error while processing your request.",
        ),
    }
}

fn error(status: u16, kind: &str, code: &str, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
    )
}

//! Ideogram: a form; a picture that is not safe has no address, inside a 200.

use serde_json::json;

use super::{ODD, at_once, unknown};
use crate::partners::desk::{Desk, Outcome};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path == ["v1", "ideogram-v3", "generate"] => {
            if !request.is_form() {
                return (Step::Submit, otherwise(Outcome::RefuseInput));
            }
            let usual = format!(
                r#"{{"created":"2026-11-21T00:00:00Z", {ODD}, "data":[{{"url":"https://ideogram.ai/api/images/a.png","is_image_safe":true,"seed":1}}]}}"#
            );
            at_once(desk, request, "application/json", usual, otherwise)
        }
        _ => unknown(),
    }
}

fn otherwise(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Moderate => Reply::value(
            200,
            &json!({"created": "2026-11-21T00:00:00Z", "data": [{"url": null, "is_image_safe": false}]}),
        ),
        Outcome::RefusePolicy => {
            Reply::value(422, &json!({"error": "Prompt failed the safety check"}))
        }
        Outcome::RefuseFunds => Reply::value(402, &json!({"error": "No credits left"})),
        Outcome::RefuseInput => Reply::value(400, &json!({"error": "prompt is required"})),
        Outcome::Succeed | Outcome::Fail => Reply::value(500, &json!({"error": "internal"})),
    }
}

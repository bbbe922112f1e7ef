//! Recraft: synchronous, and says in its answer how many credits it took.

use serde_json::json;

use super::{ODD, at_once, unknown};
use crate::partners::desk::{Desk, Outcome};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path == ["v1", "images", "generations"] => {
            let usual = format!(
                r#"{{"created":1763760000, "credits":80, {ODD}, "data":[{{"url":"https://img.recraft.ai/a"}}]}}"#
            );
            at_once(desk, request, "application/json", usual, otherwise)
        }
        _ => unknown(),
    }
}

fn otherwise(outcome: Outcome) -> Reply {
    let (status, code, message) = match outcome {
        Outcome::Moderate | Outcome::RefusePolicy => {
            (400, "prompt_violates_policy", "the prompt breaks the rules")
        }
        Outcome::RefuseFunds => (400, "not_enough_credits", "not enough credits"),
        Outcome::RefuseInput => (400, "invalid_style", "no such style"),
        Outcome::Succeed | Outcome::Fail => (500, "internal", "something went wrong"),
    };
    Reply::value(status, &json!({"code": code, "message": message}))
}

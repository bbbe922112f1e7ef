//! ElevenLabs: answers with sound, and with 401 for an account that is used up.

use serde_json::json;

use super::{at_once, unknown};
use crate::partners::desk::{Desk, Outcome};
use crate::partners::wire::{Reply, Request, Step};

/// Not sound, but bytes that are no text either.
const SOUND: &[u8] = b"ID3\x04\0\0\xff\xfb\x90 not quite";

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path == ["v1", "sound-generation"] => {
            at_once(desk, request, "audio/mpeg", SOUND, otherwise)
        }
        _ => unknown(),
    }
}

fn otherwise(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Moderate | Outcome::RefusePolicy => {
            error(400, "content_against_policy", "This breaks the terms.")
        }
        Outcome::RefuseFunds => error(401, "quota_exceeded", "This request exceeds your quota."),
        Outcome::RefuseInput => Reply::value(
            422,
            &json!({"detail": [{"loc": ["body", "text"], "msg": "Field required", "type": "missing"}]}),
        ),
        Outcome::Succeed | Outcome::Fail => error(500, "internal", "Something went wrong."),
    }
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    Reply::value(
        status,
        &json!({"detail": {"status": code, "message": message}}),
    )
}

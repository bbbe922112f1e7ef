//! PixVerse: numbers for states, and for errors inside a 200; ids are numbers, too.

use serde_json::{Value, json};

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    let (method, path) = request.route();
    match (method, path.as_slice()) {
        ("POST", ["openapi", "v2", "video", "text", "generate"]) => {
            if request.header("ai-trace-id").is_none_or(str::is_empty) {
                return (Step::Submit, envelope(400_011, "no trace id", &json!(null)));
            }
            submit(desk, request, refused, |id| {
                envelope(0, "Success", &json!({"video_id": number(id)}))
            })
        }
        ("GET", ["openapi", "v2", "video", "result", number]) => {
            (Step::Poll, look(desk, &format!("task-{number}")))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, id: &str) -> Reply {
    let state = match desk.look(id) {
        None => return envelope(500_063, "video not found", &json!(null)),
        Some(View::Queued | View::Running) => 5,
        Some(View::Cancelled) => 6,
        Some(View::Moderated) => 7,
        Some(View::Failed) => 8,
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"ErrCode":0,"ErrMsg":"Success", {ODD}, "Resp":{{"id":{},"status":1,"url":"https://media.pixverse.ai/{id}.mp4"}}}}"#,
                number(id)
            );
            return done(desk, id, body);
        }
    };
    envelope(
        0,
        "Success",
        &json!({"id": number(id), "status": state, "url": ""}),
    )
}

fn number(id: &str) -> u64 {
    let digits = id.trim_start_matches("task-");
    digits.parse().expect("ids are numbered")
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => envelope(500_090, "Insufficient balance.", &json!(null)),
        Outcome::RefusePolicy => {
            envelope(500_054, "The prompt or image was moderated.", &json!(null))
        }
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate | Outcome::RefuseInput => {
            envelope(400_017, "Invalid parameter: duration", &json!(null))
        }
    }
}

fn envelope(code: u32, message: &str, content: &Value) -> Reply {
    Reply::value(
        200,
        &json!({"ErrCode": code, "ErrMsg": message, "Resp": content}),
    )
}

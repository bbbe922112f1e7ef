//! Replicate: a prediction with `urls.get` and `urls.cancel`; the input comes inside `input`.

use serde_json::json;

use super::{ODD, done, submit, unknown};
use crate::partners::desk::{Desk, Outcome, View};
use crate::partners::wire::{Reply, Request, Step};

pub(in crate::partners) fn answer(desk: &mut Desk, request: &Request) -> (Step, Reply) {
    match request.route() {
        ("POST", path) if path.len() == 5 && path[1] == "models" && path[4] == "predictions" => {
            if !request.json()["input"].is_object() {
                return (Step::Submit, refused(Outcome::RefuseInput));
            }
            submit(desk, request, refused, |id| {
                Reply::value(201, &prediction(request, id, "starting"))
            })
        }
        ("GET", path) if path.len() == 3 && path[1] == "predictions" => {
            (Step::Poll, look(desk, request, path[2]))
        }
        ("POST", path) if path.len() == 4 && path[3] == "cancel" => {
            desk.cancel(path[2]);
            let body = prediction(request, path[2], "canceled");
            (Step::Cancel, Reply::value(200, &body))
        }
        _ => unknown(),
    }
}

fn look(desk: &mut Desk, request: &Request, id: &str) -> Reply {
    let with_error = |state: &str, error: &str| {
        let mut body = prediction(request, id, state);
        body["error"] = json!(error);
        Reply::value(200, &body)
    };
    match desk.look(id) {
        None => Reply::not_found(),
        Some(View::Queued) => Reply::value(200, &prediction(request, id, "starting")),
        Some(View::Running) => Reply::value(200, &prediction(request, id, "processing")),
        Some(View::Failed) => with_error("failed", "CUDA out of memory"),
        Some(View::Moderated) => with_error(
            "failed",
            "The input or output was flagged as sensitive. Please try again with different inputs. (E005)",
        ),
        Some(View::Cancelled) => Reply::value(200, &prediction(request, id, "canceled")),
        Some(View::Succeeded) => {
            let body = format!(
                r#"{{"id":"{id}","status":"succeeded", {ODD}, "output":["https://replicate.delivery/{id}.webp"],"error":null}}"#
            );
            done(desk, id, body)
        }
    }
}

fn prediction(request: &Request, id: &str, state: &str) -> serde_json::Value {
    let url = format!("{}/v1/predictions/{id}", request.base_url);
    json!({
        "id": id,
        "status": state,
        "error": null,
        "output": null,
        "urls": {"get": url, "cancel": format!("{url}/cancel")},
    })
}

fn refused(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::RefuseFunds => Reply::value(
            402,
            &json!({"title": "Insufficient credit", "detail": "You have insufficient credit to run this model.", "status": 402}),
        ),
        Outcome::RefusePolicy
        | Outcome::Succeed
        | Outcome::Fail
        | Outcome::Moderate
        | Outcome::RefuseInput => Reply::value(
            422,
            &json!({"title": "Input validation failed", "detail": "- input.prompt is required\n", "status": 422, "invalid_fields": []}),
        ),
    }
}

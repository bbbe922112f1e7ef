//! Models that are workflows: calls of the router that run as jobs, in the real program and without any partner's key.

mod catalog;
pub(crate) mod png;
mod publish;
mod reload;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use it::process::binary;
use it::{Answer, Request, Server};
use serde_json::{Value, json};

use png::Picture;

/// The token of every server here; it stands for the account `local`.
const TOKEN: &str = "a-token-of-a-test";

/// Variables that would bring partners into the catalog are none of a test's.
async fn start(data: &Path, arguments: &[&str]) -> Server {
    let mut all = vec!["--token", TOKEN];
    all.extend(arguments);
    Server::start_with(data, all).await.unwrap()
}

fn authorized(request: Request, token: &str) -> Request {
    request.header("Authorization", &format!("Bearer {token}"))
}

fn run(model: &str, body: &Value) -> Request {
    authorized(
        Request::post_json(&format!("/v1/models/{model}"), body),
        TOKEN,
    )
}

async fn get(server: &Server, target: &str) -> Answer {
    let request = authorized(Request::get(target), TOKEN);
    server.send(&request).await.unwrap()
}

/// The jobs of the account, newest first.
async fn jobs(server: &Server, token: &str) -> Vec<Value> {
    let request = authorized(Request::get("/api/v2/jobs"), token);
    let answer = server.send(&request).await.unwrap();
    answer.json()["jobs"].as_array().unwrap().clone()
}

fn data_url(picture: &Picture) -> String {
    format!(
        "data:image/png;base64,{}",
        STANDARD.encode(picture.encode())
    )
}

/// The picture in the only output of an answer, which is inline.
fn inline(answer: &Answer) -> Picture {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let url = body["outputs"][0]["url"].as_str().unwrap();
    let data = url.strip_prefix("data:image/png;base64,").unwrap();
    Picture::decode(&STANDARD.decode(data).unwrap())
}

/// Four pixels of four colours.
fn small() -> Picture {
    Picture {
        width: 2,
        height: 2,
        rgb: vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 100, 50],
    }
}

/// A body that keeps the processor busy for a while: a job that a test can meet while it runs.
fn long() -> Value {
    json!({"image": data_url(&small()), "width": 6000, "height": 6000, "method": "lanczos"})
}

/// Waits until a job runs, and answers its id.
async fn running(server: &Server, token: &str) -> String {
    loop {
        if let Some(job) = jobs(server, token).await.first() {
            assert_ne!(job["status"], "succeeded", "it takes too short a time");
            if job["status"] == "running" {
                return job["id"].as_str().unwrap().to_owned();
            }
        }
    }
}

/// Makes an account with a key, while the server runs.
fn account(data: &Path, name: &str) -> String {
    let command = |arguments: &[&str]| {
        let output = std::process::Command::new(binary())
            .args(arguments)
            .arg("--data-dir")
            .arg(data)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    command(&["account", "add", name]);
    command(&["key", "add", name])
}

#[tokio::test]
async fn models_are_listed_without_any_key_of_a_partner() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let page = get(&server, "/v1/models").await.json();
    let listed = page["data"].as_array().unwrap().iter();
    let ids: Vec<&str> = listed
        .filter_map(|model| model["id"].as_str())
        .filter(|id| id.starts_with("easel/"))
        .collect();
    assert_eq!(ids, ["easel/blend", "easel/postcard", "easel/resize"]);

    let document = get(&server, "/v1/models/easel/resize/openapi.json").await;
    assert_eq!(document.status, 200);
    let text = document.text();
    assert!(
        text.contains("\"/v1/models/easel/resize\"") && text.contains("lanczos"),
        "{text}"
    );
    let tag = document.header("etag").unwrap().to_owned();
    let again = authorized(
        Request::get("/v1/models/easel/resize/openapi.json").header("If-None-Match", &tag),
        TOKEN,
    );
    assert_eq!(server.send(&again).await.unwrap().status, 304);
}

#[tokio::test]
async fn models_are_never_anonymous() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let jobs = server.send(&Request::get("/api/v2/jobs")).await.unwrap();
    assert_eq!(jobs.status, 200, "workflows on loopback are");
    let models = server.send(&Request::get("/v1/models")).await.unwrap();
    assert_eq!(models.status, 401);
    assert_eq!(models.header("x-service-error-type"), Some("unauthorized"));
}

#[tokio::test]
async fn a_run_makes_the_picture_it_should_pixel_by_pixel() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let body = json!({
        "image": data_url(&small()), "width": 4, "height": 4, "method": "nearest-exact", "inline": true,
    });
    let resized = inline(&server.send(&run("easel/resize", &body)).await.unwrap());
    assert_eq!((resized.width, resized.height), (4, 4));
    for (y, x) in (0..4).flat_map(|y| (0..4).map(move |x| (y, x))) {
        assert_eq!(resized.at(x, y), small().at(x / 2, y / 2), "at {x}, {y}");
    }

    let white = Picture {
        rgb: vec![255; 12],
        ..small()
    };
    let body = json!({
        "image": data_url(&white), "overlay": data_url(&small()), "amount": 1.0, "mode": "multiply", "inline": true,
    });
    let blended = inline(&server.send(&run("easel/blend", &body)).await.unwrap());
    assert_eq!(
        blended.rgb,
        small().rgb,
        "white times a colour is the colour"
    );

    let body = json!({
        "image": data_url(&white), "tint": 0x00_20_40, "tint_amount": 1.0, "edge": 0xff_00_80, "inline": true,
    });
    let card = inline(&server.send(&run("easel/postcard", &body)).await.unwrap());
    assert_eq!((card.width, card.height), (640, 448));
    assert_eq!(card.at(0, 0), [0x00, 0x20, 0x40]);
    assert_eq!(card.at(75, 60), [0xff, 0x00, 0x80]);
    assert_eq!(card.at(320, 224), [255; 3]);
}

#[tokio::test]
async fn a_result_is_a_link_that_needs_no_credential() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let body = json!({"image": data_url(&small()), "width": 2, "method": "nearest-exact"});
    let answer = server.send(&run("easel/resize", &body)).await.unwrap();
    let told = answer.json();
    let output = &told["outputs"][0];
    let url = output["url"].as_str().unwrap();
    let target = url
        .strip_prefix(&format!("http://{}", server.address))
        .unwrap();
    let picture = server.send(&Request::get(target)).await.unwrap();
    assert_eq!(picture.status, 200);
    assert_eq!(picture.header("content-type"), Some("image/png"));
    assert_eq!(output["size_bytes"], picture.body.len());
    assert_eq!(Picture::decode(&picture.body).rgb, small().rgb);

    // The job bears the id of the call, and what it made goes into the next one.
    let id = answer.header("x-service-request-id").unwrap();
    assert_eq!(told["job_id"], id);
    let body = json!({"image": output["asset_id"], "width": 2, "inline": true});
    inline(&server.send(&run("easel/resize", &body)).await.unwrap());
}

#[tokio::test]
async fn the_same_key_tells_the_same_result_of_one_job() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let body = json!({"image": data_url(&small()), "width": 8});
    let call = run("easel/resize", &body).header("Idempotency-Key", "one");
    let first = server.send(&call).await.unwrap();
    let again = server.send(&call).await.unwrap();
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.body, again.body);
    assert_eq!(jobs(&server, TOKEN).await.len(), 1);
}

#[tokio::test]
async fn a_body_that_cannot_run_is_told_field_by_field() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let refused = async |body: Value| {
        let answer = server.send(&run("easel/resize", &body)).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert_eq!(answer.header("x-service-error-type"), Some("invalid_input"));
        answer.json()["detail"][0].clone()
    };
    let missing = refused(json!({"width": 8})).await;
    assert_eq!(
        (&missing["loc"], &missing["type"]),
        (&json!(["body", "image"]), &json!("missing"))
    );
    let wide = refused(json!({"image": data_url(&small()), "width": 9000})).await;
    assert_eq!(wide["loc"], json!(["body", "width"]));
    let address = refused(json!({"image": "http://example.test/a.png"})).await;
    assert_eq!(address["loc"], json!(["body", "image"]));
    assert!(jobs(&server, TOKEN).await.is_empty(), "nothing ran");
    let text = STANDARD.encode("no picture at all");
    let broken = refused(json!({"image": format!("data:image/png;base64,{text}")})).await;
    assert_eq!(
        (&broken["loc"], &broken["type"]),
        (&json!(["body", "image"]), &json!("picture"))
    );
}

#[tokio::test]
async fn a_run_of_a_model_is_nothing_that_a_person_queued() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let (address, sent) = (server.address, run("easel/resize", &long()));
    let calling = tokio::spawn(async move { sent.send(address).await });
    let id = running(&server, TOKEN).await;
    for (target, expected) in [
        ("/api/jobs", json!([])),
        ("/api/queue", json!([])),
        ("/api/history_v2", json!([])),
    ] {
        let answer = get(&server, target).await.json();
        let lists = answer.as_object().unwrap().values();
        let lists: Vec<&Value> = lists.filter(|value| value.is_array()).collect();
        assert!(!lists.is_empty(), "{target}: {answer}");
        assert!(
            lists.iter().all(|list| **list == expected),
            "{target}: {answer}"
        );
    }
    let remaining = get(&server, "/api/prompt").await.json();
    assert_eq!(remaining["exec_info"]["queue_remaining"], 0);
    // Nor is it what an interrupt without a name means.
    let interrupt = authorized(Request::post_json("/api/interrupt", &json!({})), TOKEN);
    assert_eq!(server.send(&interrupt).await.unwrap().status, 200);
    // It is a job all the same, by its id and in the newer API.
    assert_eq!(get(&server, &format!("/api/jobs/{id}")).await.status, 200);
    assert_eq!(jobs(&server, TOKEN).await.len(), 1);
    assert_eq!(calling.await.unwrap().unwrap().status, 200);
    let history = get(&server, "/api/history").await.json();
    assert_eq!(history, json!({}), "nor is it one when it is over");
}

/// Calls that end while a long one runs.
const OTHERS: usize = 3;

#[tokio::test]
async fn a_retry_after_a_kill_picks_up_the_one_job() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let call = run("easel/resize", &long()).header("Idempotency-Key", "one");
    let (address, sent) = (server.address, call.clone());
    let waiting = tokio::spawn(async move { sent.send(address).await });
    let id = running(&server, TOKEN).await;
    // Others go all their way meanwhile, so the handle of this one is in its row.
    for width in 1..=OTHERS {
        let other = run(
            "easel/resize",
            &json!({"image": data_url(&small()), "width": width}),
        );
        assert_eq!(server.send(&other).await.unwrap().status, 200);
    }
    let retry = server.send(&call).await.unwrap();
    assert_eq!(retry.status, 409, "{}", retry.text());
    assert!(retry.header("retry-after").is_some());
    server.kill().await.unwrap();
    assert!(waiting.await.unwrap().is_err(), "it was not answered");

    let server = start(data.path(), &[]).await;
    let answer = server.send(&call).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["job_id"], id);
    let jobs = jobs(&server, TOKEN).await;
    assert_eq!(jobs.len(), 1 + OTHERS);
    let statuses = jobs.iter().map(|job| &job["status"]);
    assert!(statuses.into_iter().all(|status| *status == "succeeded"));
}

#[tokio::test]
async fn calls_of_models_that_run_here_are_limited_as_all_are() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--concurrent-calls", "1"]).await;
    let (address, call) = (server.address, run("easel/resize", &long()));
    let waiting = tokio::spawn(async move { call.send(address).await });
    let id = running(&server, TOKEN).await;
    let second = run("easel/resize", &json!({"image": data_url(&small())}));
    let refused = server.send(&second).await.unwrap();
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(
        refused.header("x-service-error-type"),
        Some("concurrency_limit_exceeded")
    );

    // An account that sees the job may stop it; the call then ends, and gives its place back.
    let cancel = Request::new("POST", &format!("/api/v2/jobs/{id}/cancel"));
    let canceled = server.send(&authorized(cancel, TOKEN)).await.unwrap();
    assert!(canceled.status < 300, "{}", canceled.text());
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert_eq!(
        answer.header("x-service-error-type"),
        Some("provider_error")
    );
    assert_eq!(server.send(&second).await.unwrap().status, 200);
}

#[tokio::test]
async fn accounts_see_neither_pictures_nor_jobs_of_each_other() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]).await;
    let (ours, theirs) = (account(data.path(), "ours"), account(data.path(), "theirs"));
    let call = |token: &str, body: &Value| {
        authorized(Request::post_json("/v1/models/easel/resize", body), token)
    };
    let body = json!({"image": data_url(&small()), "width": 8});
    let made = server.send(&call(&ours, &body)).await.unwrap();
    assert_eq!(made.status, 200, "{}", made.text());
    let asset = made.json()["outputs"][0]["asset_id"].clone();
    let body = json!({"image": asset, "width": 4});
    let foreign = server.send(&call(&theirs, &body)).await.unwrap();
    assert_eq!(foreign.status, 422);
    assert_eq!(foreign.json()["detail"][0]["msg"], "there is no such asset");
    let own = server.send(&call(&ours, &body)).await.unwrap();
    assert_eq!(own.status, 200, "{}", own.text());
    assert_eq!(jobs(&server, &ours).await.len(), 2);
    assert!(jobs(&server, &theirs).await.is_empty());
}

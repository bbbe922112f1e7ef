//! Jobs with many outputs, and lists of them: made while they are sent, and spelled as ever.

use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::Value;
use workflow_core::JobEvent;

use super::harness::{Rig, Server, principal};

/// More than are answered at once.
const OUTPUTS: u32 = 300;

/// A server of both APIs whose account has so many jobs that are over, with outputs beyond what is answered at once.
async fn server(jobs: u32) -> Server {
    server_of(jobs, OUTPUTS).await
}

/// The same, with so many outputs of each job.
async fn server_of(jobs: u32, outputs: u32) -> Server {
    let rig = Rig::new();
    let older = rig.older();
    let server = rig.server(principal("local"), |service| service.v1 = Some(older));
    for _ in 0..jobs {
        server.submit().await;
        let job = rig.claim().await;
        let job = rig.commit_many(&job, outputs).await;
        let epoch = job.epoch;
        rig.apply(&job, JobEvent::Finished { epoch }).await;
    }
    server
}

#[tokio::test]
async fn an_answer_in_pieces_is_spelled_as_one_from_a_tree() {
    let server = server(2).await;
    let listed = server.get("/api/v2/jobs").await.json();
    let id = listed["jobs"][0]["id"].as_str().expect("an id").to_owned();
    for path in [
        "/api/v2/jobs".to_owned(),
        format!("/api/v2/jobs/{id}"),
        format!("/api/v2/jobs/{id}/workflow"),
        "/api/history".to_owned(),
        format!("/api/history/{id}"),
        "/api/history_v2".to_owned(),
        format!("/api/history_v2/{id}"),
        "/api/queue".to_owned(),
        "/api/jobs".to_owned(),
        format!("/api/jobs/{id}"),
    ] {
        let answer = server.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = String::from_utf8(answer.body.to_vec()).expect("text");
        assert_eq!(answer.json().to_string(), text, "{path}");
    }
    let outputs = |job: &Value| job["outputs"].as_array().map(Vec::len);
    assert_eq!(outputs(&listed["jobs"][0]), Some(OUTPUTS as usize));
    let job = server.get(&format!("/api/v2/jobs/{id}")).await.json();
    assert_eq!(outputs(&job), Some(OUTPUTS as usize));
    let older = server.get(&format!("/api/jobs/{id}")).await.json();
    assert_eq!(older["outputs_count"], OUTPUTS);
}

#[tokio::test]
async fn a_page_ends_early_where_its_jobs_have_many_outputs() {
    let server = server(15).await;
    let page = server.get("/api/v2/jobs?limit=100").await.json();
    // The fourteenth brings them to more than 4,096.
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(14));
    let cursor = page["next_cursor"].as_str().expect("one job is left");
    let path = format!("/api/v2/jobs?limit=100&cursor={cursor}");
    let page = server.get(&path).await.json();
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(1));
    assert!(page.get("next_cursor").is_none());
    let all = server.get("/api/history").await.json();
    assert_eq!(all.as_object().map(serde_json::Map::len), Some(15));
}

#[tokio::test]
async fn an_answer_takes_room_while_it_is_sent() {
    let server = server(3).await;
    let used = server.api.memory_counter();
    for path in ["/api/history", "/api/v2/jobs"] {
        let response = server.open(http::Method::GET, path, &[], "").await;
        assert_eq!(response.body().size_hint().exact(), None, "it is long");
        if path == "/api/v2/jobs" {
            assert!(used().0 > 0, "its jobs are kept");
        }
        let mut body = response.into_body();
        while let Some(piece) = body.frame().await {
            let piece = piece.expect("no error").into_data().expect("bytes");
            assert!(piece.len() < 256 * 1024, "{}", piece.len());
        }
        drop(body);
        assert_eq!(used().0, 0, "{path}");
    }
    // What is over when its head is sent takes none.
    let response = server.open(http::Method::GET, "/api/queue", &[], "").await;
    assert!(response.body().size_hint().exact().is_some());
    assert_eq!(used().0, 0);
}

#[tokio::test]
async fn a_job_of_eight_thousand_outputs_is_sent_in_small_pieces() {
    const MOST: u32 = 8_192;
    let server = server_of(1, MOST).await;
    let used = server.api.memory_counter();
    let listed = server.get("/api/v2/jobs").await.json();
    let id = listed["jobs"][0]["id"].as_str().expect("an id").to_owned();
    for path in [
        "/api/v2/jobs".to_owned(),
        format!("/api/v2/jobs/{id}"),
        "/api/history".to_owned(),
        format!("/api/history/{id}"),
        format!("/api/jobs/{id}"),
    ] {
        let response = server.open(http::Method::GET, &path, &[], "").await;
        assert_eq!(response.status(), 200, "{path}");
        let mut body = response.into_body();
        let (mut text, mut counted) = (Vec::new(), 0);
        while let Some(piece) = body.frame().await {
            let piece = piece.expect("no error").into_data().expect("bytes");
            assert!(piece.len() < 256 * 1024, "{path}: {}", piece.len());
            text.extend_from_slice(&piece);
            counted = counted.max(used().0);
        }
        drop(body);
        let text = String::from_utf8(text).expect("text");
        for place in [1, MOST] {
            let name = format!("many_{place:05}_");
            assert!(text.contains(&name), "{path} has no {name}");
        }
        assert!(counted > 0, "{path}: what is kept of it is counted");
        assert_eq!(used().0, 0, "{path}");
    }
}

//! Streams over HTTP: what a client reads, when, and until when. The clock of the streams is paused, so nothing waits.

use std::time::Duration;

use http::{Method, Response};
use http_body_util::BodyExt;
use hyper_kit::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use workflow_core::{JobEvent, JobId};

use super::harness::{Server, server};

/// A stream as its client reads it.
pub(super) struct Reader {
    body: Body,
    read: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    Event(String, Value),
    Comment,
    End,
}

impl Reader {
    pub(super) fn new(response: Response<Body>) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert!(response.headers().contains_key("x-comfy-request-id"));
        Self {
            body: response.into_body(),
            read: String::new(),
        }
    }

    pub(super) async fn next(&mut self) -> Frame {
        loop {
            if let Some((frame, rest)) = self.read.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.read = rest;
                if frame.starts_with(':') {
                    return Frame::Comment;
                }
                let (name, data) = frame.split_once("\ndata: ").expect("a name and data");
                let name = name.strip_prefix("event: ").expect("a name");
                let data = serde_json::from_str(data).expect("JSON");
                return Frame::Event(name.to_owned(), data);
            }
            let Some(chunk) = self.body.frame().await else {
                assert!(self.read.is_empty(), "a frame is whole");
                return Frame::End;
            };
            let chunk = chunk
                .expect("the stream goes on")
                .into_data()
                .expect("data");
            self.read += std::str::from_utf8(&chunk).expect("UTF-8");
        }
    }

    pub(super) async fn event(&mut self, name: &str) -> Value {
        let next = self.next().await;
        let Frame::Event(found, data) = next else {
            panic!("{next:?} came in place of {name}");
        };
        assert_eq!(found, name, "{data}");
        data
    }
}

async fn follow(server: &Server, id: JobId) -> Reader {
    let path = format!("/api/v2/jobs/{id}/events");
    let headers = [("last-event-id", "7")];
    Reader::new(server.open(Method::GET, &path, &headers, "").await)
}

#[tokio::test(start_paused = true)]
async fn a_run_is_told_to_its_end() {
    let server = server();
    let id = server.submit().await;
    let mut reader = follow(&server, id).await;
    assert_eq!(
        reader.event("status").await,
        json!({ "status": "queued", "queue_position": 0 })
    );
    assert_eq!(reader.event("progress").await["nodes_total"], 2);

    let running = server.rig.claim().await;
    assert_eq!(
        reader.event("status").await,
        json!({ "status": "running", "queue_position": null })
    );
    server.rig.progress(id, 0.5);
    assert_eq!(reader.event("progress").await["value"], 0.5);
    server.rig.preview(id);
    let preview =
        json!({ "node_id": "9", "content_type": "image/jpeg", "data_base64": "anBlZw==" });
    assert_eq!(reader.event("preview").await, preview);
    let running = server.rig.commit(&running, 0, "picture").await;
    let output = reader.event("output").await;
    assert_eq!(
        (&output["name"], &output["job_id"]),
        (&json!("x_00001_.png"), &json!(id.to_string()))
    );

    let running = server.rig.commit(&running, 1, "another").await;
    let epoch = running.epoch;
    server
        .rig
        .apply(&running, JobEvent::Finished { epoch })
        .await;
    assert_eq!(reader.event("progress").await["value"], 1.0);
    assert_eq!(reader.event("output").await["name"], "x_00002_.png");
    let status = reader.event("status").await;
    assert_eq!(status["status"], "succeeded");
    assert_eq!(status["outputs"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.api.stream_counter()(), 1);
    assert_eq!(reader.next().await, Frame::End);
    assert_eq!(server.api.stream_counter()(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_told_at_once() {
    let server = server();
    let id = server.submit().await;
    let running = server.rig.claim().await;
    let running = server.rig.commit(&running, 0, "picture").await;
    let epoch = running.epoch;
    server
        .rig
        .apply(&running, JobEvent::Finished { epoch })
        .await;
    let mut reader = follow(&server, id).await;
    assert_eq!(reader.event("progress").await["value"], 1.0);
    reader.event("output").await;
    assert_eq!(reader.event("status").await["status"], "succeeded");
    assert_eq!(reader.next().await, Frame::End);
}

#[tokio::test(start_paused = true)]
async fn a_queued_job_that_is_canceled_ends_its_streams() {
    let server = server();
    let id = server.submit().await;
    let mut reader = follow(&server, id).await;
    reader.event("status").await;
    reader.event("progress").await;
    server
        .send(Method::POST, &format!("/api/v2/jobs/{id}/cancel"), &[], "")
        .await;
    assert_eq!(reader.event("status").await["status"], "canceled");
    assert_eq!(reader.next().await, Frame::End);
}

#[tokio::test(start_paused = true)]
async fn progress_comes_twice_a_second_and_the_newest_is_kept() {
    let server = server();
    let id = server.submit().await;
    server.rig.claim().await;
    let mut reader = follow(&server, id).await;
    reader.event("status").await;
    reader.event("progress").await;
    let start = Instant::now();
    let mut told = Vec::new();
    for step in 1..=40 {
        server.rig.progress(id, f64::from(step) / 40.0);
        tokio::time::advance(Duration::from_millis(50)).await;
        let next = tokio::time::timeout(Duration::from_millis(1), reader.next());
        if let Ok(Frame::Event(name, data)) = next.await {
            assert_eq!(name, "progress");
            told.push(data["value"].as_f64().expect("a number"));
        }
    }
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!((3..=5).contains(&told.len()), "{told:?}");
    if told.last() != Some(&1.0) {
        assert_eq!(reader.event("progress").await["value"], 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_given_the_newest() {
    let server = server();
    let id = server.submit().await;
    server.rig.claim().await;
    let mut reader = follow(&server, id).await;
    for step in 1..=1000 {
        server.rig.progress(id, f64::from(step) / 1000.0);
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    reader.event("status").await;
    assert_eq!(
        reader.event("progress").await["value"],
        0.0,
        "what was so when it came"
    );
    assert_eq!(reader.event("progress").await["value"], 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_says_that_it_is_alive() {
    let server = server();
    let id = server.submit().await;
    let mut reader = follow(&server, id).await;
    reader.event("status").await;
    reader.event("progress").await;
    let start = Instant::now();
    for beat in 1..=3 {
        assert_eq!(reader.next().await, Frame::Comment);
        assert_eq!(start.elapsed().as_secs(), beat * 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_draining_server_ends_its_streams() {
    let server = server();
    let id = server.submit().await;
    let mut reader = follow(&server, id).await;
    reader.event("status").await;
    reader.event("progress").await;
    server.service.drain.cancel();
    assert_eq!(reader.next().await, Frame::End);
}

#[tokio::test(start_paused = true)]
async fn an_account_has_a_bounded_number_of_streams() {
    let server = server();
    let id = server.submit().await;
    let first = follow(&server, id).await;
    let _second = follow(&server, id).await;
    let path = format!("/api/v2/jobs/{id}/events");
    let refused = server.get(&path).await;
    refused.is_error(429, "too_many_streams");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let unknown = "/api/v2/jobs/00000000-0000-7000-8000-000000000000/events";
    server.get(unknown).await.is_error(404, "not_found");
    drop(first);
    follow(&server, id).await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_job_takes_no_place() {
    let server = server();
    for _ in 0..3 {
        let path = "/api/v2/jobs/00000000-0000-7000-8000-000000000000/events";
        server.get(path).await.is_error(404, "not_found");
    }
    assert_eq!(server.api.stream_counter()(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_stream_opens_none() {
    let server = server();
    let id = server.submit().await;
    let path = format!("/api/v2/jobs/{id}/events");
    let head = server.send(Method::HEAD, &path, &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(server.api.stream_counter()(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_account_hears_of_all_its_jobs_in_one_stream() {
    let server = server();
    let before = server.submit().await;
    let path = "/api/v2/events";
    let mut reader = Reader::new(server.open(Method::GET, path, &[], "").await);
    assert_eq!(
        reader.event("sync").await,
        json!({}),
        "the list is read now"
    );
    assert_eq!(server.api.stream_counter()(), 1);
    let running = server.rig.claim().await;
    let job = reader.event("job").await;
    assert_eq!(job["id"], before.to_string());
    assert_eq!(job["status"], "running");
    assert!(job.get("outputs").is_none(), "{job}");

    let after = server.submit().await;
    let job = reader.event("job").await;
    assert_eq!(
        (&job["id"], &job["status"]),
        (&json!(after.to_string()), &json!("queued"))
    );
    server.rig.progress(before, 0.5);
    let epoch = running.epoch;
    server
        .rig
        .apply(&running, JobEvent::Finished { epoch })
        .await;
    let job = reader.event("job").await;
    assert_eq!(
        (&job["id"], &job["status"]),
        (&json!(before.to_string()), &json!("succeeded"))
    );
    assert_eq!(reader.next().await, Frame::Comment, "nothing else happened");
    server.service.drain.cancel();
    assert_eq!(reader.next().await, Frame::End);
    assert_eq!(server.api.stream_counter()(), 0);
    let head = server.send(Method::HEAD, path, &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

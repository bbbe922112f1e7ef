//! Jobs over HTTP: what is taken, what is answered, and what is refused.

use accounts::{AccountAdmin, CreditLedger, LedgerRef, Principal};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use workflow_core::{Availability, JobError, JobErrorCode, JobEvent, Timer};

use super::harness::{Answer, Rig, Server, graph, limited, principal, server};

mod bounds;
mod credits;
mod lists;

async fn submit_with(server: &Server, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    server
        .send(Method::POST, "/api/v2/jobs", &all, body.to_string())
        .await
}

fn keys(value: &Value) -> Vec<&str> {
    let fields = value.as_object().expect("an object");
    fields.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_submitted_job_is_201_with_every_field() {
    let server = server();
    let body = json!({ "workflow": graph(), "metadata": { "run": "7" } });
    let answer = server.post_json("/api/v2/jobs", &body).await;
    assert_eq!(answer.status, 201);
    let job = answer.json();
    assert_eq!(
        keys(&job),
        [
            "id",
            "status",
            "created_at",
            "started_at",
            "completed_at",
            "expires_at",
            "queue_position",
            "progress",
            "outputs",
            "error",
            "metrics",
            "metadata",
            "urls"
        ]
    );
    assert_eq!(
        (&job["status"], &job["queue_position"]),
        (&json!("queued"), &json!(0))
    );
    assert_eq!(job["created_at"], "2026-01-01T00:00:00.000Z");
    assert_eq!(job["expires_at"], "2026-01-02T00:00:00.000Z");
    assert_eq!(job["metadata"], json!({ "run": "7" }));
    assert_eq!(
        job["metrics"],
        json!({ "queue_ms": null, "execution_ms": null })
    );
    assert_eq!(
        job["progress"],
        json!({
            "value": 0.0, "nodes_done": 0, "nodes_total": 2, "current_node": null, "current_node_class": null,
            "step": null, "steps": null, "message": null
        })
    );
    let id = job["id"].as_str().expect("an id");
    let own = format!("http://127.0.0.1:8189/api/v2/jobs/{id}");
    let urls = json!({
        "self": own, "events": format!("{own}/events"), "cancel": format!("{own}/cancel"), "logs": format!("{own}/logs")
    });
    assert_eq!(job["urls"], urls);
    assert_eq!(server.get(&format!("/api/v2/jobs/{id}")).await.json(), job);
}

#[tokio::test]
async fn a_run_is_seen_from_the_queue_to_its_outputs() {
    let server = server();
    let id = server.submit().await;
    let path = format!("/api/v2/jobs/{id}");
    server.rig.clock.advance(SignedDuration::from_secs(2));
    let running = server.rig.claim().await;
    server.rig.progress(id, 0.5);
    let seen = server.get(&path).await.json();
    assert_eq!(
        (&seen["status"], &seen["progress"]["value"]),
        (&json!("running"), &json!(0.5))
    );
    assert_eq!(seen["queue_position"], Value::Null);
    let with_output = server.rig.commit(&running, 0, "picture").await;
    server.rig.clock.advance(SignedDuration::from_secs(3));
    let epoch = with_output.epoch;
    server
        .rig
        .apply(&with_output, JobEvent::Finished { epoch })
        .await;

    let done = server.get(&path).await.json();
    assert_eq!(
        (&done["status"], &done["progress"]["value"]),
        (&json!("succeeded"), &json!(1.0))
    );
    assert_eq!(
        done["metrics"],
        json!({ "queue_ms": 2000, "execution_ms": 3000 })
    );
    let output = &done["outputs"][0];
    assert_eq!(
        keys(output),
        [
            "node_id",
            "name",
            "type",
            "content_type",
            "size_bytes",
            "id",
            "hash",
            "url",
            "url_expires_at",
            "job_id"
        ]
    );
    assert_eq!(
        (&output["type"], &output["name"]),
        (&json!("image"), &json!("x_00001_.png"))
    );
    assert_eq!(output["job_id"], id.to_string());
    let asset = format!("/api/v2/assets/{}", output["id"].as_str().expect("an id"));
    assert_eq!(
        server.get(&format!("{asset}/content")).await.body,
        "picture"
    );
    assert_eq!(server.get(&asset).await.json()["job_id"], id.to_string());
    let signed = output["url"]
        .as_str()
        .expect("a URL")
        .replace("http://127.0.0.1:8189", "");
    assert_eq!(server.get(&signed).await.body, "picture");
    server
        .send(Method::DELETE, &asset, &[], "")
        .await
        .is_error(409, "asset_in_use");
}

#[tokio::test]
async fn a_failure_names_its_node() {
    let server = server();
    let id = server.submit().await;
    let running = server.rig.claim().await;
    let error = JobError {
        node_id: Some("9".into()),
        class_type: Some("SaveImage".to_owned()),
        exception_type: Some("ValueError".to_owned()),
        ..JobError::new(JobErrorCode::NodeExecutionError, "no")
    };
    let epoch = running.epoch;
    server
        .rig
        .apply(&running, JobEvent::Failed { epoch, error })
        .await;
    let job = server.get(&format!("/api/v2/jobs/{id}")).await.json();
    let error = json!({
        "code": "node_execution_error", "message": "no", "node_id": "9", "class_type": "SaveImage", "traceback": null
    });
    assert_eq!((&job["status"], &job["error"]), (&json!("failed"), &error));
}

#[tokio::test]
async fn the_workflow_comes_back_byte_for_byte() {
    let server = server();
    let graph = r#"{ "9":{"inputs":{"images":["1",0], "x":1.0} ,"class_type":"SaveImage"},"1":{"class_type":"EmptyImage","inputs":{"width":64}} }"#;
    let json = [("content-type", "application/json; charset=utf-8")];
    let body = format!(r#"{{"workflow":  {graph} }}"#);
    let answer = server.send(Method::POST, "/api/v2/jobs", &json, body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    let answer = server.get(&format!("/api/v2/jobs/{id}/workflow")).await;
    assert_eq!(
        answer.body,
        format!(r#"{{"workflow":{graph},"format":"api"}}"#)
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_body_that_is_no_submission_is_refused_by_what_it_is() {
    let server = server();
    let json = [("content-type", "application/json")];
    let deep = format!(
        r#"{{"workflow": {}1{}}}"#,
        r#"{"a":"#.repeat(200),
        "}".repeat(200)
    );
    for (body, status, code) in [
        ("", 400, "invalid_request"),
        ("{", 400, "invalid_request"),
        (r#"{"workflow": {"1": NaN}}"#, 400, "invalid_request"),
        (&deep, 400, "invalid_request"),
        ("[]", 422, "invalid_workflow"),
        ("null", 422, "invalid_workflow"),
        ("{}", 422, "invalid_workflow"),
        (r#"{"workflow": []}"#, 422, "invalid_workflow"),
        (r#"{"workflow": null}"#, 422, "invalid_workflow"),
        (r#"{"workflow": {}}"#, 422, "invalid_workflow"),
        (
            r#"{"workflow": {"nodes": [], "links": []}}"#,
            422,
            "workflow_format_ui",
        ),
        (
            r#"{"workflow": {"1": {}}, "inputs": {}}"#,
            422,
            "invalid_request",
        ),
        (
            r#"{"workflow": {"1": {}}, "webhook_url": "x"}"#,
            422,
            "invalid_request",
        ),
        (
            r#"{"workflow": {"1": {}}, "metadata": 7}"#,
            422,
            "metadata_invalid",
        ),
        (
            r#"{"workflow": {"1": {}}, "extra_data": {"x": 1}}"#,
            422,
            "invalid_request",
        ),
    ] {
        let answer = server
            .send(Method::POST, "/api/v2/jobs", &json, body.to_owned())
            .await;
        answer.is_error(status, code);
    }
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
    ] {
        let answer = server
            .send(
                Method::POST,
                "/api/v2/jobs",
                &[("content-type", kind)],
                "{}",
            )
            .await;
        answer.is_error(415, "invalid_request");
    }
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_413() {
    let server = Rig::new().server(principal("local"), |service| service.config.json_bytes = 64);
    let answer = submit_with(&server, &[], &json!({ "workflow": graph() })).await;
    let error = answer.is_error(413, "payload_too_large");
    assert_eq!(error["details"]["limit_bytes"], 64);
}

#[tokio::test]
async fn every_error_of_a_graph_is_told_by_node() {
    let server = server();
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": "wide"}},
        "2": {"class_type": "Nothing", "inputs": {}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["7", 0]}},
        "10": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    });
    let answer = server
        .post_json("/api/v2/jobs", &json!({ "workflow": graph }))
        .await;
    let error = answer.is_error(422, "invalid_workflow");
    let nodes = error["details"]["node_errors"]
        .as_object()
        .expect("errors by node");
    assert!(
        nodes.contains_key("1") && nodes.contains_key("9"),
        "{error}"
    );
    for entries in nodes.values() {
        for entry in entries.as_array().expect("a list") {
            assert_eq!(keys(entry), ["field", "reason"]);
        }
    }
    assert_eq!(nodes["1"][0]["field"], "width");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with("node ") && message.contains("more error"),
        "{message}"
    );
}

#[tokio::test]
async fn an_asset_that_is_not_there_is_missing() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    let with = |id: &Value| {
        let mut graph = graph();
        let info = json!({ "id": id, "hash": asset["hash"], "file_path": "x.png" });
        let reference = json!({ "__type": "core/ASSET", "info": info });
        graph["1"] = json!({ "class_type": "LoadImage", "inputs": { "image": reference } });
        json!({ "workflow": graph })
    };
    assert_eq!(
        server
            .post_json("/api/v2/jobs", &with(&asset["id"]))
            .await
            .status,
        201
    );
    let wrong = json!("00000000-0000-7000-8000-000000000000");
    let answer = server.post_json("/api/v2/jobs", &with(&wrong)).await;
    let error = answer.is_error(422, "missing_asset");
    let references = json!([{ "node_id": "1", "field": "image", "reference": wrong }]);
    assert_eq!(error["details"]["references"], references);
}

#[tokio::test]
async fn a_submission_under_one_key_is_made_once() {
    let server = server();
    let body = json!({ "workflow": graph(), "metadata": { "a": "b" } });
    let key = [("idempotency-key", "k")];
    let first = submit_with(&server, &key, &body).await;
    assert_eq!(
        (first.status.as_u16(), first.header("idempotent-replayed")),
        (201, None)
    );
    let with_secret = json!({ "extra_data": { "api_key_comfy_org": "s" }, "metadata": { "a": "b" }, "workflow": graph() });
    let again = submit_with(&server, &key, &with_secret).await;
    assert_eq!(
        (again.status.as_u16(), again.header("idempotent-replayed")),
        (201, Some("true"))
    );
    assert_eq!(again.json()["id"], first.json()["id"]);
    let error = submit_with(&server, &key, &json!({ "workflow": graph() })).await;
    let error = error.is_error(422, "idempotency_key_reuse");
    assert_eq!(error["details"]["job_id"], first.json()["id"]);
    for bad in ["", &"x".repeat(256)] {
        let answer = submit_with(&server, &[("idempotency-key", bad)], &body).await;
        answer.is_error(422, "invalid_request");
    }
}

#[tokio::test]
async fn the_secret_is_kept_in_memory_and_answered_nowhere() {
    let server = server();
    let body = json!({ "workflow": graph(), "extra_data": { "api_key_service_org": "s3cret" } });
    let answer = server.post_json("/api/v2/jobs", &body).await;
    assert_eq!(answer.status, 201);
    let id: workflow_core::JobId = answer.json()["id"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("a UUID");
    assert!(server.rig.has_secret(id));
    for path in ["", "/workflow"] {
        let answer = server.get(&format!("/api/v2/jobs/{id}{path}")).await;
        assert!(!String::from_utf8_lossy(&answer.body).contains("s3cret"));
    }
}

#[tokio::test]
async fn cancel_is_200_however_often_and_late() {
    let server = server();
    let id = server.submit().await;
    let path = format!("/api/v2/jobs/{id}/cancel");
    for _ in 0..2 {
        let answer = server.send(Method::POST, &path, &[], "").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["status"]),
            (200, &json!("canceled"))
        );
    }
    let id = server.submit().await;
    server.rig.claim().await;
    let path = format!("/api/v2/jobs/{id}/cancel");
    let answer = server.send(Method::POST, &path, &[], "").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["status"]),
        (200, &json!("canceling"))
    );
    let unknown = "/api/v2/jobs/00000000-0000-7000-8000-000000000000/cancel";
    server
        .send(Method::POST, unknown, &[], "")
        .await
        .is_error(404, "not_found");
}

#[tokio::test]
async fn logs_are_204_until_something_is_written() {
    let server = server();
    let id = server.submit().await;
    let answer = server.get(&format!("/api/v2/jobs/{id}/logs")).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
}

#[tokio::test]
async fn another_accounts_job_is_not_found_anywhere() {
    let rig = Rig::new();
    let (a, b) = (
        rig.server(principal("a"), |_| {}),
        rig.server(principal("b"), |_| {}),
    );
    let id = a.submit().await;
    let unknown = "00000000-0000-7000-8000-000000000000";
    for below in ["", "/workflow", "/logs", "/events"] {
        let foreign = b.get(&format!("/api/v2/jobs/{id}{below}")).await;
        foreign.is_error(404, "not_found");
        assert_eq!(
            foreign.body,
            b.get(&format!("/api/v2/jobs/{unknown}{below}")).await.body
        );
    }
    let cancel = b
        .send(Method::POST, &format!("/api/v2/jobs/{id}/cancel"), &[], "")
        .await;
    cancel.is_error(404, "not_found");
    assert_eq!(b.get("/api/v2/jobs").await.json(), json!({ "jobs": [] }));
}

#[tokio::test]
async fn a_deployment_that_is_not_ready_or_stopped_takes_nothing_in_and_loses_nothing() {
    let server = server();
    let waiting = server.submit().await;
    let body = json!({ "workflow": graph() });
    for (availability, status, code, retry) in [
        (Availability::NotReady, 429, "deployment_not_ready", true),
        (Availability::Stopped, 422, "deployment_stopped", false),
    ] {
        *server.rig.available.lock().expect("no test panics here") = availability;
        let answer = server.post_json("/api/v2/jobs", &body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.json()["error"]["code"], code);
        let seconds: Option<u64> = answer
            .header("retry-after")
            .map(|value| value.parse().expect("whole seconds"));
        assert_eq!(seconds.is_some_and(|seconds| seconds > 0), retry);
        let job = server.get(&format!("/api/v2/jobs/{waiting}")).await;
        assert_eq!(job.json()["status"], "queued");
    }
    *server.rig.available.lock().expect("no test panics here") = Availability::Ready;
    let answer = server.post_json("/api/v2/jobs", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

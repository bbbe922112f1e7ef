//! Jobs over HTTP: what is taken, what is answered, and what is refused.

use accounts::{AccountAdmin, CreditLedger, LedgerRef, Principal};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use workflow_core::{Availability, JobError, JobErrorCode, JobEvent, Timer};

use super::harness::{Answer, Rig, Server, graph, limited, principal, server};

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
async fn a_full_queue_says_when_to_come_back() {
    let short = limited(|tier| tier.queued_jobs = 1);
    let server = Rig::new().server(short, |_| {});
    server.submit().await;
    let answer = submit_with(
        &server,
        &[("idempotency-key", "k")],
        &json!({ "workflow": graph() }),
    )
    .await;
    answer.is_error(429, "queue_full");
    let seconds: u64 = answer
        .header("retry-after")
        .expect("a pause")
        .parse()
        .expect("a whole number");
    assert!((1..=60).contains(&seconds));
}

#[tokio::test]
async fn submissions_have_windows_that_only_what_is_taken_in_counts_in() {
    let slow = limited(|tier| {
        tier.submissions = accounts::RateWindow::read_list("2/1m").expect("windows")
    });
    let server = Rig::new().server(slow, |_| {});
    let key = [("idempotency-key", "k")];
    let workflow = json!({ "workflow": graph() });
    let first = submit_with(&server, &key, &workflow).await;
    assert_eq!(first.status, 201);
    for _ in 0..3 {
        // A replay and a graph that cannot run cost nothing.
        assert_eq!(submit_with(&server, &key, &workflow).await.status, 201);
        let invalid = submit_with(&server, &[], &json!({ "workflow": {} })).await;
        invalid.is_error(422, "invalid_workflow");
    }
    server.submit().await;
    let refused = submit_with(&server, &[], &workflow).await;
    refused.is_error(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(submit_with(&server, &key, &workflow).await.status, 201);
    let other = submit_with(&server, &[("idempotency-key", "other")], &workflow).await;
    other.is_error(429, "rate_limited");
    server.rig.clock.advance(SignedDuration::from_secs(60));
    server.submit().await;
}

#[tokio::test]
async fn an_account_stores_no_more_bytes_than_its_tier_says() {
    let small = limited(|tier| tier.stored_bytes = 1_000);
    let server = Rig::new().server(small, |_| {});
    server.upload("a", &"a".repeat(900)).await;
    let parts = [("content_type", "image/png"), ("file_path", "b")];
    let (kind, body) = super::harness::form(&parts, Some(&"b".repeat(101)));
    let headers = [("content-type", kind.as_str())];
    let upload = server.send(http::Method::POST, "/api/v2/assets", &headers, body);
    let details = upload.await.is_error(413, "storage_quota_exceeded");
    assert_eq!(details["details"]["limit_bytes"], 1_000);
    assert!(
        !server.rig.has_blob(&"b".repeat(101)).await,
        "nothing is kept"
    );
    let hash = asset_store::BlobHash::of("a".repeat(900).as_bytes()).to_string();
    let from_hash = json!({ "hash": hash, "file_path": "elsewhere" });
    let refused = server.post_json("/api/v2/assets/from-hash", &from_hash);
    refused.await.is_error(413, "storage_quota_exceeded");
    let workflow = json!({ "workflow": graph() });
    let refused = submit_with(&server, &[], &workflow).await;
    refused.is_error(413, "storage_quota_exceeded");
    server.upload("c", &"c".repeat(100)).await;
}

#[tokio::test]
async fn a_list_gives_each_job_once_while_others_come() {
    let server = server();
    let mut submitted = Vec::new();
    for _ in 0..5 {
        server.rig.clock.advance(SignedDuration::from_millis(1));
        submitted.push(server.submit().await.to_string());
    }
    let mut listed = Vec::new();
    let mut path = "/api/v2/jobs?limit=2".to_owned();
    loop {
        let page = server.get(&path).await.json();
        for job in page["jobs"].as_array().expect("a list") {
            assert!(job["urls"]["self"].is_string() && job["create_time"].is_string());
            assert!(job["update_time"].is_string());
            listed.push(job["id"].as_str().expect("an id").to_owned());
        }
        let Some(cursor) = page.get("next_cursor") else {
            break;
        };
        path = format!(
            "/api/v2/jobs?limit=2&cursor={}",
            cursor.as_str().expect("a text")
        );
        server.rig.clock.advance(SignedDuration::from_millis(1));
        server.submit().await;
    }
    submitted.reverse();
    assert_eq!(listed, submitted);
}

#[tokio::test]
async fn a_list_is_filtered_by_labels() {
    let server = server();
    for (run, kind) in [("1", "a"), ("2", "a"), ("2", "b")] {
        let metadata = json!({ "run": run, "kind": kind });
        let body = json!({ "workflow": graph(), "metadata": metadata });
        assert_eq!(server.post_json("/api/v2/jobs", &body).await.status, 201);
    }
    for (query, count) in [
        ("", 3),
        ("metadata%5Brun%5D=2", 2),
        ("metadata[run]=2&metadata[kind]=b", 1),
        ("metadata[run]=3", 0),
    ] {
        let page = server.get(&format!("/api/v2/jobs?{query}")).await.json();
        assert_eq!(
            page["jobs"].as_array().map(Vec::len),
            Some(count),
            "{query}"
        );
        assert!(page.get("next_cursor").is_none());
    }
    server
        .get("/api/v2/jobs?metadata=x")
        .await
        .is_error(400, "invalid_metadata_filter");
    server
        .get("/api/v2/jobs?cursor=x")
        .await
        .is_error(400, "invalid_cursor");
    server
        .get("/api/v2/jobs?limit=x")
        .await
        .is_error(422, "invalid_request");
    let page = server.get("/api/v2/jobs?limit=1").await.json();
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let other = server
        .get(&format!("/api/v2/jobs?metadata[run]=2&cursor={cursor}"))
        .await;
    other.is_error(400, "invalid_cursor");
}

#[tokio::test]
async fn a_list_is_filtered_by_states() {
    let server = server();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(server.submit().await);
    }
    for id in &ids[1..4] {
        let path = format!("/api/v2/jobs/{id}/cancel");
        assert_eq!(server.send(Method::POST, &path, &[], "").await.status, 200);
    }
    let list = async |query: &str| {
        let page = server.get(&format!("/api/v2/jobs?{query}")).await.json();
        let jobs = page["jobs"].as_array().expect("a list").iter();
        let known = |job: &Value| ids.iter().position(|id| job["id"] == id.to_string());
        let places: Vec<_> = jobs.filter_map(known).collect();
        (places, page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(list("status=queued").await.0, [4, 0]);
    assert_eq!(list("status=canceled&unknown=1").await.0, [3, 2, 1]);
    assert_eq!(
        list("status=queued&status=canceled").await.0,
        [4, 3, 2, 1, 0]
    );
    assert_eq!(list("status=failed").await, (vec![], None));
    let (first, next) = list("status=canceled&limit=2").await;
    let next = next.expect("there is another page");
    assert_eq!(first, [3, 2]);
    let rest = list(&format!("status=canceled&limit=2&cursor={next}")).await;
    assert_eq!(rest, (vec![1], None));
    let other = format!("/api/v2/jobs?status=queued&cursor={next}");
    server.get(&other).await.is_error(400, "invalid_cursor");
    for wrong in ["done", "", "queued,canceled"] {
        let path = format!("/api/v2/jobs?status={wrong}");
        let error = server.get(&path).await.is_error(400, "invalid_request");
        assert_eq!(error["details"]["field"], "status");
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

/// Billing is on, and an operator granted some cents.
async fn billed(rig: &Rig, cents: i32) {
    let cause = LedgerRef::Grant(uuid::Uuid::new_v4());
    let account = principal("local").account;
    let now = rig.clock.now();
    let granted = rig.accounts.grant(&account, cause, cents, now).await;
    granted.expect("the account is there");
}

#[tokio::test]
async fn without_credits_nothing_new_is_taken_in() {
    let rig = Rig::new();
    let principal = Principal {
        billed: true,
        ..principal("local")
    };
    let server = rig.server(principal, |_| {});
    let body = json!({ "workflow": graph() });
    let refused = server.post_json("/api/v2/jobs", &body).await;
    refused.is_error(402, "insufficient_credits");
    assert_eq!(server.get("/api/v2/jobs").await.status, 200);

    billed(&rig, 1).await;
    let key = [("idempotency-key", "k")];
    let taken = submit_with(&server, &key, &body).await;
    assert_eq!(taken.status, 201);
    billed(&rig, -1).await;
    let again = submit_with(&server, &key, &body).await;
    assert_eq!(again.status, 201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["id"], taken.json()["id"]);
    let other = submit_with(&server, &[("idempotency-key", "new")], &body).await;
    other.is_error(402, "insufficient_credits");
}

#[tokio::test]
async fn a_key_gives_its_job_back_whatever_became_of_what_the_job_needed() {
    let rig = Rig::new();
    let server = rig.server(principal("local"), |_| {});
    let asset = server.upload("a.png", "a picture").await;
    let reference = json!({ "__type": "core/ASSET", "info": { "id": asset["id"] } });
    let workflow = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": reference}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    });
    let body = json!({ "workflow": workflow });
    let key = [("idempotency-key", "k")];
    let taken = submit_with(&server, &key, &body).await;
    assert_eq!(taken.status, 201);
    let id = taken.json()["id"].clone();
    let again = async |server: &Server| {
        let again = submit_with(server, &key, &body).await;
        let replayed = again.header("idempotent-replayed").map(str::to_owned);
        assert_eq!(
            (again.status.as_u16(), replayed.as_deref()),
            (201, Some("true"))
        );
        assert_eq!(again.json()["id"], id);
    };

    let path = |path: &str| format!("/api/v2/{path}");
    let cancel = path(&format!("jobs/{}/cancel", id.as_str().expect("an id")));
    assert_eq!(
        server.send(Method::POST, &cancel, &[], "").await.status,
        200
    );
    let input = path(&format!("assets/{}", asset["id"].as_str().expect("an id")));
    assert_eq!(
        server.send(Method::DELETE, &input, &[], "").await.status,
        204
    );
    again(&server).await;
    let other = submit_with(&server, &[("idempotency-key", "new")], &body).await;
    other.is_error(422, "missing_asset");

    for availability in [Availability::NotReady, Availability::Stopped] {
        *rig.available.lock().expect("nothing panicked") = availability;
        again(&server).await;
    }
    let lapsed = Principal {
        subscribed: false,
        ..principal("local")
    };
    let server = rig.server(lapsed, |_| {});
    again(&server).await;
    // It may run nothing: that is why a new one is refused, whatever else is missing.
    for availability in [
        Availability::NotReady,
        Availability::Stopped,
        Availability::Ready,
    ] {
        *rig.available.lock().expect("nothing panicked") = availability;
        for key in [&[][..], &[("idempotency-key", "new")]] {
            let other = submit_with(&server, key, &body).await;
            other.is_error(403, "forbidden");
        }
    }
    let other = json!({ "workflow": graph() });
    let other = submit_with(&server, &key, &other).await;
    other.is_error(422, "idempotency_key_reuse");
}

#[tokio::test]
async fn credits_that_are_set_aside_are_not_left() {
    let rig = Rig::new();
    let principal = Principal {
        billed: true,
        ..principal("local")
    };
    let server = rig.server(principal.clone(), |_| {});
    billed(&rig, 5).await;
    let cause = LedgerRef::Generation(uuid::Uuid::nil());
    let (hour, now) = (std::time::Duration::from_secs(3600), jiff::Timestamp::now());
    let held = rig
        .accounts
        .reserve((&principal.account).into(), cause, 5, hour, now);
    held.await.expect("memory answers");
    let body = json!({ "workflow": graph() });
    let refused = server.post_json("/api/v2/jobs", &body).await;
    refused.is_error(402, "insufficient_credits");
    let released = rig.accounts.release(&principal.account, cause).await;
    released.expect("memory answers");
    server.submit().await;
}

#[tokio::test]
async fn jobs_and_uploads_are_kept_as_long_as_the_tier_says() {
    let brief = limited(|tier| {
        tier.job_retention = SignedDuration::from_hours(1);
        tier.upload_retention = SignedDuration::from_hours(2);
    });
    let server = Rig::new().server(brief, |_| {});
    let job = server
        .post_json("/api/v2/jobs", &json!({ "workflow": graph() }))
        .await;
    assert_eq!(job.json()["expires_at"], "2026-01-01T01:00:00.000Z");
    let asset = server.upload("x.png", "bytes").await;
    assert_eq!(asset["expires_at"], "2026-01-01T02:00:00.000Z");
    let copy = json!({ "hash": asset["hash"], "file_path": "y.png" });
    let copy = server.post_json("/api/v2/assets/from-hash", &copy).await;
    assert_eq!(copy.json()["expires_at"], "2026-01-01T02:00:00.000Z");
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

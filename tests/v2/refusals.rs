//! Every malformed request gets its status and an envelope that says what to do; nothing answers plain text or 5xx.

use std::net::SocketAddr;

use it::{Answer, Connection, Form, Request, Server};
use serde_json::{Value, json};

use super::tiny_graph;

/// What every answer of this family carries, refusals included.
fn check_envelope(name: &str, answer: &Answer) {
    let id = answer
        .header("x-service-request-id")
        .unwrap_or_else(|| panic!("{name}: no request id"));
    assert_eq!(answer.header("x-comfy-request-id"), Some(id), "{name}");
    assert_eq!(id.len(), 36, "{name}: {id} is no UUID");
    if answer.status >= 400 && !answer.body.is_empty() {
        let content_type = answer.header("content-type").unwrap_or_default();
        assert!(
            content_type.starts_with("application/json"),
            "{name}: {content_type}: {}",
            answer.text()
        );
        let error = &answer.json()["error"];
        assert!(error["code"].is_string(), "{name}: {}", answer.text());
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| message.len() > 5),
            "{name}: {}",
            answer.text()
        );
    }
}

async fn check(
    server: SocketAddr,
    name: &str,
    request: Request,
    status: u16,
    code: &str,
) -> Answer {
    let answer = request
        .send(server)
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    check_envelope(name, &answer);
    assert_eq!(
        (answer.status, answer.error_code().as_str()),
        (status, code),
        "{name}: {}",
        answer.text()
    );
    answer
}

fn submit(body: &str) -> Request {
    Request::new("POST", "/api/v2/jobs")
        .header("Content-Type", "application/json")
        .body(body)
}

fn submit_with(field: &str, value: Value) -> Request {
    let mut body = json!({"workflow": tiny_graph(1)});
    body[field] = value;
    Request::post_json("/api/v2/jobs", &body)
}

fn upload(form: Form) -> Request {
    Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body())
}

fn good_form() -> Form {
    Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
}

#[tokio::test]
async fn malformed_submissions_are_refused_and_nothing_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start(data.path()).await.unwrap();
    let server = process.address;

    let deep = format!("{{\"workflow\": {}{}}}", "[".repeat(200), "]".repeat(200));
    let no_json = [
        "",
        "{",
        "nonsense",
        "{\"workflow\": }",
        "{\"workflow\": NaN}",
        "\u{feff}{}",
        &deep,
    ];
    for body in no_json {
        check(
            server,
            &format!("not JSON: {body:.20}"),
            submit(body),
            400,
            "invalid_request",
        )
        .await;
    }
    let no_graph = [
        "[]",
        "null",
        "1",
        "{}",
        r#"{"workflow": null}"#,
        r#"{"workflow": []}"#,
        r#"{"workflow": {}}"#,
        r#"{"workflow": "x"}"#,
    ];
    for body in no_graph {
        check(
            server,
            &format!("no graph: {body}"),
            submit(body),
            422,
            "invalid_workflow",
        )
        .await;
    }
    check(
        server,
        "editor format",
        submit(r#"{"workflow": {"nodes": [], "links": []}}"#),
        422,
        "workflow_format_ui",
    )
    .await;
    let other_type = submit("{}").header("Content-Type", "text/plain");
    check(
        server,
        "two content types",
        other_type,
        415,
        "invalid_request",
    )
    .await;
    let no_type = Request::new("POST", "/api/v2/jobs").body("{}");
    check(server, "no content type", no_type, 415, "invalid_request").await;

    for field in ["webhook_url", "inputs"] {
        check(
            server,
            field,
            submit_with(field, json!("x")),
            422,
            "invalid_request",
        )
        .await;
    }
    for extra in [
        json!({"unknown": "x"}),
        json!({"api_key_service_org": 1}),
        json!("x"),
    ] {
        check(
            server,
            &format!("extra_data {extra}"),
            submit_with("extra_data", extra),
            422,
            "invalid_request",
        )
        .await;
    }
    let many: serde_json::Map<String, Value> =
        (0..17).map(|n| (format!("k{n}"), json!("v"))).collect();
    let labels = [
        json!({"bad key": "v"}),
        json!({"": "v"}),
        json!({"k".repeat(41): "v"}),
        json!({"k": 1}),
        json!({"k": "v".repeat(501)}),
        json!({"k": "a\u{202e}b"}),
        json!({"k": "a\nb"}),
        json!([]),
        Value::Object(many),
    ];
    for labels in labels {
        check(
            server,
            &format!("labels {labels:.30}"),
            submit_with("metadata", labels),
            422,
            "metadata_invalid",
        )
        .await;
    }
    for key in ["", &"k".repeat(256), "käse"] {
        let request = submit_with("metadata", json!({})).header("Idempotency-Key", key);
        let answer = request.send(server).await.unwrap();
        check_envelope(key, &answer);
        assert!(
            matches!(answer.status, 400 | 422),
            "{key}: {}",
            answer.text()
        );
    }
    let list = Request::get("/api/v2/jobs").send(server).await.unwrap();
    assert_eq!(list.json()["jobs"], json!([]), "something was kept");
    assert!(process.terminate().await.unwrap().success());
}

#[tokio::test]
async fn every_error_of_a_graph_is_told_at_once() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start(data.path()).await.unwrap();
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 0, "height": "abc", "batch_size": 1, "color": 0}},
        "2": {"class_type": "ImageScale", "inputs": {"image": ["1", 0], "upscale_method": "cubic-ish", "width": 8, "height": 8}},
        "3": {"class_type": "NoSuchNode", "inputs": {}},
        "4": {"inputs": {}},
        "5": {"class_type": "ImageInvert", "inputs": {"image": ["6", 0]}},
        "6": {"class_type": "ImageInvert", "inputs": {"image": ["5", 0]}},
        "7": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "x"}},
        "8": {"class_type": "SaveImage", "inputs": {"images": ["99", 0], "filename_prefix": "x"}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["6", 0], "filename_prefix": "x"}},
        "10": {"class_type": "LoadImage", "inputs": {"image": "nope.png"}},
        "11": {"class_type": "SaveImage", "inputs": {"images": ["10", 1], "filename_prefix": "x"}},
    });
    let request = Request::post_json("/api/v2/jobs", &json!({"workflow": graph}));
    let answer = check(
        process.address,
        "many errors",
        request,
        422,
        "invalid_workflow",
    )
    .await;
    let errors = &answer.json()["error"]["details"]["node_errors"];
    let fields = |node: &str| -> Vec<String> {
        let entries = errors[node]
            .as_array()
            .unwrap_or_else(|| panic!("node {node} has no errors: {errors}"));
        entries
            .iter()
            .map(|entry| entry["field"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(fields("1"), ["width", "height"]);
    assert_eq!(fields("2"), ["upscale_method", "crop"]);
    assert_eq!(
        (
            fields("3").len(),
            fields("4").len(),
            fields("5").len(),
            fields("6").len()
        ),
        (1, 1, 1, 1)
    );
    assert_eq!(
        (fields("8"), fields("10")),
        (vec!["images".to_owned()], vec!["image".to_owned()])
    );
    assert_eq!(fields("11"), ["images"]);
    for entry in errors
        .as_object()
        .unwrap()
        .values()
        .flat_map(|entries| entries.as_array().unwrap())
    {
        assert!(
            entry["reason"]
                .as_str()
                .is_some_and(|reason| reason.len() > 8),
            "{entry}"
        );
    }
}

#[tokio::test]
async fn malformed_uploads_are_refused_and_nothing_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start_with(data.path(), ["--upload-limit", "100KB"])
        .await
        .unwrap();
    let server = process.address;

    let missing = [
        ("file", good_form()),
        (
            "content_type",
            Form::new().field("file_path", "a").file("file", "a", b"x"),
        ),
        (
            "file_path",
            Form::new()
                .field("content_type", "text/plain")
                .file("file", "a", b"x"),
        ),
    ];
    for (part, form) in missing {
        let answer = check(
            server,
            &format!("no {part}"),
            upload(form),
            422,
            "invalid_request",
        )
        .await;
        assert!(
            answer.text().contains(part),
            "the message names {part}: {}",
            answer.text()
        );
    }
    for path in [
        "",
        "/etc/passwd",
        "../a",
        "a/../../b",
        "a\\..\\..\\b",
        "C:\\a",
        "a\u{0}b",
        &"x".repeat(5000),
    ] {
        let form = Form::new()
            .field("content_type", "text/plain")
            .field("file_path", path)
            .file("file", "a", b"x");
        check(
            server,
            &format!("path {path:.20}"),
            upload(form),
            422,
            "invalid_request",
        )
        .await;
    }
    for expires_in in ["59", "604801", "x", "-1", ""] {
        let form = good_form()
            .field("expires_in", expires_in)
            .file("file", "a", b"x");
        check(
            server,
            &format!("expires_in {expires_in}"),
            upload(form),
            422,
            "invalid_request",
        )
        .await;
    }
    let form = good_form()
        .field("expected_hash", "sha256:00")
        .file("file", "a", b"x");
    check(server, "bad hash", upload(form), 422, "invalid_request").await;
    let wrong = format!("blake3:{}", "0".repeat(64));
    let form = good_form()
        .file("file", "a", b"x")
        .field("expected_hash", &wrong);
    check(
        server,
        "other hash, sent last",
        upload(form),
        409,
        "hash_mismatch",
    )
    .await;
    let large = good_form().file("file", "a", &vec![7; 200_000]);
    check(server, "too large", upload(large), 413, "payload_too_large").await;

    let no_form = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", "application/json")
        .body("{}");
    check(server, "no form", no_form, 415, "invalid_request").await;
    let no_boundary = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", "multipart/form-data")
        .body("x");
    let answer = no_boundary.send(server).await.unwrap();
    check_envelope("no boundary", &answer);
    assert!(matches!(answer.status, 415 | 422), "{}", answer.text());
    let torn = Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
    let torn = torn.body(
        b"------form-of-a-test\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nabc"
            .to_vec(),
    );
    check(server, "torn form", torn, 422, "invalid_request").await;

    let unknown = json!({"hash": wrong});
    check(
        server,
        "from unknown hash",
        Request::post_json("/api/v2/assets/from-hash", &unknown),
        404,
        "blob_not_found",
    )
    .await;
    for body in [
        json!({}),
        json!({"hash": "x"}),
        json!({"hash": 1}),
        json!({"hash": wrong, "file_path": "../x"}),
        json!([]),
    ] {
        check(
            server,
            &format!("from-hash {body}"),
            Request::post_json("/api/v2/assets/from-hash", &body),
            422,
            "invalid_request",
        )
        .await;
    }
    for name in ["a.txt", "a"] {
        let probe = json!({"workflow": {"1": {"class_type": "LoadImage", "inputs": {"image": name}}, "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}}});
        check(
            server,
            "nothing was kept",
            Request::post_json("/api/v2/jobs", &probe),
            422,
            "invalid_workflow",
        )
        .await;
    }
    assert!(process.terminate().await.unwrap().success());
    assert_eq!(
        files_below(&data.path().join("blobs")),
        0,
        "a refused upload left bytes behind"
    );
}

fn files_below(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { files_below(&path) } else { 1 })
        .sum()
}

#[tokio::test]
async fn unknown_routes_methods_and_ids_answer_in_the_envelope() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start(data.path()).await.unwrap();
    let server = process.address;
    let id = "7f3d2c1b-9a8e-4d6f-b012-3c4d5e6f7a8b";
    let unknown = [
        "/api/v2/nothing".to_owned(),
        "/api/v2".to_owned(),
        format!("/api/v2/jobs/{id}"),
        "/api/v2/jobs/no-uuid".to_owned(),
        "/api/v2/jobs/%2e%2e".to_owned(),
        "/api/v2/jobs/a%2Fb".to_owned(),
        format!("/api/v2/jobs/{id}/events"),
        format!("/api/v2/jobs/{id}/workflow"),
        format!("/api/v2/jobs/{id}/logs"),
        format!("/api/v2/assets/{id}"),
        format!("/api/v2/assets/{id}/content"),
        format!("/api/v2/jobs/{id}/nothing"),
    ];
    for target in unknown {
        check(server, &target, Request::get(&target), 404, "not_found").await;
    }
    check(
        server,
        "cancel unknown",
        Request::new("POST", &format!("/api/v2/jobs/{id}/cancel")),
        404,
        "not_found",
    )
    .await;
    check(
        server,
        "delete unknown",
        Request::new("DELETE", &format!("/api/v2/assets/{id}")),
        404,
        "not_found",
    )
    .await;
    for (method, target) in [
        ("PUT", "/api/v2/jobs"),
        ("DELETE", "/api/v2/jobs"),
        ("PATCH", "/api/v2/assets"),
        ("GET", "/api/v2/assets/from-hash"),
    ] {
        let answer = Request::new(method, target).send(server).await.unwrap();
        check_envelope(target, &answer);
        // A path that is also an id of another route is simply not found.
        assert!(
            answer.status == 405 && answer.header("allow").is_some() || answer.status == 404,
            "{method} {target}: {}",
            answer.text()
        );
    }
    check(
        server,
        "forged link",
        Request::get("/signed/AAAA/a.png"),
        403,
        "forbidden",
    )
    .await;
    for query in ["limit=x", "limit=", "limit=1.5"] {
        let answer = Request::get(&format!("/api/v2/jobs?{query}"))
            .send(server)
            .await
            .unwrap();
        check_envelope(query, &answer);
        assert!(
            matches!(answer.status, 400 | 422),
            "{query}: {}",
            answer.text()
        );
    }
    for query in [
        "cursor=x",
        "cursor=",
        "cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        check(
            server,
            query,
            Request::get(&format!("/api/v2/jobs?{query}")),
            400,
            "invalid_cursor",
        )
        .await;
    }
    for query in [
        "metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1",
        "metadata[=1",
        "metadata[]=1",
        "metadata[a%20b]=1",
    ] {
        check(
            server,
            query,
            Request::get(&format!("/api/v2/jobs?{query}")),
            400,
            "invalid_metadata_filter",
        )
        .await;
    }
    for (limit, used) in [("0", 1), ("-5", 1), ("1000000000000000000000", 100)] {
        let answer = Request::get(&format!("/api/v2/jobs?limit={limit}"))
            .send(server)
            .await
            .unwrap();
        assert_eq!(
            answer.status,
            200,
            "limit {limit} is clamped to {used}: {}",
            answer.text()
        );
    }
    assert!(process.terminate().await.unwrap().success());
}

#[tokio::test]
async fn requests_that_two_servers_could_read_differently_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start(data.path()).await.unwrap();
    let server = process.address;
    let heads = [
        ("no host", "GET /api/v2/jobs HTTP/1.1\r\n\r\n", 400),
        (
            "two hosts",
            "GET /api/v2/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            400,
        ),
        (
            "both lengths",
            "POST /api/v2/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            "two lengths",
            "POST /api/v2/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            400,
        ),
        (
            "other encoding",
            "POST /api/v2/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
    ];
    for (name, head, status) in heads {
        let mut connection = Connection::open(server).await.unwrap();
        connection.write(head.as_bytes()).await.unwrap();
        let answer = connection
            .answer(false)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        check_envelope(name, &answer);
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        assert_eq!(
            connection.until_closed().await.unwrap(),
            b"",
            "{name}: the connection goes on"
        );
    }
    let hostile = Request::get("/api/v2/jobs").header("Host", "evil.example\"><script>");
    let answer = hostile.send(server).await.unwrap();
    check_envelope("hostile host", &answer);
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(process.terminate().await.unwrap().success());
}

//! Submissions that are refused.

use super::*;

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
